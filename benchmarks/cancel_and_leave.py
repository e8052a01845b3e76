"""The seconds until a cancel is heard, and until a worker is gone after its app was killed, on a busy machine.

    python -m benchmarks.cancel_and_leave [--busy 8] [--turns 5]

`--busy` processes compute all the time. Heard: from the cancel to the end of the job, as a page sees it. Gone: from the
SIGKILL of the process that started the worker to the end of the worker. Prints a Markdown table with median and
maximum over the turns.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from engine.core.config import RunConfig, WorkloadConfig
from engine.launcher.job import Job
from engine.launcher.run_queue import RunQueue

LONG = RunConfig(model="tiny-random", device="cpu", workload=WorkloadConfig(prompts="p16", requests=64, budget="2000"))
PAUSE_S = 0.005
# Starts a worker as the app does, sends it the commands of its arguments, and tells the worker's pid and its events.
APP = """
import json, sys, time
from pathlib import Path
from engine.launcher.worker_process import WORKER_COMMAND, WorkerProcess
worker = WorkerProcess(WORKER_COMMAND, Path(sys.argv[1]), lambda worker, event: print(type(event).__name__, flush=True))
print(worker.pid, flush=True)
for command in sys.argv[2:]:
    worker.send(json.loads(command))
time.sleep(600)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--busy", type=int, default=8, metavar="N", help="processes that compute beside it (8)")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="turns of each case (5)")
    options = parser.parse_args()
    rivals = [multiprocessing.Process(target=_compute, daemon=True) for _ in range(options.busy)]
    for rival in rivals:
        rival.start()
    cases: dict[str, Callable[[], float]] = {
        "cancel heard, worker starting": lambda: _heard(lambda job: job.state == "loading"),
        "cancel heard, running": lambda: _heard(_has_tokens),
        "worker gone, importing torch": lambda: _gone(None, 1.0),
        "worker gone, without a run": lambda: _gone("Ready", 0.0),
        "worker gone, running": lambda: _gone("Progress", 0.5),
    }
    print(f"Beside {options.busy} busy processes, {options.turns} turns.\n")
    print("| what | median | maximum |\n|---|---|---|")
    for name, measure in cases.items():
        seconds = [measure() for _ in range(options.turns)]
        print(f"| {name} | {statistics.median(seconds):.2f} s | {max(seconds):.2f} s |", flush=True)
    for rival in rivals:
        rival.terminate()


def _compute() -> None:
    while True:
        sum(range(100_000))


def _has_tokens(job: Job) -> bool:
    return job.current is not None and job.current.output_tokens > 0


def _heard(when: Callable[[Job], bool]) -> float:
    """From the cancel of a job in a new queue, once it is as `when` says, to the job's end."""
    with tempfile.TemporaryDirectory() as home:
        queue = RunQueue(Path(home))
        job = queue.submit([LONG])
        queue.wait(job.job_id, when, timeout_s=600)
        began_s = time.perf_counter()
        queue.cancel(job.job_id)
        queue.wait(job.job_id, timeout_s=600)
        heard_s = time.perf_counter() - began_s
        queue.close()
        return heard_s


def _gone(event: str | None, then_s: float) -> float:
    """From the kill of an app, `then_s` after an event of its worker, to the end of the worker."""
    with tempfile.TemporaryDirectory() as home:
        run = {"command": "run", "run_id": "r1", "folder": f"{home}/r1", "config": LONG.to_dict(), "experiment": None}
        commands = [json.dumps(run)] if event == "Progress" else []
        app = subprocess.Popen([sys.executable, "-c", APP, home, *commands], stdout=subprocess.PIPE, text=True)
        assert app.stdout is not None
        worker = int(app.stdout.readline())
        while event is not None and app.stdout.readline().strip() != event:
            pass
        time.sleep(then_s)
        app.kill()
        began_s = time.perf_counter()
        while _lives(worker):
            time.sleep(PAUSE_S)
        app.wait()
        return time.perf_counter() - began_s


def _lives(pid: int) -> bool:
    """Whether a process runs; one that only waits to be noticed does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


if __name__ == "__main__":
    main()
