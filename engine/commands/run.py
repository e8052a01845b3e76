"""`engine run`: one run, or several repeats of it, measured in this process and logged like any other."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.commands import options
from engine.commands.experiments import (
    ShouldStop,
    Tell,
    add_experiment_arguments,
    carry_out,
    device,
    output_folder,
    stop_on_signal,
    tell,
)
from engine.core.config import RunConfig
from engine.core.experiment import ExperimentKind, Plan, Point, interleaved, newest_records
from engine.core.run_id import new_run_id
from engine.runlog.experiment_log import utc_now

if TYPE_CHECKING:
    from engine.runtime.prepared_run import PreparedRun, WarmModel

KIND: ExperimentKind = "repeats"
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
    add_experiment_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0 when every run completed, 1 when one did not. ValueError for bad options."""
    if args.resume is not None:
        asked, results = _experiment(args)
    else:
        asked, results = args.repeats, _new_runs(args)
    report = _report(results, asked)
    print(json.dumps(report) if args.json else _table(report))
    return 0 if report["status"] == "completed" else 1


def _new_runs(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Each result is flat: run_id, status, error, oom and every metric by its name.

    Several repeats are an experiment, kept in a folder of its own beside the runs'.
    """
    config = options.run_config(args)
    if not 1 <= args.repeats <= 1000:
        raise ValueError(f"repeats {args.repeats}: use 1 to 1000")
    out = output_folder(args.out)
    # Loading torch takes seconds; bad options should not have to wait for it.
    from engine.runtime.environment import use_available_threads
    from engine.runtime.prepared_run import WarmModel, prepare_run

    use_available_threads()
    warm = WarmModel()
    with stop_on_signal() as should_stop:
        prepared = prepare_run(config, warm, lambda message, fraction: tell(message))
        if args.repeats == 1:
            return _run_once(prepared, out, warm, should_stop, tell)
        if should_stop():
            return []
    return _experiment(args, warm)[1]


def _experiment(args: argparse.Namespace, warm: WarmModel | None = None) -> tuple[int, list[dict[str, Any]]]:
    """How many runs the experiment asks for, a new one or that of --resume, and those that there are, in order."""
    logged = carry_out(args, KIND, lambda: _repeats_plan(options.run_config(args), args.repeats), warm=warm)
    newest = newest_records(logged.records)
    there = [newest[point.point_id] for point in logged.plan.points if point.point_id in newest]
    return len(logged.plan.points), [_flat(record.run_id, record.to_dict()) for record in there]


def _run_once(
    prepared: PreparedRun, out: Path, warm: WarmModel, should_stop: ShouldStop, tell: Tell
) -> list[dict[str, Any]]:
    """The one run's result; none when it was stopped while it waited for the device."""
    from engine.runtime.run import execute_run

    run_id = new_run_id()
    try:
        with device(str(prepared.device), f"run {run_id}", should_stop, tell):
            return [_flat(run_id, execute_run(prepared, run_id, out / run_id, warm, should_stop=should_stop))]
    except InterruptedError:
        return []


def _repeats_plan(config: RunConfig, repeats: int) -> Plan:
    point = Point(key="run", position=0, repeat=0, values={"engine": config.engine}, config=config)
    return Plan(
        experiment_id=new_run_id(),
        kind=KIND,
        label=f"{repeats} repeats",
        created_at=utc_now(),
        settings={"repeats": repeats},
        points=interleaved([point], repeats),
    )


def _flat(run_id: str | None, result: Mapping[str, Any]) -> dict[str, Any]:
    return {"run_id": run_id, **{name: result[name] for name in ("status", "error", "oom")}, **result["totals"]}


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
