"""`engine run`: one run, or several repeats of it, measured in this process and logged like any other."""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.commands import options
from engine.core.config import RunConfig
from engine.core.home import device_lock, runs_folder
from engine.core.run_id import new_run_id

SUMMARY = (
    ("output_tokens", "output tokens", ""),
    ("duration_s", "duration", "s"),
    ("output_tokens_per_s", "throughput", "tok/s"),
    ("queue_wait_p50_s", "queue wait p50", "s"),
    ("ttft_p50_s", "TTFT p50", "s"),
    ("itl_p50_s", "ITL p50", "s"),
    ("passes", "passes", ""),
    ("useful_slot_steps", "useful slot-steps", ""),
    ("slot_steps", "slot-steps", ""),
    ("dead_fraction", "dead fraction", ""),
    ("padding_fraction", "padding fraction", ""),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_engine_options(parser)
    options.add_model_options(parser)
    options.add_workload_options(parser)
    options.add_sampling_options(parser)
    group = parser.add_argument_group("measuring")
    group.add_argument(
        "--warmups", type=int, default=1, metavar="N", help="warm-up rounds before the clock (default 1)"
    )
    group.add_argument("--repeats", type=int, default=1, metavar="N", help="runs in the experiment (default 1)")
    group.add_argument("--out", metavar="FOLDER", help="folder of run folders (default $LAB_HOME/runs)")
    parser.add_argument("--json", action="store_true", help="one flat JSON object")


def run(args: argparse.Namespace) -> int:
    """0 when every run completed, 1 when one did not. ValueError for bad options."""
    config = options.run_config(args)
    if not 1 <= args.repeats <= 1000:
        raise ValueError(f"repeats {args.repeats}: use 1 to 1000")
    out = Path(args.out) if args.out else runs_folder()
    _require_folder(out)
    with _stop_on_signal() as should_stop:
        results = run_all(config, args.repeats, out, should_stop, tell=lambda text: print(text, file=sys.stderr))
    report = _report(results, args.repeats)
    print(json.dumps(report) if args.json else _table(report))
    return 0 if report["status"] == "completed" else 1


def run_all(
    config: RunConfig, repeats: int, out: Path, should_stop: Callable[[], bool], tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Run `config` `repeats` times. Each result is flat: run_id, status, error, oom and every metric by its name."""
    # Loading torch takes seconds; bad options should not have to wait for it.
    from engine.runlog.locks import hold
    from engine.runtime.environment import use_available_threads
    from engine.runtime.prepared_run import WarmModel, prepare_run
    from engine.runtime.run import execute_run

    use_available_threads()
    warm = WarmModel()
    prepared = prepare_run(config, warm, lambda message, fraction: tell(message))
    experiment = {"id": new_run_id(), "kind": "repeats", "label": f"{repeats} repeats"} if repeats > 1 else None
    results: list[dict[str, Any]] = []
    for _ in range(repeats):
        if should_stop():
            break
        run_id = new_run_id()
        lock = hold(
            device_lock(str(prepared.device)),
            purpose=f"run {run_id}",
            on_wait=lambda holder: tell(f"waiting: the device is taken: {holder}"),
            should_stop=should_stop,
        )
        try:
            with lock:
                result = execute_run(
                    prepared, run_id, out / run_id, warm, experiment=experiment, should_stop=should_stop
                )
        except InterruptedError:  # stopped while it waited for the device
            break
        results.append({"run_id": run_id, **{k: result[k] for k in ("status", "error", "oom")}, **result["totals"]})
    return results


def _report(results: list[dict[str, Any]], asked: int) -> dict[str, Any]:
    """One flat object: the run itself, or the medians over the completed repeats, with all of them under `runs`.

    Completed only when all `asked` runs are.
    """
    if asked == 1 and results:
        return results[0]
    if not results:
        return {"run_id": None, "status": "stopped", "error": "stopped before the first run", "runs": []}
    completed = [r for r in results if r["status"] == "completed"]
    worst = next((r for r in results if r["status"] != "completed"), results[0])
    report = {key: worst[key] for key in ("run_id", "status", "error", "oom")}
    if len(results) < asked and report["status"] == "completed":
        report |= {"status": "stopped", "error": f"stopped after {len(results)} of {asked} runs"}
    for name in completed[0] if completed else ():
        values = [r[name] for r in completed]
        if name not in report:
            numbers = all(isinstance(v, int | float) for v in values)
            report[name] = statistics.median(values) if numbers else None
    report["runs"] = results
    return report


def _table(report: dict[str, Any]) -> str:
    subject = "no run" if report["run_id"] is None else f"run {report['run_id']}"
    lines = [f"{subject}: {report['status']}" + (f" ({report['error']})" if report.get("error") else "")]
    for name, label, unit in SUMMARY:
        value = report.get(name)
        if value is not None:
            lines.append(f"  {label:<18} {value:>10.4g} {unit}".rstrip())
    if report.get("runs"):
        lines.append(f"  medians over {sum(r['status'] == 'completed' for r in report['runs'])} completed runs")
    return "\n".join(lines)


def _require_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"out {out}: {error.strerror or error}; name a folder that can be written") from None


@contextmanager
def _stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM end the run after the pass at hand, with its log closed; a second one ends the process."""
    stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopped
        stopped = True
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
