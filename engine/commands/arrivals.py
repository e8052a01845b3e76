"""`engine arrivals`: a load test. Every engine gets the same requests at each rate, all at once, and near capacity."""

from __future__ import annotations

import argparse
import json
from typing import Any

from engine.commands import options
from engine.commands.arrivals_report import arrivals_text
from engine.commands.experiments import add_experiment_arguments, busy_text, carry_out, output_folder
from engine.core.config import SETTINGS, RunConfig
from engine.core.option import options_of
from engine.core.presets import PRESETS, parse_engines
from engine.core.run_id import new_run_id, utc_now
from engine.experiments.experiment import Plan, experiment_status, point_rows
from engine.load.goodput import Limits
from engine.load.load_plan import (
    CONFIRM,
    DEFAULTS,
    ENGINES_UNDER_LOAD,
    LAW,
    RATES,
    parse_rates,
    plan_load,
)
from engine.load.load_report import load_report
from engine.load.load_table import LoadTable, load_samples, load_table
from engine.runlog.load_log import figures_of, next_load_points
from engine.workload.workload import build_workload

OWN: options.Own = {"requests": {"default": DEFAULTS["requests"], "help": "requests at every rate"}}
WITH_RESUME = ("ttft_limit_s", "tpot_limit_s")  # these change the report, not the runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("load")
    options.add_options(group, (ENGINES_UNDER_LOAD, RATES, LAW))
    drawn = (SETTINGS[name] for name in ("requests", "budget", "rescale_arrivals", "seed"))
    options.add_options(group, drawn, OWN)
    options.add_prompt_options(group)
    options.add_options(group, options_of(Limits).values())
    group.add_argument(CONFIRM.flag, dest=CONFIRM.parameter, action="store_false", help=CONFIRM.help)
    group = parser.add_argument_group("engine")
    options.add_options(group, (SETTINGS["timing"], SETTINGS["slots"]))
    options.add_pass_options(group)
    options.add_model_options(parser)
    options.add_sampling_options(parser)
    add_experiment_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0 if every point ended and none failed; out of memory is a valid result. ValueError for bad options."""
    Limits(ttft_s=args.ttft_limit_s, tpot_s=args.tpot_limit_s)
    out = output_folder(args.out)
    logged = carry_out(args, "load", lambda: _plan(args), next_load_points(out))
    limits, status = limits_of(logged.plan, args), experiment_status(logged.plan, logged.records)
    rows = point_rows(logged.plan, logged.records)
    samples = load_samples(rows, lambda run_id: figures_of(out, run_id, limits))
    table = load_table(logged.plan.settings["engines"], samples)
    if args.json:
        print(json.dumps(arrivals_report(logged.plan, status, table, limits)))
    else:
        busy = busy_text(out, logged)
        print(arrivals_text(logged.plan, status, table, limits) + (f"\n{busy}" if busy else ""))
    return 0 if status in ("completed", "oom") else 1


def _plan(args: argparse.Namespace) -> Plan:
    engines = parse_engines(args.engines)
    return plan_load(
        base_config(args, engines),
        experiment_id=new_run_id(),
        created_at=utc_now(),
        engines=engines,
        rates_per_s=parse_rates(args.rates),
        law=args.arrival,
        repeats=args.repeats,
        limits=Limits(ttft_s=args.ttft_limit_s, tpot_s=args.tpot_limit_s),
        confirm=args.confirm,
    )


def base_config(args: argparse.Namespace, engines: tuple[str, ...]) -> RunConfig:
    """What all points share. Each point sets its own engine and arrivals."""
    own = {
        "engine": next((name for name in engines if PRESETS[name].forms_batches), engines[0]),
        "arrival": "closed",
    }
    return options.run_config(argparse.Namespace(**{**vars(args), **own}))


def arrivals_report(plan: Plan, status: str, table: LoadTable, limits: Limits) -> dict[str, Any]:
    """The `--json` object: the experiment, its requests and limits, then all of `load_report`."""
    first = plan.points[0].config
    return {
        "experiment_id": plan.experiment_id,
        "status": status,
        "label": plan.label,
        **{name: plan.settings[name] for name in ("engines", "rates_per_s", "law", "repeats")},
        "model": first.model,
        "slots": first.slots,
        **{name: getattr(first.workload, name) for name in ("requests", "prompts", "budget", "seed")},
        "ttft_limit_s": limits.ttft_s,
        "tpot_limit_s": limits.tpot_s,
        "workload_digests": digests(plan),
        **load_report(table),
    }


def limits_of(plan: Plan, args: argparse.Namespace) -> Limits:
    """The limits of the command line, or else those of the plan."""
    if args.ttft_limit_s is not None or args.tpot_limit_s is not None:
        return Limits(ttft_s=args.ttft_limit_s, tpot_s=args.tpot_limit_s)
    return Limits(ttft_s=plan.settings["ttft_limit_s"], tpot_s=plan.settings["tpot_limit_s"])


def digests(plan: Plan) -> dict[str, str]:
    """Digest of the requests by arrival law and rate. All engines share it: they serve the same trace."""
    workloads = {point.config.workload.arrival: point.config.workload for point in plan.points}
    return {arrival: build_workload(workload).digest for arrival, workload in workloads.items()}
