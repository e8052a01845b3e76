"""`engine gpus`: how many GPUs serve a rate of requests within latency limits, by simulation."""

from __future__ import annotations

import argparse
import json

from engine.commands import options
from engine.core.errors import FieldError
from engine.core.format import number, percent, plural, quantity
from engine.core.option import Choices, options_of, settings_of
from engine.core.terminal import table_lines
from engine.hardware.hardware_presets import CARD, HARDWARE
from engine.hardware.roofline import WEIGHT_WIDTH
from engine.load.goodput import Limits
from engine.simulator.fleet import SHARE, Fleet, FleetRow, find_fleet
from engine.simulator.machine import SimulationTarget

DEFAULTS = {"warmups": 0}
OWN: options.Own = {
    "hardware": {"help": "the GPU (required)"},
    "weight_bits": {"help": "bits per weight of a preset (default 16)", "takes": Choices((8, 16))},
    "arrival": {"default": "poisson:8", "help": "the rate to serve: poisson:R, constant:R, gamma:R:CV"},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_engine_options(parser)
    options.add_model_options(parser)
    group = parser.add_argument_group("workload")
    options.add_prompt_options(group)
    options.add_options(group, options.settings_in("workload"), OWN)
    options.add_sampling_options(parser)
    parser.set_defaults(**DEFAULTS)
    group = parser.add_argument_group("machine")
    options.add_options(group, (CARD, WEIGHT_WIDTH), OWN)
    options.add_options(parser.add_argument_group("limits"), options_of(Limits).values())
    parser.add_argument("--json", action="store_true", help="one JSON object with a row per tensor parallel size")


def run(args: argparse.Namespace) -> int:
    """0 if some number of GPUs serves the rate, 1 if none does. ValueError for bad options."""
    if args.hardware is None:
        raise FieldError("card", f"hardware: name a GPU, one of {', '.join(HARDWARE)}")
    config = options.run_config(args)
    target = SimulationTarget(hardware=args.hardware, weight_bits=args.weight_bits)
    fleet = find_fleet(config, target, Limits(**settings_of(Limits, vars(args))))
    best = fleet.best
    if args.json:
        report = {
            "model": config.model,
            "engine": config.engine,
            "hardware": fleet.hardware,
            "hardware_label": fleet.hardware_label,
            "rate": fleet.rate,
            "requests": fleet.requests,
            "share": SHARE,
            "gpus": None if best is None else best.gpus,
            "rows": [row.to_dict() for row in fleet.rows],
        }
        print(json.dumps(report))
    else:
        print("\n".join([finding(fleet), "", *_table(fleet)]))
    return 0 if best is not None else 1


def finding(fleet: Fleet) -> str:
    """`3 GPUs (NVIDIA H100 SXM, 80 GB) serve 20 requests/s: 3 replicas with tensor parallelism 1.`"""
    rate, best = quantity(fleet.rate, "requests/s"), fleet.best
    limits = f"{percent(SHARE)} of requests within the limits"
    if best is None:
        return f"No number of GPUs ({fleet.hardware_label}) serves {rate} with {limits}."
    return (
        f"{plural(best.gpus or 0, 'GPU')} ({fleet.hardware_label}) {'serves' if best.gpus == 1 else 'serve'} {rate} "
        f"with {limits}: {plural(best.replicas or 0, 'replica')}, tensor parallel size {best.tensor_parallel_size}. "
        f"{plural(fleet.requests, 'request')} simulated at each rate."
    )


def _table(fleet: Fleet) -> list[str]:
    header = ["GPUs", "tensor parallel size", "replicas", "requests/s of a replica", "tokens/s per GPU", ""]
    return table_lines([_cells(row) for row in fleet.rows], "rrrrrl", header)


def _cells(row: FleetRow) -> list[str]:
    size = str(row.tensor_parallel_size)
    if row.rate_per_replica is None:
        return ["", size, "", "", "", f"does not fit: {row.shortage}" if not row.fits else "no rate within the limits"]
    return [
        str(row.gpus),
        size,
        str(row.replicas),
        number(row.rate_per_replica),
        number(row.tokens_per_s_per_gpu),
        "",
    ]
