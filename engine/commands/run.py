"""`engine run`: one run, or several repeats of it, measured and logged in this process."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
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
from engine.commands.summary import arrival_lines, requested_rate, summary_lines
from engine.core.config import RunConfig
from engine.core.run_id import new_run_id, utc_now
from engine.experiments.experiment import REPEATS, Plan, newest_records
from engine.experiments.repeats import KIND, plan_repeats

if TYPE_CHECKING:
    from engine.runtime.prepared_run import PreparedRun, WarmModel

SUMMARY = (
    *("output_tokens", "duration_s", "output_tokens_per_s", "queue_wait_p50_s", "ttft_p50_s", "itl_p50_s"),
    *("passes", "useful_slot_steps", "slot_steps", "dead_fraction", "padding_fraction"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The results so far, and how many runs were asked for. `experiment_id` is set for several repeats."""

    results: list[dict[str, Any]]
    asked: int
    experiment_id: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_engine_options(parser)
    options.add_model_options(parser)
    options.add_workload_options(parser)
    options.add_sampling_options(parser)
    add_experiment_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0 when every run completed, 1 when one did not. ValueError for bad options."""
    ran = _new_runs(args) if args.resume is None else _experiment(args)
    report = _report(ran.results, ran.asked)
    print(json.dumps(report) if args.json else _table(report, ran.experiment_id))
    return 0 if report["status"] == "completed" else 1


def _new_runs(args: argparse.Namespace) -> Ran:
    """Each result is flat: run_id, status, error, oom and every metric by name.

    Several repeats are an experiment, saved in its own folder beside the runs.
    """
    config = options.run_config(args)
    REPEATS.check(args.repeats)
    out = output_folder(args.out)
    # Loading torch takes seconds; bad options fail before it.
    from engine.runtime.environment import use_available_threads
    from engine.runtime.prepared_run import WarmModel, prepare_run

    use_available_threads()
    warm = WarmModel()
    with stop_on_signal() as should_stop:
        prepared = prepare_run(config, warm, lambda message, fraction: tell(message))
        if args.repeats == 1:
            return Ran(results=_run_once(prepared, out, warm, should_stop, tell), asked=1)
        if should_stop():
            return Ran(results=[], asked=args.repeats)
    return _experiment(args, warm)


def _experiment(args: argparse.Namespace, warm: WarmModel | None = None) -> Ran:
    """Run a new experiment or the one in --resume: its results in plan order, and how many runs it has in total."""
    logged = carry_out(args, KIND, lambda: _repeats_plan(args), warm=warm)
    newest = newest_records(logged.records)
    recorded = [(point, newest[point.point_id]) for point in logged.plan.points if point.point_id in newest]
    results = [
        {"engine": p.config.engine, **_flat(record.run_id, record.to_dict(), p.config)} for p, record in recorded
    ]
    return Ran(results=results, asked=len(logged.plan.points), experiment_id=logged.plan.experiment_id)


def _run_once(
    prepared: PreparedRun, out: Path, warm: WarmModel, should_stop: ShouldStop, tell: Tell
) -> list[dict[str, Any]]:
    """The run's result; empty if it was stopped while waiting for the device."""
    from engine.runtime.run import execute_run

    run_id = new_run_id()
    try:
        with device(str(prepared.device), f"run {run_id}", should_stop, tell):
            result = execute_run(prepared, run_id, out / run_id, warm, should_stop=should_stop)
            return [_flat(run_id, result, prepared.config)]
    except InterruptedError:
        return []


def _repeats_plan(args: argparse.Namespace) -> Plan:
    return plan_repeats(
        [options.run_config(args)], experiment_id=new_run_id(), created_at=utc_now(), repeats=args.repeats
    )


def _flat(run_id: str | None, result: Mapping[str, Any], config: RunConfig) -> dict[str, Any]:
    ended = {name: result[name] for name in ("status", "error", "oom")}
    return {"run_id": run_id, **ended, **result["totals"], **requested_rate(config, result["totals"])}


def _report(results: list[dict[str, Any]], asked: int) -> dict[str, Any]:
    """One flat object: the run itself, or the medians over the completed repeats, with all runs under `runs`.

    The status is completed only if all `asked` runs are. With several engines (repeats from Bench), each engine's
    medians are under `engines`.
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
    engines = dict.fromkeys(r.get("engine") for r in results)
    if len(engines) > 1:
        report["engines"] = {name: _medians([r for r in completed if r["engine"] == name]) for name in engines}
    else:
        report = report | {name: value for name, value in _medians(completed).items() if name not in report}
    return report | {"runs": results}


def _medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of every number, and every other value that all runs share; empty without a run."""
    medians: dict[str, Any] = {}
    for name in runs[0] if runs else ():
        values = [r[name] for r in runs]
        if all(isinstance(v, int | float) for v in values):
            medians[name] = statistics.median(values)
        else:
            medians[name] = values[0] if all(v == values[0] for v in values) else None
    return {name: value for name, value in medians.items() if name not in ("run_id", "status", "error", "oom")}


def _table(report: dict[str, Any], experiment_id: str | None = None) -> str:
    lines = [_headline(report, experiment_id)]
    for engine, figures in (report.get("engines") or {None: report}).items():
        lines += [f"{engine}:"] if engine else []
        lines += summary_lines(figures, SUMMARY) + arrival_lines(figures)
    if report.get("runs"):
        completed = sum(r["status"] == "completed" for r in report["runs"])
        each = ", per engine" if report.get("engines") else ""
        lines.append(f"  medians over {completed} completed runs{each}")
    return "\n".join(lines)


def _headline(report: dict[str, Any], experiment_id: str | None) -> str:
    """`run a: completed`; `experiment b: 3 runs completed, medians`; `experiment b: 1 run completed; stopped (…)`."""
    ended = report["status"] + (f" ({report['error']})" if report.get("error") else "")
    if experiment_id is None or not report.get("runs"):
        subject = "no run" if report["run_id"] is None else f"run {report['run_id']}"
        return f"{subject}: {ended}"
    completed = sum(each["status"] == "completed" for each in report["runs"])
    text = f"experiment {experiment_id}: {completed} run{'' if completed == 1 else 's'} completed"
    text += ", medians" if completed > 1 else ""
    return text if report["status"] == "completed" else f"{text}; {ended}"
