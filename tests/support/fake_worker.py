"""A worker without an engine, for the launcher's tests: it speaks the protocol and does what the model's name says.

`fast` ends at once; `slow` reports for ten minutes unless canceled; `once` does so the first time alone; `deaf` reports
and ignores its cancel; `dies` writes to stderr and exits in mid-run; `stillborn` exits before the run has started;
`chatty` prints what is no event; `patient` loads until it is canceled; `stuck` loads for ten minutes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

canceled: set[str] = set()


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def carry_out(run_id: str, folder: Path, model: str) -> None:
    say("loading", model=model, message=f"reading {model}")
    if model == "stillborn":
        sys.stderr.write("no such model\n")
        sys.stderr.flush()
        os._exit(3)
    if model in ("patient", "stuck"):
        time.sleep(600 if model == "stuck" else 0)
        while run_id not in canceled:
            time.sleep(0.02)
        say("finished", run_id=run_id, status="stopped", error=None)
        return
    say("loaded", model=model, seconds=0.0)
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    say("started", run_id=run_id)
    mark = folder.parent / "once"
    takes_long = model in ("slow", "deaf", "dies") or (model == "once" and not mark.exists())
    if model == "once":
        mark.touch()
    for tokens in range(12_000 if takes_long else 2):
        say("progress", run_id=run_id, finished_requests=0, requests=8, output_tokens=tokens, elapsed_s=tokens / 20)
        if run_id in canceled and model != "deaf":
            say("finished", run_id=run_id, status="stopped", error=None)
            return
        if model == "dies" and tokens == 3:
            sys.stderr.write("x" * 100_000 + "\nthe last words\n")
            sys.stderr.flush()
            os._exit(7)
        if takes_long:
            time.sleep(0.05)
    if model == "chatty":
        print("a library prints this to stdout", flush=True)
        print('{"event": "progress"}', flush=True)
    say("finished", run_id=run_id, status="oom" if model == "big" else "completed", error=None)


def calibrate(run_id: str, model: str, engines: list[str]) -> None:
    """Measure nothing: `patient` until it is canceled, every other model at once."""
    say("loading", model=model, message=f"passes of {', '.join(engines)}")
    while model == "patient" and run_id not in canceled:
        time.sleep(0.02)
    say("finished", run_id=run_id, status="stopped" if model == "patient" else "completed", error=None)


def listen(runs: list[dict[str, Any]], arrived: threading.Condition) -> None:
    """Read commands until stdin closes, and leave with it, whatever is being carried out."""
    for line in sys.stdin:
        command = json.loads(line)
        with arrived:
            if command["command"] == "cancel":
                canceled.add(command["run_id"])
            else:
                runs.append(command)
            arrived.notify()
    os._exit(0)


def main() -> None:
    runs: list[dict[str, Any]] = []
    arrived = threading.Condition()
    threading.Thread(target=listen, args=(runs, arrived), daemon=True).start()
    say("ready", pid=os.getpid())
    while True:
        with arrived:
            while not runs:
                arrived.wait()
            command = runs.pop(0)
        if command["command"] == "load":
            say("loading", model=command["model"], message=f"reading {command['model']}")
            say("loaded", model=command["model"], seconds=0.0)
        elif command["command"] == "calibrate":
            calibrate(command["run_id"], command["config"]["model"], command["engines"])
        else:
            carry_out(command["run_id"], Path(command["folder"]), command["config"]["model"])


if __name__ == "__main__":
    main()
