"""`engine simulate`: simulates a run with the engines' own schedulers and step times from a hardware model."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.commands import options
from engine.commands.experiments import output_folder, planned_folder
from engine.commands.summary import arrival_lines, requested_rate, summary_lines
from engine.core.config import RunConfig
from engine.core.errors import FieldError
from engine.core.format import counted, size
from engine.core.home import lab_home
from engine.core.option import Choices, Text, options_of
from engine.core.run_id import new_run_id
from engine.hardware.hardware_presets import CARD, HARDWARE
from engine.hardware.roofline import WEIGHT_WIDTH
from engine.hardware.tensor_parallel import TensorParallel
from engine.memory.memory_model import TERM_LABELS
from engine.simulator.machine import THIS, Overrides, SimulatedMachine, read_calibrations, simulated_machine
from engine.simulator.metrics import (
    decode_figures,
    largest_need,
    machine_figures,
    memory_figures,
    replica_metrics,
    simulated_metrics,
)
from engine.simulator.router import Routing, simulate_replicas
from engine.simulator.simulator import Simulation, require_context
from engine.workload.workload import Workload, build_workload

DEFAULTS = {"warmups": 0}
OWN: options.Own = {
    "hardware": {
        "default": THIS,
        "help": f"{', '.join(HARDWARE)}, or this (the newest calibration)",
        "takes": Text(),
    },
    "weight_bits": {"help": "bits per weight of a preset (default 16)", "takes": Choices((8, 16))},
}
LOWEST_RATE, HIGHEST_RATE = 1e-6, 1e100  # outside, the time of a pass overflows
ROUTING = "a pass reads those that its tokens hit, by uniform routing"
KEPT_STREAMS = ("passes", "spans", "blocks", "events")
SUMMARY = (
    *("decode_step_s", "tokens_per_s_per_request", "tokens_per_s", "output_tokens", "duration_s"),
    *("output_tokens_per_s", "queue_wait_p50_s", "ttft_p50_s", "itl_max_s", "padding_fraction", "dead_fraction"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_engine_options(parser)
    options.add_model_options(parser)
    options.add_workload_options(parser)
    options.add_sampling_options(parser)
    parser.set_defaults(**DEFAULTS)
    group = parser.add_argument_group("machine")
    options.add_options(group, (CARD, WEIGHT_WIDTH), OWN)
    group.add_argument("--read-gb-per-s", type=float, metavar="N", help="memory read rate (default: the preset's)")
    group.add_argument("--tflop-per-s", type=float, metavar="N", help="compute rate (default: the preset's)")
    group.add_argument("--launch-us", type=float, metavar="N", help="cost of a kernel launch (default: the preset's)")
    group.add_argument(
        "--efficiency", type=float, metavar="SHARE", help="share of both rates that passes reach (default 1)"
    )
    options.add_options(group, options_of(TensorParallel).values())
    options.add_options(group, options_of(Routing).values())
    group = parser.add_argument_group("run log")
    options.add_option(group, options.OUT)
    group.add_argument("--no-token-rows", action="store_true", help="write the run log without its token rows")
    group.add_argument("--no-log", action="store_true", help="write no run log")
    parser.add_argument("--json", action="store_true", help="one flat JSON object")


def run(args: argparse.Namespace) -> int:
    """0 when the simulated run completed, 1 when it ran out of memory. ValueError for bad options."""
    config = options.run_config(args)
    routing = Routing(replicas=args.replicas, router=args.router)
    machine = simulated_machine(
        config,
        args.hardware,
        weight_bits=args.weight_bits,
        tensor_parallel_size=args.tensor_parallel_size,
        overrides=_overrides(args),
        calibrations=read_calibrations(lab_home() / "calibrations") if args.hardware == THIS else (),
    )
    if not args.no_log:
        planned_folder(args.out)  # a folder that cannot be is an error before the work
    workload = build_workload(config.workload)
    require_context(workload, machine.shape)
    started_s = time.perf_counter()
    simulations = simulate_replicas(
        config, workload, machine.cost, machine.shard, routing, streams=() if args.no_log else KEPT_STREAMS
    )
    wall_s = time.perf_counter() - started_s
    totals = [replica_metrics(simulation) for simulation in simulations]
    run_ids = [] if args.no_log else _write(args, config, workload, machine, simulations, totals)
    metrics = simulated_metrics(simulations, totals)
    report = {**_report(machine, config, simulations, run_ids, metrics), "simulated_in_s": wall_s}
    print(json.dumps(report) if args.json else _table(report))
    return 0 if report["status"] == "completed" else 1


def _overrides(args: argparse.Namespace) -> Overrides:
    return Overrides(
        read_bytes_per_s=_rate("read-gb-per-s", args.read_gb_per_s, 1e9),
        flop_per_s=_rate("tflop-per-s", args.tflop_per_s, 1e12),
        launch_s=_launch_s(args.launch_us),
        efficiency=args.efficiency,
    )


def _rate(option: str, value: float | None, unit: float) -> float | None:
    if value is not None and not LOWEST_RATE <= value <= HIGHEST_RATE:
        raise FieldError(option.replace("-", "_"), f"{option} {value:g}: use {LOWEST_RATE:f} to {HIGHEST_RATE:g}")
    return None if value is None else value * unit


def _launch_s(microseconds: float | None) -> float | None:
    if microseconds is not None and not (microseconds >= 0 and math.isfinite(microseconds)):
        raise FieldError("launch_us", f"launch-us {microseconds:g}: use 0 or more microseconds")
    return None if microseconds is None else microseconds * 1e-6


def _write(
    args: argparse.Namespace,
    config: RunConfig,
    workload: Workload,
    machine: SimulatedMachine,
    simulations: Sequence[Simulation],
    totals: Sequence[Mapping[str, Any]],
) -> list[str]:
    """One run folder per replica; several replicas are one experiment. Returns the run ids."""
    # Only the log needs pyarrow, which is slow to load.
    from engine.runlog.simulated_run import describe_simulation, write_simulation

    out = output_folder(args.out)
    experiment = None
    if len(simulations) > 1:
        label = f"{len(simulations)} replicas, {args.router}, simulated"
        experiment = {"id": new_run_id(), "kind": "replicas", "label": label}
    run_ids = []
    for simulation, its_totals in zip(simulations, totals, strict=True):
        run_id = new_run_id()
        part = _part_of(workload, simulation)
        info = describe_simulation(
            run_id, config, part, machine, num_blocks=simulation.num_blocks, experiment=experiment
        )
        written = write_simulation(out / run_id, info, simulation, its_totals, token_rows=not args.no_token_rows)
        if written["status"] == "failed":
            raise OSError(written["error"])
        run_ids.append(run_id)
    return run_ids


def _part_of(workload: Workload, simulation: Simulation) -> Workload:
    """The workload with only the requests of this replica."""
    here = set(simulation.sink.requests()["request_id"].tolist())
    return replace(workload, requests=tuple(spec for spec in workload.requests if spec.request_id in here))


def _report(
    machine: SimulatedMachine,
    config: RunConfig,
    simulations: Sequence[Simulation],
    run_ids: Sequence[str],
    metrics: Mapping[str, Any],
) -> dict[str, Any]:
    """One flat object: status, machine, decode step and every metric, over all replicas."""
    ended = next((s for s in simulations if s.status != "completed"), simulations[0])
    shortage = ended.shortage
    return {
        "run_id": run_ids[0] if len(run_ids) == 1 else None,
        "run_ids": list(run_ids),
        "status": ended.status,
        "error": None if shortage is None else str(shortage),
        "oom": None if shortage is None else shortage.to_dict(),
        "simulated": True,
        "model": config.model,
        "engine": config.engine,
        "execution": config.execution,
        "replicas": len(simulations),
        **machine_figures(machine),
        **memory_figures(machine, config, largest_need(simulations)),
        **decode_figures(simulations, machine, config.timing),
        **metrics,
        **requested_rate(config, metrics),
    }


def _table(report: Mapping[str, Any]) -> str:
    ids = ", ".join(report["run_ids"]) or "no run log"
    lines = [f"simulated ({ids}): {report['status']}" + (f" ({report['error']})" if report["error"] else "")]
    lines.append(f"  {report['model']}, {report['dtype']}, on {report['hardware_label']}")
    if report["experts"]:
        lines.append(f"  {report['experts']} experts in a layer, {report['experts_per_token']} per token: {ROUTING}")
    if report["fits_memory"] is False:
        lines.insert(1, f"  {_too_much(report)}")
    if report["decode_rows"] is not None:
        lines.append(f"  {_decode_text(report)}")
    lines += summary_lines(report, SUMMARY)
    lines += arrival_lines(report)
    lines.append(f"  {report['hardware_source']}")
    return "\n".join(lines)


def _decode_text(report: Mapping[str, Any]) -> str:
    """The batch size behind the first three figures."""
    rows = f"median batch of {counted(report['decode_rows'])} row{'' if report['decode_rows'] == 1 else 's'}"
    if report["replicas"] == 1:
        return f"First three figures: decode steps without prefill, {rows}."
    return (
        f"First three figures: decode steps without prefill, {rows} per replica; "
        f"tokens/s, total, is over {report['replicas']} replicas."
    )


def _too_much(report: Mapping[str, Any]) -> str:
    """How much memory the largest pass needs, and the allocation that fails."""
    peak, memory, asked, free = (
        size(report[name]) for name in ("peak_memory_bytes", "memory_bytes", "asked_bytes", "free_bytes")
    )
    pieces = " of three" if report["failing_term"] == "mlp_activation" else ""
    of_each = "" if report["tensor_parallel_size"] == 1 else " of each GPU"
    return (
        f"does not fit: about {peak} at the peak{of_each}, on a GPU with {memory}; "
        f"the {TERM_LABELS[report['failing_term']]} needs {asked} in one piece{pieces}, and "
        f"{free} of the usable memory are free"
    )
