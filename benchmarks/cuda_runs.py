"""Runs for the GPU benchmarks: one process, one loaded model, ordinary run folders."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from engine.core.config import RunConfig
from engine.core.home import device_lock
from engine.core.run_id import new_run_id
from engine.runlog.locks import hold
from engine.runtime.build_engine import build_engine, make_runner
from engine.runtime.environment import use_available_threads
from engine.runtime.prepared_run import PreparedRun, WarmModel, prepare_run
from engine.runtime.run import execute_run, gc_frozen
from engine.runtime.warm_up import NoSink, warm_up
from engine.workload.workload import Workload


class Bench:
    """Holds the device and runs runs. `ready_s` of the last run: from the loaded model to the first measured pass."""

    def __init__(self, out: Path, device: str = "cuda") -> None:
        self.out = out
        self.warm = WarmModel()
        self.ready_s = 0.0
        self._lock = hold(device_lock(device), purpose="benchmark")

    def __enter__(self) -> Self:
        use_available_threads()
        self._lock.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.__exit__(kind, error, trace)

    def prepare(self, config: RunConfig, workload: Workload | None = None) -> PreparedRun:
        return prepare_run(config, self.warm, lambda message, fraction: print(message, file=sys.stderr), workload)

    def run(self, config: RunConfig, workload: Workload | None = None) -> tuple[Path, dict[str, Any]]:
        """Run, and return the run's folder and result."""
        prepared = self.prepare(config, workload)
        run_id = new_run_id()
        start = time.perf_counter()
        result = execute_run(prepared, run_id, self.out / run_id, self.warm)
        self.ready_s = round(time.perf_counter() - start - (result["totals"].get("duration_s") or 0.0), 2)
        return self.out / run_id, result

    def run_unrecorded(self, config: RunConfig, workload: Workload | None = None) -> list[float]:
        """The same run without a log. Returns the time at which each pass was delivered, in seconds."""
        prepared = self.prepare(config, workload)
        requests = prepared.requests()
        runner = make_runner(prepared, requests)
        runner.capture(lambda: False)
        warm_up(prepared, runner, self.warm, lambda: False)
        ends: list[float] = []
        engine = build_engine(prepared, requests, runner, NoSink(), lambda engine, now_s: ends.append(now_s))
        with gc_frozen():
            engine.run(lambda: False)
        return ends


def numbers(text: str) -> list[int]:
    """`1,8,32` as a list."""
    return [int(part) for part in text.split(",")]
