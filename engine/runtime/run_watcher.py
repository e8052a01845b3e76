"""Samples the device's memory and reports progress while a run is in progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.runlog.writer import RunLogWriter
from engine.runtime.device_memory import DeviceMemory
from engine.runtime.engine import Engine
from engine.runtime.model_runner import ModelRunner

MEMORY_SAMPLE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The progress of a run."""

    finished_requests: int
    requests: int
    output_tokens: int
    elapsed_s: float


class RunWatcher:
    """Called after each pass: samples the memory and reports progress every MEMORY_SAMPLE_S."""

    def __init__(
        self,
        log: RunLogWriter,
        memory: DeviceMemory,
        runner: ModelRunner,
        num_requests: int,
        on_progress: Callable[[RunProgress], None],
    ) -> None:
        self.log = log
        self.memory = memory
        self.runner = runner
        self.num_requests = num_requests
        self.on_progress = on_progress
        self._last_s = -MEMORY_SAMPLE_S

    def __call__(self, engine: Engine, now_s: float) -> None:
        if now_s - self._last_s < MEMORY_SAMPLE_S:
            return
        self._last_s = now_s
        self.sample(engine, now_s)
        self.on_progress(
            RunProgress(
                finished_requests=engine.recorder.num_finished,
                requests=self.num_requests,
                output_tokens=engine.recorder.num_output_tokens,
                elapsed_s=now_s,
            )
        )

    def sample(self, engine: Engine, now_s: float) -> None:
        """Log the device's memory now."""
        sample = self.memory.sample()
        self.log.append(
            "memory",
            time_s=now_s,
            pass_index=engine.recorder.last_pass,
            allocated_bytes=sample.allocated_bytes,
            peak_bytes=sample.peak_bytes,
            kv_bytes=self.runner.kv_bytes,
            free_bytes=sample.free_bytes,
        )
