"""Times passes of known shapes in the engine's own loop, for a calibration: the cost of a pass on this machine.

A shape is a number of rows and their prompt lengths; each row generates a few tokens. Loop, scheduler and recorder are
the same as in a run, so their cost is included.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.presets import PRESETS
from engine.hardware.calibration import MeasuredPass
from engine.runtime.build_engine import build_engine, make_runner
from engine.runtime.device_memory import DeviceMemory, as_out_of_memory
from engine.runtime.model_runner import ModelRunner
from engine.runtime.models.loading import resolve_device
from engine.runtime.prepared_run import PreparedRun, WarmModel, prepare_run
from engine.runtime.run import gc_frozen
from engine.workload.workload import Workload, build_workload

NEW_TOKENS = 8
# A long prefill brings a GPU to its power limit, and its clocks recover in steps: on one H200, decode passes of 32 rows
# took 2.9 ms right after a prefill of 131,072 tokens, and 2.7 ms after 70 ms. Eager passes take at least 24 ms there,
# so the later half of seven passes starts after the recovery.
GRAPH_NEW_TOKENS = 48
CPU_ROUNDS = 2  # over all shapes: a busy second spoils at most one sample of a shape
_NUMBERS = ("rows", "tokens", "prompt_tokens", "width", "computed_positions", "padding_positions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """`rows` requests with prompts of these lengths, in equal shares."""

    rows: int
    lengths: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Tokens that a prefill computes if each row is padded to the longest."""
        return self.rows * max(self.lengths)

    @property
    def prompts(self) -> str:
        return ",".join(f"p{length}" for length in self.lengths)


def new_tokens(execution: str) -> int:
    """Output tokens per row of a shape: enough for its later decode passes to be in a steady state."""
    return GRAPH_NEW_TOKENS if execution == "graph" else NEW_TOKENS


