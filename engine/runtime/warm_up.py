"""Warm-up before the clock starts: a prefill of each prompt length, then three decode steps.

On a GPU the first full batch runs too, because its shapes select other kernels than a single row. A warm process skips
lengths it has already run; an engine that cuts prompts has its own list, because a chunk has another shape than the
whole prompt. Not every chunk length of a mixed pass is warmed up: decode rows shorten the chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.core.config import RunConfig
from engine.core.form_rule import FormRule
from engine.core.kv_layout import slot_width
from engine.core.presets import PRESETS, make_scheduler
from engine.core.recorder import Recorder
from engine.core.request import Request
from engine.runtime.engine import Engine
from engine.runtime.model_runner import ModelRunner
from engine.runtime.passes_in_flight import RunClock, make_timing
from engine.runtime.prepared_run import PreparedRun, WarmModel

DECODE_STEPS = 3


class NoSink:
    """Discards all rows: those of the warm-up are not recorded."""

    def append(self, stream: str, **row: Any) -> None:
        """Discard the row."""

    def extend(self, stream: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Discard the rows."""


def warm_up(
    prepared: PreparedRun,
    runner: ModelRunner,
    warm: WarmModel,
    should_stop: Callable[[], bool],
    on_engine: Callable[[Engine], None] = lambda engine: None,
) -> dict[str, Any]:
    """Run the warm-up passes on the run's own cache. `on_engine` gets each engine, so that a failure can name its pass.

    Returns the `warm_up` of result.json: `prompt_tokens`, the lengths that are warm, and `rows`, the largest batch that
    ran.
    """
    requests = prepared.requests()
    if not requests or prepared.config.warmups == 0:
        return {"prompt_tokens": [], "rows": 0}
    by_length = {r.num_prompt_tokens: r for r in sorted(requests, key=lambda r: -r.num_prompt_tokens)}
    mode = _prefill_mode(prepared.config, runner)
    fresh = [r for length, r in by_length.items() if (mode, length) not in warm.warmed]
    width = slot_width(requests)
    for _ in range(prepared.config.warmups):
        if fresh:
            # The shortest prompt runs last and decodes: it has the most columns left.
            budgets = [1] * (len(fresh) - 1) + [_decode_budget(fresh[-1], width)]
            singles = [_short(r, b) for r, b in zip(fresh, budgets, strict=True)]
            _drive(prepared, runner, singles, 1, should_stop, on_engine)
        if prepared.device.type == "cuda":
            first = requests[: prepared.config.num_slots]
            batch = [_short(r, min(1 + DECODE_STEPS, r.spec.budget_tokens)) for r in first]
            _drive(prepared, runner, batch, prepared.config.num_slots, should_stop, on_engine)
    warm.warmed.update((mode, r.num_prompt_tokens) for r in fresh)
    rows = min(len(requests), prepared.config.num_slots) if prepared.device.type == "cuda" else 1
    return {"prompt_tokens": sorted(by_length), "rows": rows}


def _prefill_mode(config: RunConfig, runner: ModelRunner) -> str:
    """How prompts are prefilled: a length that is warm in one mode is not warm in another."""
    is_chunked = PRESETS[config.engine].is_chunked
    return f"{runner.name} in {config.max_num_batched_tokens}" if is_chunked else runner.name


def _decode_budget(request: Request, width: int) -> int:
    return min(1 + DECODE_STEPS, width - request.num_prompt_tokens)


def _short(request: Request, budget_tokens: int) -> Request:
    """The same prompt with a small budget, arriving at once."""
    spec = replace(request.spec, budget_tokens=budget_tokens, ignore_eos=True, arrival_s=0.0)
    return Request(spec=spec, prompt_ids=request.prompt_ids)


def _drive(
    prepared: PreparedRun,
    runner: ModelRunner,
    requests: list[Request],
    slots: int,
    should_stop: Callable[[], bool],
    on_engine: Callable[[Engine], None],
) -> None:
    config = replace(prepared.config, slots=slots)
    if PRESETS[config.engine].forms_batches:
        config = replace(config, form=FormRule(rule="arrived"))
    clock = RunClock()
    scheduler = make_scheduler(config, requests, runner.num_blocks)
    timing = make_timing("sync", prepared.device, clock)
    engine = Engine(scheduler, runner, Recorder(NoSink(), slots), clock, timing)
    on_engine(engine)
    engine.run(should_stop)
