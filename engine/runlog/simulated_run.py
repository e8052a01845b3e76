"""Writes a simulated run as a run folder, marked as simulated so that its times are never taken for measured ones."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.core.config import RunConfig
from engine.core.record import Table
from engine.core.run_id import utc_now
from engine.core.units import TORCH_NAMES
from engine.runlog.run_description import ModelDescription, RunDescription
from engine.runlog.schema import STREAMS
from engine.runlog.writer import RunLogWriter, UnwritableLog
from engine.simulator.machine import SimulatedMachine
from engine.simulator.simulator import Simulation
from engine.workload.workload import Workload

TOKEN_ROWS_AT_ONCE = 200_000
LOGGED = ("requests", "passes", "spans", "blocks", "events")


def write_simulation(
    folder: Path, info: Mapping[str, Any], simulation: Simulation, totals: Mapping[str, Any], *, token_rows: bool = True
) -> dict[str, Any]:
    """Write the run's folder and return the content of result.json. Without `token_rows` the table of tokens is
    empty."""
    with RunLogWriter(folder, info) as log:
        with contextlib.suppress(UnwritableLog):  # `finish` reports it
            _write_rows(log, simulation, token_rows)
        return log.finish(_result(simulation, totals))


def _write_rows(log: RunLogWriter, simulation: Simulation, token_rows: bool) -> None:
    for stream in LOGGED:
        rows = simulation.sink.rows(stream)
        if any(rows.values()):
            log.extend(stream, rows)
    if token_rows:
        _write_tokens(log, simulation.tokens)
    log.append(
        "memory",
        time_s=simulation.duration_s,
        allocated_bytes=simulation.peak_bytes,
        peak_bytes=simulation.peak_bytes,
        kv_bytes=simulation.kv_bytes,
    )


def describe_simulation(
    run_id: str,
    config: RunConfig,
    workload: Workload,
    machine: SimulatedMachine,
    *,
    num_blocks: int | None,
    experiment: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """run.json of a simulated run. Values that do not apply are null."""
    return RunDescription(
        run_id=run_id,
        config=config,
        workload=workload,
        model=describe_shape(machine),
        device={"kind": machine.kind, "name": machine.label, "memory_bytes": machine.memory_bytes},
        environment={
            "hardware": machine.name,
            "source": machine.source,
            **_rates(machine),
        },
        experiment=experiment,
        kv_blocks=num_blocks,
        simulated=True,
    ).to_dict()


def describe_shape(machine: SimulatedMachine) -> ModelDescription:
    """A model shape, without weights."""
    return ModelDescription(
        size=machine.shape,
        source="shape alone: nothing was loaded",
        dtype=TORCH_NAMES[machine.dtype],
        weight_bits=machine.shape.weight_bits,
        kv_position_bytes=machine.shape.kv_position_bytes,
    )


def _rates(machine: SimulatedMachine) -> dict[str, Any]:
    ceilings = machine.ceilings
    if ceilings is None:
        return {}
    return {
        "read_bytes_per_s": ceilings.read_bytes_per_s,
        "flop_per_s": ceilings.flop_per_s,
        "launch_s": ceilings.launch_s,
        "kernels_per_pass": ceilings.kernels_per_pass,
        **_tensor_parallel(machine),
    }


def _tensor_parallel(machine: SimulatedMachine) -> dict[str, Any]:
    """The GPUs that share the model and their link; nothing for one GPU. The rates beside are those of one."""
    if machine.gpus == 1 or machine.link is None:
        return {}
    return {
        "tensor_parallel_size": machine.gpus,
        "link": machine.link.name,
        "link_bytes_per_s": machine.link.bytes_per_s,
        "all_reduce_latency_s": machine.link.latency_s,
    }


def _result(simulation: Simulation, totals: Mapping[str, Any]) -> dict[str, Any]:
    shortage = simulation.shortage
    return {
        "status": simulation.status,
        "error": None if shortage is None else str(shortage),
        "oom": None if shortage is None else shortage.to_dict(),
        "totals": dict(totals),
        "notes": [],
        "ended_at": utc_now(),
    }


def _write_tokens(log: RunLogWriter, tokens: Table) -> None:
    """Write the tokens in order of their passes. Token ids are null: a simulation has no text."""
    order = tokens["pass_index"].argsort(kind="stable")
    names = [name for name in STREAMS["tokens"].names if name in tokens]
    for start in range(0, len(order), TOKEN_ROWS_AT_ONCE):
        part = order[start : start + TOKEN_ROWS_AT_ONCE]
        columns = {name: tokens[name][part].tolist() for name in names}
        columns["delivered_s"] = [None if s != s else s for s in columns["delivered_s"]]
        log.extend("tokens", columns)
        log.flush()