def shapes_for(device: torch.device, longest: int, execution: str) -> list[Shape]:
    """Uniform and ragged batches to measure on this kind of device, none longer than `longest` positions."""
    on_gpu = device.type == "cuda"
    rows = (1, 4, 16, 32, 128) if on_gpu else (1, 2, 3, 4, 8, 16, 32)  # CPUs use another kernel from 4 rows on
    lengths = (16, 256, 1024, 4096) if on_gpu else (16, 64, 256, 1024)
    most_tokens = 131_072 if on_gpu else 1024
    uniform = [Shape(rows=b, lengths=(n,)) for b in rows for n in lengths]
    ragged = [Shape(rows=b, lengths=(n // 16, n)) for b in rows for n in lengths if b > 1 and n >= 256]
    fits = [s for s in (*uniform, *ragged) if s.tokens <= most_tokens]
    return [s for s in fits if max(s.lengths) + new_tokens(execution) <= longest]


def short_shapes(device: torch.device, longest: int, execution: str) -> list[Shape]:
    """The shapes of a short calibration, the most useful first: each adds a number of rows or a length."""
    if device.type == "cuda":
        shapes = [Shape(rows=b, lengths=(n,)) for b, n in ((8, 256), (1, 256), (32, 256), (4, 1024), (1, 16))]
    else:
        shapes = [Shape(rows=b, lengths=(n,)) for b, n in ((4, 16), (1, 16), (8, 16), (1, 256), (4, 64))]
    return [s for s in shapes if max(s.lengths) + new_tokens(execution) <= longest] or [Shape(rows=1, lengths=(1,))]


def measure_passes_within(
    configs: Sequence[RunConfig],
    warm: WarmModel,
    shapes: Sequence[Shape],
    on_progress: Callable[[str], None],
    within_s: float,
) -> list[MeasuredPass]:
    """As `measure_passes`, for several engines and once each, shape by shape until `within_s` are over.

    All engines get the same shapes, at least one. The caller holds the device's lock.
    """
    end_s = time.perf_counter() + within_s
    found: list[MeasuredPass] = []
    for shape in shapes:
        if found and time.perf_counter() > end_s:
            break
        for config in configs:
            on_progress(f"passes of {config.engine}, {shape.rows} x {shape.prompts}")
            found += measure_passes(config, warm, [shape], lambda message: None, rounds=1)
    return found


def measure_passes(
    config: RunConfig,
    warm: WarmModel,
    shapes: Sequence[Shape],
    on_progress: Callable[[str], None],
    rounds: int | None = None,
) -> list[MeasuredPass]:
    """Seconds of the prefill and decode passes of each shape, for `config`'s engine, execution and timing.

    Medians over `rounds` over all shapes (None: a default for the device). Shapes that do not fit the device's memory
    are skipped. The caller holds the device's lock.
    """
    seconds: dict[MeasuredPass, list[float]] = defaultdict(list)
    shared: ModelRunner | None = None
    rounds = rounds or (CPU_ROUNDS if resolve_device(config.device).type == "cpu" else 1)
    for turn in range(rounds):
        on_progress(f"passes of {config.engine}: {len(shapes)} shapes, round {turn + 1} of {rounds}")
        for shape in shapes:
            prepared = _prepared(config, warm, shape)
            if config.execution == "graph" and shared is None:
                shared = _runner_for_all(config, warm, shapes)
            try:
                for found in _run(prepared, shared or make_runner(prepared, prepared.requests())):
                    seconds[replace(found, seconds=0.0)].append(found.seconds)
            except (RuntimeError, MemoryError) as error:
                if as_out_of_memory(error, prepared.device, 0, shape.prompts, "calibration") is None:
                    raise
                DeviceMemory(prepared.device).give_back()
    return [replace(key, seconds=statistics.median(values), samples=len(values)) for key, values in seconds.items()]


def _prepared(config: RunConfig, warm: WarmModel, shape: Shape) -> PreparedRun:
    """The shape's requests twice, with rows for one half: the second half starts after the first has ended."""
    asked = WorkloadConfig(prompts=shape.prompts, requests=shape.rows, budget=str(new_tokens(config.execution)))
    first = build_workload(asked).requests
    second = (replace(spec, request_id=spec.request_id + shape.rows) for spec in first)
    workload = Workload(config=asked, requests=(*first, *second))
    config = replace(config, slots=shape.rows, workload=asked)
    return prepare_run(config, warm, lambda message, share: None, workload)


def _runner_for_all(config: RunConfig, warm: WarmModel, shapes: Sequence[Shape]) -> ModelRunner:
    """One runner that fits every shape: capturing graphs takes longer than all passes together."""
    largest = Shape(rows=max(s.rows for s in shapes), lengths=(max(max(s.lengths) for s in shapes),))
    prepared = _prepared(config, warm, largest)
    runner = make_runner(prepared, prepared.requests())
    runner.capture(lambda: False)
    return runner


def _run(prepared: PreparedRun, runner: ModelRunner) -> list[MeasuredPass]:
    """The prefill of the second half, and its typical later decode pass.

    The first half is a warm-up: an idle GPU has lowered its clocks, and a CPU has not touched the cache's pages yet. A
    pass lasts from the end of the previous one, so host time counts only where no other pass hides it. Prompts that are
    prefilled in several passes are skipped.
    """
    sink = _PassRows()
    with gc_frozen():  # collects garbage before the engine's clock starts
        build_engine(prepared, prepared.requests(), runner, sink).run(lambda: False)
    half = len(sink.rows) // 2
    timed = [(row, row["end_s"] - before["end_s"]) for before, row in itertools.pairwise(sink.rows[half - 1 :])]
    lengths = [len(prepared.prompt_ids[spec.request_id]) for spec in prepared.workload.requests]
    prompt_tokens, squared_lengths = sum(lengths) // 2, sum(n**2 for n in lengths) // 2
    prefills = [(row, s) for row, s in timed if row["kind"] != "decode" and row["prompt_tokens"] == prompt_tokens]
    measured = [_measured(prepared.config, row, s, squared_lengths) for row, s in prefills]
    decodes = [(row, s) for row, s in timed if row["kind"] == "decode"]
    later = decodes[len(decodes) // 2 :]
    if later:
        typical, _ = later[len(later) // 2]
        measured.append(_measured(prepared.config, typical, statistics.median(s for _, s in later), 0))
    return measured


def _measured(config: RunConfig, row: Mapping[str, Any], seconds: float, squared_lengths: int) -> MeasuredPass:
    return MeasuredPass(
        kv_layout=PRESETS[config.engine].kv_layout,
        execution=config.execution,
        timing=config.timing,
        kind=str(row["kind"]),
        masked=bool(row["masked"]),
        squared_lengths=squared_lengths,
        seconds=seconds,
        samples=1,
        **{name: row[name] for name in _NUMBERS},
    )


class _PassRows:
    """A sink that keeps only the rows of passes."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def append(self, stream: str, **row: Any) -> None:
        if stream == "passes":
            self.rows.append(row)

    def extend(self, stream: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Discard the rows."""
