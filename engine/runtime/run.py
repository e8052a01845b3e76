"""One run from a configuration to a finished run log: prepare, open the log, warm up, run, total, close.

`execute_run` is what the worker and the command line share. Everything that can go wrong in the measured part ends as
a status in result.json: completed, stopped, oom or failed.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine.core.metrics import run_metrics
from engine.core.out_of_memory import EngineOutOfMemory
from engine.core.presets import PRESETS, make_scheduler, slot_width
from engine.core.recorder import Recorder, Sink
from engine.core.request import Request
from engine.core.timestamp import utc_now
from engine.core.units import GIB
from engine.runlog.reader import RunLogReader
from engine.runlog.writer import RunLogWriter
from engine.runtime.capacity import CapacityCheck
from engine.runtime.clock import RunClock
from engine.runtime.device_memory import DeviceMemory
from engine.runtime.engine import Engine
from engine.runtime.environment import read_clocks
from engine.runtime.execution_notes import execution_notes
from engine.runtime.model_runner import ModelRunner, PaddedRunner, SlotRunner
from engine.runtime.out_of_memory import as_out_of_memory
from engine.runtime.paged_runner import PagedRunner
from engine.runtime.passes_in_flight import make_timing
from engine.runtime.pool_size import check_lone_request, pool_blocks
from engine.runtime.prepared_run import PreparedRun, WarmModel
from engine.runtime.run_description import describe_run
from engine.runtime.run_watcher import Progress, RunWatcher
from engine.runtime.sampler import Sampler
from engine.runtime.warm_up import warm_up


def make_runner(prepared: PreparedRun, requests: list[Request], num_blocks: int | None = None) -> ModelRunner:
    """The runner of the engine's KV layout, its cache allocated where the layout keeps one for the whole run.

    `num_blocks` of a paged layout's pool; None for as many as `pool_blocks` gives. A model that cannot run as CUDA
    graphs runs eager; `execution_notes` says so.
    """
    if prepared.config.execution != "graph":
        return _eager_runner(prepared, requests, num_blocks)
    # Triton is not installed everywhere; only a graph run needs it.
    from engine.runtime.graph.make_runner import make_graph_runner, why_not_graph

    if why_not_graph(prepared) is not None:
        return _eager_runner(prepared, requests, num_blocks)
    return make_graph_runner(prepared, requests, num_blocks)


def _eager_runner(prepared: PreparedRun, requests: list[Request], num_blocks: int | None) -> ModelRunner:
    config = prepared.config
    sampler = Sampler(config.sampling)
    pool_bytes = None if config.pool_gib is None else int(config.pool_gib * GIB)
    if PRESETS[config.engine].kv_layout == "padded":
        return PaddedRunner(prepared.loaded.model, prepared.kv_shape(), sampler, pool_bytes)
    width = slot_width(requests)
    if PRESETS[config.engine].kv_layout == "paged":
        return _paged_runner(prepared, requests, sampler, num_blocks)
    return SlotRunner(prepared.loaded.model, prepared.kv_shape(), sampler, config.num_slots, width, pool_bytes)


def _paged_runner(
    prepared: PreparedRun, requests: list[Request], sampler: Sampler, num_blocks: int | None
) -> PagedRunner:
    config = prepared.config
    if num_blocks is None:
        num_blocks = pool_blocks(prepared, requests)
    assert num_blocks is not None
    check_lone_request(prepared, requests, num_blocks)
    return PagedRunner(
        prepared.loaded.model,
        prepared.kv_shape(),
        sampler,
        config.num_slots,
        slot_width(requests),
        num_blocks=num_blocks,
        block_size=config.block_size,
    )


def build_engine(
    prepared: PreparedRun,
    requests: list[Request],
    runner: ModelRunner,
    sink: Sink,
    on_pass: Callable[[Engine, float], None] = lambda engine, now_s: None,
) -> Engine:
    """The engine of `prepared.config`, its clock at zero now."""
    config = prepared.config
    eos_ids = frozenset(prepared.loaded.spec.eos_token_ids)
    clock = RunClock()
    recorder = Recorder(
        sink,
        config.num_slots,
        returns_whole=config.returns == "whole",
        decode=lambda ids: prepared.loaded.encoder.decode(until_end(ids, eos_ids)),
    )
    engine = Engine(
        make_scheduler(config, requests, runner.num_blocks),
        runner,
        recorder,
        clock,
        make_timing(config.timing, prepared.device, clock),
        eos_ids=eos_ids,
        prompt_texts=prepared.prompt_texts,
        on_pass=lambda now_s: on_pass(engine, now_s),
        check=_capacity_check(prepared, runner),
    )
    return engine


def execute_run(
    prepared: PreparedRun,
    run_id: str,
    folder: Path,
    warm: WarmModel,
    *,
    experiment: dict[str, Any] | None = None,
    on_started: Callable[[], None] = lambda: None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run and log. Returns what result.json holds. The caller holds the device's lock."""
    memory = DeviceMemory(prepared.device)
    num_blocks = pool_blocks(prepared, prepared.requests())
    with RunLogWriter(folder, describe_run(prepared, run_id, experiment, num_blocks)) as log:
        on_started()
        result = _measured(prepared, num_blocks, log, memory, warm, on_progress, should_stop)
        result["clocks"] = read_clocks(prepared.device)  # while the device is still as fast as the last pass was
        memory.give_back()
        log.flush()
        record = RunLogReader(folder).record()
        result["totals"] = run_metrics(record, peak_memory_bytes=result.pop("peak_memory_bytes"))
        result["notes"] = execution_notes(prepared, record)
        result["ended_at"] = utc_now()
        log.finish(result)
    return result


