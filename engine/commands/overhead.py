"""`engine overhead`: measures the cost of stopping after each pass, on a GPU."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from engine.commands import options
from engine.commands.experiments import add_experiment_arguments, carry_out, planned_folder, read_planned
from engine.core.config import SETTINGS
from engine.core.format import change, number
from engine.core.run_id import new_run_id, utc_now
from engine.core.terminal import table_lines
from engine.experiments.experiment import Plan, experiment_status, point_rows, remaining
from engine.experiments.overhead_plan import overhead_rows, plan_overhead

CONFIGS = "p256:8"
OWN: options.Own = {
    "budget": {"default": "64", "help": "output tokens per row", "metavar": "N"},
    "engine": {"default": "static"},
    "repeats": {"default": 5},
}
COLUMNS = ("config", "sync, s", "async, s", "async vs sync", "range over repeats", "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("overhead")
    group.add_argument(
        "--configs",
        default=CONFIGS,
        metavar="P256:8,P16:512",
        help=f"prompt length and batch size of each configuration (default {CONFIGS})",
    )
    options.add_options(group, (SETTINGS["budget"], SETTINGS["seed"], SETTINGS["engine"]), OWN)
    options.add_pass_options(group)
    options.add_model_options(parser)
    options.add_sampling_options(parser)
    add_experiment_arguments(parser, OWN)


def run(args: argparse.Namespace) -> int:
    """0 when every run completed. ValueError for bad options, and on a CPU, where both timings are the same."""
    if args.resume is None:
        left = _plan(args).points
    else:
        planned = read_planned(args.resume, "overhead", planned_folder(args.out))
        left = remaining(planned.plan, planned.records)
    for point in left[:1]:
        _require_gpu(point.config.device)
    logged = carry_out(args, "overhead", lambda: _plan(args))
    report = {
        "experiment_id": logged.plan.experiment_id,
        "status": experiment_status(logged.plan, logged.records),
        "label": logged.plan.label,
        "points": [row.to_dict() for row in overhead_rows(point_rows(logged.plan, logged.records))],
    }
    print(json.dumps(report) if args.json else overhead_text(report))
    return 0 if report["status"] == "completed" else 1


def overhead_text(report: Mapping[str, Any]) -> str:
    """The report: one line per configuration."""
    lines = [f"overhead {report['experiment_id']}: {report['status']}"]
    lines += table_lines(map(_cells, report["points"]), "rrrrll", COLUMNS)
    return "\n".join(lines)


def _cells(row: Mapping[str, Any]) -> list[str]:
    ended = "" if row["status"] == "completed" else row["status"] + (f": {row['error']}" if row["error"] else "")
    if row["ratio"] is None:
        return [row["config"], "", "", "", "", ended]
    repeats = f"{change(row['ratio_low'] - 1)} to {change(row['ratio_high'] - 1)}"
    times = [number(row["sync_s"], 4), number(row["async_s"], 4)]
    return [row["config"], *times, change(row["ratio"] - 1), repeats, ended]


def _plan(args: argparse.Namespace) -> Plan:
    return plan_overhead(
        options.batch_config(args, timing="sync"),
        experiment_id=new_run_id(),
        created_at=utc_now(),
        configs=args.configs,
        repeats=args.repeats,
    )


def _require_gpu(device: str) -> None:
    from engine.runtime.models.loading import resolve_device

    if resolve_device(device).type != "cuda":
        raise ValueError(
            "overhead needs a CUDA GPU: on a CPU, sync and async timing are the same, because a pass is complete "
            "when its call returns"
        )
