"""`engine sweep`: measures batch sizes by prompt lengths, and ragged batches with controls, as one experiment."""

from __future__ import annotations

import argparse
import json
from typing import Any

from engine.commands import options
from engine.commands.ceilings import add_ceiling_arguments, find_ceilings, given_ceilings
from engine.commands.experiments import add_experiment_arguments, busy_text, carry_out, output_folder
from engine.commands.sweep_report import sweep_text
from engine.core.config import SETTINGS
from engine.core.home import lab_home
from engine.core.run_id import new_run_id, utc_now
from engine.experiments.experiment import Plan, experiment_status, newest_records, point_rows
from engine.experiments.sweep_plan import BATCH_SIZES, DEFAULTS, PROMPT_GRID, RAGGED_MIX, plan_sweep
from engine.experiments.sweep_table import sweep_rows
from engine.hardware.roofline import shape_of_run
from engine.runlog.experiment_log import LoggedExperiment

OWN: options.Own = {
    "prompts": {"default": None, "help": f"prompt lengths (default {PROMPT_GRID.default}, none with a mix)"},
    "budget": {
        "default": DEFAULTS["budget"],
        "help": "output tokens; a uniform batch takes the largest (256 of 64-256)",
    },
    "engine": {"default": DEFAULTS["engine"]},
}
WITH_RESUME = ("flop_per_s", "bytes_per_s")  # these change the report, not the runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("grid")
    options.add_options(group, (PROMPT_GRID, BATCH_SIZES, RAGGED_MIX, SETTINGS["budget"], SETTINGS["seed"]), OWN)
    group = parser.add_argument_group("engine")
    options.add_options(group, (SETTINGS["engine"], SETTINGS["timing"]), OWN)
    options.add_pass_options(group)
    options.add_model_options(parser)
    options.add_sampling_options(parser)
    add_experiment_arguments(parser)
    add_ceiling_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0 if every point ended and none failed; out of memory is a valid result."""
    given = given_ceilings(args)
    logged = carry_out(args, "sweep", lambda: _plan(args, given))
    report = sweep_report(logged, args)
    if args.json:
        print(json.dumps(report))
    else:
        print(sweep_text({**report, "busy": busy_text(output_folder(args.out), logged)}))
    return 0 if report["status"] in ("completed", "oom") else 1


def _plan(args: argparse.Namespace, given: dict[str, float]) -> Plan:
    return plan_sweep(
        options.batch_config(args),
        experiment_id=new_run_id(),
        created_at=utc_now(),
        prompts=PROMPT_GRID.default if args.prompts is None and args.mix is None else args.prompts,
        batch_sizes=args.batch_size,
        mix=args.mix,
        repeats=args.repeats,
        settings=given,
    )


def sweep_report(logged: LoggedExperiment, args: argparse.Namespace) -> dict[str, Any]:
    """The `--json` object: experiment_id, status, source of the ceilings, and one row per point."""
    info = model_and_device(logged, args)
    shape, ceilings, source = None, None, "no run yet, so the model and the device are unknown"
    if info is not None:
        shape = shape_of_run(info["model"])
        settings = {**logged.plan.settings, **given_ceilings(args)}
        ceilings, source = find_ceilings(settings, lab_home() / "calibrations", info)
    rows = sweep_rows(point_rows(logged.plan, logged.records), ceilings, shape)
    return {
        "experiment_id": logged.plan.experiment_id,
        "status": experiment_status(logged.plan, logged.records),
        "label": logged.plan.label,
        "model": None if info is None else info["model"]["name"],
        "device": None if info is None else info["device"]["name"],
        "ceilings": source,
        "read_bytes_per_s": None if ceilings is None else ceilings.read_bytes_per_s,
        "flop_per_s": None if ceilings is None else ceilings.flop_per_s,
        "points": [row.to_dict() for row in rows],
    }


def model_and_device(logged: LoggedExperiment, args: argparse.Namespace) -> dict[str, Any] | None:
    """run.json of one run of the experiment; None if there is none yet."""
    from engine.runlog.reader import RunLogReader

    out = output_folder(args.out)
    for record in newest_records(logged.records).values():
        if record.run_id is not None and (out / record.run_id).is_dir():
            return RunLogReader(out / record.run_id).run_info()
    return None