def until_end(ids: list[int], eos_ids: frozenset[int]) -> list[int]:
    """The tokens before the end of the sequence: a counted budget goes on past it, an answer does not."""
    return list(itertools.takewhile(lambda token: token not in eos_ids, ids))


def _measured(
    prepared: PreparedRun,
    num_blocks: int | None,
    log: RunLogWriter,
    memory: DeviceMemory,
    warm: WarmModel,
    on_progress: Callable[[Progress], None],
    should_stop: Callable[[], bool],
) -> dict[str, Any]:
    """The part that may fail, turned into plain facts: no reference to a tensor survives it."""
    config = prepared.config
    engine: Engine | None = None
    watcher: RunWatcher | None = None
    warmed: dict[str, Any] | None = None
    warming: list[Engine] = []
    stage = "set-up"
    try:
        memory.begin_run(config.gpu_memory_utilization, config.capacity_gib)
        requests = prepared.requests()
        runner = make_runner(prepared, requests, num_blocks)
        stage = "capture of graphs"
        runner.capture(should_stop)
        stage = "warm-up"
        if config.execution == "graph":
            memory.note_captured()
        warmed = warm_up(prepared, runner, warm, should_stop, warming.append)
        warming.clear()
        watcher = RunWatcher(log, memory, runner, len(requests), on_progress)
        with long_lived_objects_at_rest():
            engine = build_engine(prepared, requests, runner, log, watcher)  # the clock starts here
            done = engine.run(should_stop)
        _close(engine, watcher)
        return _result("completed" if done else "stopped", memory, warmed)
    except Exception as error:
        shape, where = _in_hand(engine, warming, prepared, stage)
        shortage = as_out_of_memory(error, prepared.device, memory.sample().free_bytes, shape, where)
        if engine is not None and watcher is not None:
            with contextlib.suppress(OSError):  # a log that cannot be written is the failure itself
                _close(engine, watcher)
        if shortage is not None:
            return _result("oom", memory, warmed, shortage)
        traceback.print_exc()
        return _result("failed", memory, warmed, error)


@contextlib.contextmanager
def long_lived_objects_at_rest() -> Iterator[None]:
    """Keep the model and all that is loaded out of garbage collections: looking through them stalls passes."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _close(engine: Engine, watcher: RunWatcher) -> None:
    """Log what has landed, close what is open, and let the last row of memory hold the run's peak."""
    with contextlib.suppress(RuntimeError):  # a device that has failed tells no more
        engine.record(wait=True)
    now_s = engine.clock.now_s()
    engine.recorder.close(now_s)
    watcher.sample(engine, now_s)


def _result(
    status: str, memory: DeviceMemory, warmed: dict[str, Any] | None, error: BaseException | None = None
) -> dict[str, Any]:
    shortage = error if isinstance(error, EngineOutOfMemory) else None
    return {
        "status": status,
        "error": None if error is None else f"{error}".splitlines()[0] if str(error) else type(error).__name__,
        "oom": None if shortage is None else shortage.facts(),
        "warm_up": warmed,
        "peak_memory_bytes": memory.peak_bytes,
    }


def _in_hand(engine: Engine | None, warming: list[Engine], prepared: PreparedRun, stage: str) -> tuple[str, str]:
    """The shape and the place of what was being done, in words."""
    at_work = engine or (warming[-1] if warming else None)
    planned = None if at_work is None else at_work.in_hand
    if planned is None:
        return f"{prepared.config.num_slots} slots", stage
    place = f"{planned.kind} pass in the warm-up" if engine is None else f"{planned.kind} pass {planned.index}"
    return f"{len(planned.rows)} rows x {planned.shape.width} columns", place


def _capacity_check(prepared: PreparedRun, runner: ModelRunner) -> CapacityCheck | None:
    config = prepared.config
    if config.capacity_gib is None or prepared.device.type == "cuda":
        return None
    capacity_bytes = int(config.capacity_gib * GIB)
    return CapacityCheck(
        prepared.dimensions(),
        capacity_bytes,
        sampled_in_fp32=not config.sampling.is_greedy,
        pool_positions=(runner.num_blocks or 0) * config.block_size,
    )
