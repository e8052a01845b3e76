"""One prepared run, start to finish: open the log, warm up, run, compute the totals, close the log.

The worker and the command line share `execute_run`. Every outcome of the measured part is a status in result.json:
completed, stopped, oom or failed.
"""

from __future__ import annotations

import contextlib
import gc
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine.core.errors import EngineOutOfMemory, first_line
from engine.core.run_id import utc_now
from engine.metrics.metrics import run_metrics
from engine.runlog.reader import RunLogReader
from engine.runlog.writer import RunLogWriter, UnwritableLog
from engine.runtime.build_engine import build_engine, make_runner
from engine.runtime.device_memory import DeviceMemory, as_out_of_memory
from engine.runtime.engine import Engine
from engine.runtime.environment import read_clocks
from engine.runtime.pool_size import pool_blocks
from engine.runtime.prepared_run import PreparedRun, WarmModel
from engine.runtime.run_description import describe_run, execution_notes
from engine.runtime.run_watcher import RunProgress, RunWatcher
from engine.runtime.warm_up import warm_up


def execute_run(
    prepared: PreparedRun,
    run_id: str,
    folder: Path,
    warm: WarmModel,
    *,
    experiment: dict[str, Any] | None = None,
    on_started: Callable[[], None] = lambda: None,
    on_progress: Callable[[RunProgress], None] = lambda progress: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run and log. Returns the content of result.json. The caller holds the device's lock."""
    memory = DeviceMemory(prepared.device)
    num_blocks = pool_blocks(prepared, prepared.requests())
    with RunLogWriter(folder, describe_run(prepared, run_id, experiment, num_blocks)) as log:
        on_started()
        result = _measured(prepared, num_blocks, log, memory, warm, on_progress, should_stop)
        result["clocks"] = read_clocks(prepared.device)  # at once: an idle device lowers its clocks
        memory.give_back()
        with contextlib.suppress(UnwritableLog):  # `finish` reports it
            log.flush()
        record = RunLogReader(folder).record()
        result["totals"] = run_metrics(record, peak_memory_bytes=result.pop("peak_memory_bytes"))
        result["notes"] = execution_notes(prepared, record)
        result["ended_at"] = utc_now()
        return log.finish(result)


def _measured(
    prepared: PreparedRun,
    num_blocks: int | None,
    log: RunLogWriter,
    memory: DeviceMemory,
    warm: WarmModel,
    on_progress: Callable[[RunProgress], None],
    should_stop: Callable[[], bool],
) -> dict[str, Any]:
    """The part that may fail. Returns plain values, so no reference to a tensor outlives it."""
    attempt = _Attempt(prepared, log, memory)
    try:
        return attempt.result(attempt.run(num_blocks, warm, on_progress, should_stop))
    except Exception as error:
        return attempt.failed(error)


class _Attempt:
    """The measured part and its current stage, which a failure is reported with."""

    def __init__(self, prepared: PreparedRun, log: RunLogWriter, memory: DeviceMemory) -> None:
        self.prepared = prepared
        self.log = log
        self.memory = memory
        self.stage = "set-up"
        self.warming: list[Engine] = []  # the engines of the warm-up
        self.warmed: dict[str, Any] | None = None
        self.engine: Engine | None = None
        self.watcher: RunWatcher | None = None

    def run(
        self,
        num_blocks: int | None,
        warm: WarmModel,
        on_progress: Callable[[RunProgress], None],
        should_stop: Callable[[], bool],
    ) -> str:
        """Set up, capture, warm up, run. Returns the run's status: completed or stopped."""
        prepared, memory, config = self.prepared, self.memory, self.prepared.config
        memory.begin_run(config.gpu_memory_utilization, config.capacity_gib)
        requests = prepared.requests()
        runner = make_runner(prepared, requests, num_blocks)
        self.stage = "capture of graphs"
        runner.capture(should_stop)
        self.stage = "warm-up"
        if config.execution == "graph":
            memory.note_captured()
        self.warmed = warm_up(prepared, runner, warm, should_stop, self.warming.append)
        self.warming.clear()
        self.watcher = RunWatcher(self.log, memory, runner, len(requests), on_progress)
        with gc_frozen():
            self.engine = build_engine(prepared, requests, runner, self.log, self.watcher)  # the clock starts here
            done = self.engine.run(should_stop)
        self.close()
        return "completed" if done else "stopped"

    def close(self) -> None:
        """Log the finished passes, close open spans, and write a last memory row with the run's peak."""
        if self.engine is None or self.watcher is None:
            return
        with contextlib.suppress(RuntimeError):  # a failed device raises on every call
            self.engine.record(wait=True)
        now_s = self.engine.clock.now_s()
        self.engine.recorder.close(now_s)
        self.watcher.sample(self.engine, now_s)

    def failed(self, error: Exception) -> dict[str, Any]:
        """The result after `error`: out of memory, or a failure."""
        shape, where = self._current_pass()
        free_bytes = self.memory.sample().free_bytes
        shortage = as_out_of_memory(error, self.prepared.device, free_bytes, shape, where)
        with contextlib.suppress(OSError):  # a log that cannot be written is the failure itself
            self.close()
        if shortage is not None:
            return self.result("oom", shortage)
        if not isinstance(error, UnwritableLog):  # its one line says all
            traceback.print_exc()
        return self.result("failed", error)

    def result(self, status: str, error: BaseException | None = None) -> dict[str, Any]:
        shortage = error if isinstance(error, EngineOutOfMemory) else None
        return {
            "status": status,
            "error": None if error is None else first_line(error),
            "oom": None if shortage is None else shortage.to_dict(),
            "warm_up": self.warmed,
            "peak_memory_bytes": self.memory.peak_bytes,
        }

    def _current_pass(self) -> tuple[str, str]:
        """Shape and name of the pass that was running, as text."""
        engine = self.engine or (self.warming[-1] if self.warming else None)
        planned = None if engine is None else engine.current_pass
        if planned is None:
            return f"{self.prepared.config.num_slots} slots", self.stage
        place = f"{planned.kind} pass in the warm-up" if self.engine is None else f"{planned.kind} pass {planned.index}"
        return f"{len(planned.rows)} rows x {planned.shape.width} columns", place


@contextlib.contextmanager
def gc_frozen() -> Iterator[None]:
    """Exclude all objects that exist now from garbage collection: scanning them stalls passes."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
