"""A simulated run in the worker: the same progress and cancel as a measured one, no model and no device.

Virtual time advances in slices, each of about SLICE_S of real time, between which the run can be canceled. The log is
written when the simulation is done, so a canceled one leaves none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.core.config import RunConfig
from engine.core.home import lab_home
from engine.runlog.simulated_run import describe_simulation, write_simulation
from engine.runtime.models.model_cache import ProgressCallback
from engine.runtime.run_watcher import RunProgress
from engine.simulator.machine import THIS, SimulatedMachine, SimulationTarget, read_calibrations
from engine.simulator.metrics import replica_metrics
from engine.simulator.simulator import Replica, require_context, simulated_requests
from engine.workload.workload import Workload, build_workload

SLICE_S = 0.1
STREAMS = ("passes", "spans", "blocks", "events")


def simulate_run(
    config: RunConfig,
    target: SimulationTarget,
    run_id: str,
    folder: Path,
    *,
    experiment: Mapping[str, Any] | None,
    on_stage: ProgressCallback,
    on_progress: Callable[[RunProgress], None],
    should_stop: Callable[[], bool],
) -> dict[str, Any] | None:
    """Simulate and log. Returns the content of result.json; None if it was canceled. ValueError for bad settings."""
    calibrations = read_calibrations(lab_home() / "calibrations") if target.hardware == THIS else ()
    machine, workload = target.machine(config, calibrations), build_workload(config.workload)
    require_context(workload, machine.shape)
    on_stage(f"simulating {machine.label}", None)
    replica = _advance(config, workload, machine, on_progress, should_stop)
    if replica is None:
        return None
    simulation = replica.end()
    info = describe_simulation(
        run_id, config, workload, machine, num_blocks=simulation.num_blocks, experiment=experiment
    )
    return write_simulation(folder, info, simulation, replica_metrics(simulation))


def _advance(
    config: RunConfig,
    workload: Workload,
    machine: SimulatedMachine,
    on_progress: Callable[[RunProgress], None],
    should_stop: Callable[[], bool],
) -> Replica | None:
    """Run the engine to its end; None if it was canceled."""
    requests = simulated_requests(workload)
    replica = Replica(config, requests, machine.cost, machine.shard, streams=STREAMS)
    slice_s, until_s = 1.0, 0.0
    while not replica.is_done:
        if should_stop():
            return None
        began_s = time.perf_counter()
        until_s = max(until_s, replica.now_s) + slice_s
        replica.advance(until_s)
        slice_s *= 2.0 if time.perf_counter() - began_s < SLICE_S else 0.5
        on_progress(
            RunProgress(
                finished_requests=replica.num_finished,
                requests=len(requests),
                output_tokens=replica.num_output_tokens,
                elapsed_s=replica.now_s,
            )
        )
    return replica
