"""Sample runs for the figures' demos and tests: eight requests with unequal output lengths in four slots.

The lab's schedulers decide every step; only the clock is made up (a pass costs a fixed time, plus a time per row and
per prompt token). Nothing here is a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from engine.core.config import RunConfig
from engine.core.passes import PassKind, PlannedPass
from engine.core.presets import make_scheduler
from engine.core.request import ExactPrompt, Request, RequestSpec
from engine.core.schedulers.scheduler import Scheduler

BUDGETS = (20, 44, 12, 31, 48, 9, 36, 17)
PROMPTS = (38, 52, 41, 95, 33, 47, 120, 44)
BLOCK_SIZE = 16
TOKENS_A_STEP = 64
KV_COLUMNS = ("reserved", "used", "padding", "dead", "fragment")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRun:
    """A made-up run as the figures take it: a DataFrame per table, and `totals`, a row of run metrics.

    `block_events` and `events` are the run log's streams of a paged run; empty for other runs.
    """

    spans: pd.DataFrame
    passes: pd.DataFrame
    requests: pd.DataFrame
    totals: pd.DataFrame
    block_events: pd.DataFrame
    events: pd.DataFrame


@dataclass(slots=True, kw_only=True)
class _Recording:
    """The rows recorded while the scheduler runs."""

    clock_s: float = 0.0
    passes: list[dict[str, object]] = field(default_factory=list)
    tokens: list[dict[str, object]] = field(default_factory=list)
    cells: list[dict[str, object]] = field(default_factory=list)
    block_events: list[dict[str, object]] = field(default_factory=list)
    events: list[dict[str, object]] = field(default_factory=list)
    chunks: dict[int, int] = field(default_factory=dict)  # each request's latest chunk
    prefilling: set[int] = field(default_factory=set)  # requests with prompt chunks left, in a pass or not


def sample_run(
    engine: str,
    *,
    slots: int = 4,
    budgets: tuple[int, ...] = BUDGETS,
    prompts: tuple[int, ...] = PROMPTS,
    arrivals_s: tuple[float, ...] | None = None,
    num_blocks: int | None = None,
) -> SampleRun:
    """Run an engine over made-up requests, one per budget; prompts repeat where they are fewer.

    `num_blocks` is the size of a paged pool; None for a pool large enough to avoid preemption.
    """
    arrivals = arrivals_s or (0.0,) * len(budgets)
    requests = [_request(i, prompts[i % len(prompts)], budget, arrivals[i]) for i, budget in enumerate(budgets)]
    config = RunConfig(engine=engine, slots=slots, block_size=BLOCK_SIZE, max_num_batched_tokens=TOKENS_A_STEP)
    scheduler = make_scheduler(config, requests, num_blocks)
    recording = _Recording()
    while not scheduler.is_done:
        scheduler.submit_arrived(recording.clock_s)
        scheduler.admit(recording.clock_s)
        ran = [_run_pass(scheduler, kind, recording) for kind in scheduler.kinds]
        if not any(ran):
            wake_s = scheduler.wake_s(recording.clock_s)
            assert wake_s is not None
            recording.clock_s = max(wake_s, recording.clock_s)
    return _frames(recording, requests)


def _request(request_id: int, prompt_tokens: int, budget: int, arrival_s: float) -> Request:
    spec = RequestSpec(
        request_id=request_id,
        prompt=ExactPrompt(tokens=prompt_tokens, passage=request_id),
        budget_tokens=budget,
        ignore_eos=True,
        arrival_s=arrival_s,
        sampling_seed=request_id,
    )
    return Request(spec=spec, prompt_ids=[0] * prompt_tokens)


def _run_pass(scheduler: Scheduler, kind: PassKind, recording: _Recording) -> bool:
    planned = scheduler.plan(kind)
    if planned is None:
        return False
    has_prefill = planned.kind is not PassKind.DECODE
    per_pass_s = 0.018 + 0.0011 * planned.prompt_tokens if has_prefill else 0.031
    start_s = recording.clock_s
    recording.clock_s = start_s + per_pass_s + 0.0012 * len(planned.rows) + 0.00002 * planned.shape.width
    _record_pass(planned, start_s, recording)
    _record_pool(planned, start_s, recording)
    _record_cells(planned, scheduler.running, recording)
    for row in planned.live_requests:
        recording.tokens.append(
            {
                "request_id": row.request_id,
                "token_index": row.num_scheduled,
                "pass_index": planned.index,
                "delivered_s": recording.clock_s,
            }
        )
    for request in scheduler.complete(planned).ended:
        request.finished_s = recording.clock_s
    return True


def _record_pool(planned: PlannedPass, start_s: float, recording: _Recording) -> None:
    """The KV pool's events before this pass, as in the run log."""
    at = {"pass_index": planned.index, "time_s": start_s}
    for change in planned.block_events:
        names = ("block_id", "request_id", "table_index", "allocated")
        recording.block_events.append({name: getattr(change, name) for name in names} | at)
    for lost in planned.preemptions:
        event = {"event": "preempt", "request_id": lost.request.request_id, "lane": lost.lane}
        recording.events.append(
            event | {"blocks": lost.blocks, "tokens": lost.tokens, "step": float(planned.step)} | at
        )
        recording.chunks.pop(lost.request.request_id, None)
        recording.prefilling.discard(lost.request.request_id)


def _record_pass(planned: PlannedPass, start_s: float, recording: _Recording) -> None:
    shape = planned.shape
    recording.passes.append(
        {
            "pass_index": planned.index,
            "step": planned.step,
            "kind": str(planned.kind),
            "start_s": start_s,
            "end_s": recording.clock_s,
            "rows": len(planned.rows),
            "live_rows": len(planned.live),
            "width": shape.width,
            "queue_depth": planned.queue_depth,
            "prompt_tokens": planned.prompt_tokens,
            "computed_positions": shape.computed_positions,
            "padding_positions": shape.padding_positions,
            "dead_positions": shape.dead_positions,
            "chunk_rows": len(planned.partial_chunks),
            "tokens": planned.tokens,
            "recomputed_tokens": sum(chunk.recomputed for chunk in planned.chunks),
        }
        | {f"kv_{name}_positions": getattr(planned.kv, name) for name in KV_COLUMNS}
    )


def _record_cells(planned: PlannedPass, running: list[Request], recording: _Recording) -> None:
    """A cell per running request and pass; `_spans` joins them into spans."""
    yielding = set(planned.rows)
    for chunk in planned.chunks:
        if chunk.start or not chunk.is_last:  # a prompt prefilled in one piece has no chunks
            recording.chunks[chunk.request.request_id] = recording.chunks.get(chunk.request.request_id, -1) + 1
    recording.prefilling |= {chunk.request.request_id for chunk in planned.partial_chunks}
    recording.prefilling -= {chunk.request.request_id for chunk in planned.chunks if chunk.is_last}
    for request in running:
        phase, number = _phase_and_chunk(planned, request, recording)
        recording.cells.append(
            {
                "lane": request.lane,
                "slot": request.slot,
                "request_id": request.request_id,
                "phase": phase if request.finish_reason is None else "dead",
                "pass_index": planned.index,
                "prompt_tokens": request.num_prompt_tokens,
                "tokens_so_far": request.num_scheduled + (request in yielding and request.finish_reason is None),
                "chunk": number,
            }
        )


def _phase_and_chunk(planned: PlannedPass, request: Request, recording: _Recording) -> tuple[str, int]:
    """The phase of a running request's lane during a pass, and the chunk of its prompt; -1 without chunks."""
    is_prefill = planned.kind is PassKind.PREFILL and request in planned.rows
    is_prefill |= any(chunk.request is request for chunk in planned.chunks)
    if is_prefill or request.request_id in recording.prefilling:
        return "prefill", recording.chunks.get(request.request_id, -1)
    return "decode", -1


def _frames(recording: _Recording, requests: list[Request]) -> SampleRun:
    passes, tokens = pd.DataFrame(recording.passes), pd.DataFrame(recording.tokens)
    first = tokens.groupby("request_id")["delivered_s"].min()
    rows = [
        {
            "request_id": r.request_id,
            "queue_wait_s": (r.admitted_s or 0.0) - r.spec.arrival_s,
            "ttft_s": first[r.request_id] - r.spec.arrival_s,
            "e2e_s": (r.finished_s or 0.0) - r.spec.arrival_s,
        }
        for r in requests
    ]
    return SampleRun(
        spans=_spans(pd.DataFrame(recording.cells), passes),
        passes=passes,
        requests=pd.DataFrame(rows),
        totals=_totals(passes),
        block_events=pd.DataFrame(recording.block_events),
        events=pd.DataFrame(recording.events),
    )


def _spans(cells: pd.DataFrame, passes: pd.DataFrame) -> pd.DataFrame:
    """Join adjacent cells of one lane, slot, request and phase into spans, with step positions and seconds."""
    cells = cells.sort_values(["lane", "pass_index"], ignore_index=True)
    key = cells[["lane", "slot", "request_id", "phase", "chunk"]]
    starts = (key != key.shift()).any(axis=1) | (cells["pass_index"].diff() != 1)
    spans = cells.groupby(starts.cumsum(), sort=False).agg(
        lane=("lane", "first"),
        slot=("slot", "first"),
        request_id=("request_id", "first"),
        phase=("phase", "first"),
        first_pass=("pass_index", "first"),
        last_pass=("pass_index", "last"),
        prompt_tokens=("prompt_tokens", "first"),
        tokens_so_far=("tokens_so_far", "last"),
        chunk=("chunk", "first"),
    )
    spans["chunk"] = spans["chunk"].where(spans["chunk"] >= 0)
    in_step = passes.groupby("step").cumcount() / passes.groupby("step")["step"].transform("size")
    position = passes["step"] + in_step
    end = [*position.iloc[1:], passes["step"].iloc[-1] + 1.0]
    first, last = spans.pop("first_pass").to_numpy(), spans.pop("last_pass").to_numpy()
    spans["start_step"], spans["end_step"] = position.to_numpy()[first], pd.Series(end).to_numpy()[last]
    spans["start_s"], spans["end_s"] = passes["start_s"].to_numpy()[first], passes["end_s"].to_numpy()[last]
    return spans.reset_index(drop=True)


def _totals(passes: pd.DataFrame) -> pd.DataFrame:
    seconds = passes["end_s"] - passes["start_s"]
    totals = passes[["computed_positions", "padding_positions", "dead_positions"]].sum().to_dict()
    for part in ("padding", "dead"):
        totals[f"{part}_s"] = float((seconds * passes[f"{part}_positions"] / passes["computed_positions"]).sum())
    for kind in ("prefill", "decode", "mixed"):
        totals[f"{kind}_s"] = float(seconds[passes["kind"] == kind].sum())
    held_s = passes["start_s"].shift(-1).fillna(passes["end_s"]) - passes["start_s"]
    for name in KV_COLUMNS:
        totals[f"kv_{name}_position_s"] = float((held_s * passes[f"kv_{name}_positions"]).sum())
    reserved_s, *parts_s = (totals[f"kv_{name}_position_s"] for name in KV_COLUMNS)
    totals["kv_room_position_s"] = reserved_s - sum(parts_s)
    totals["kv_unused_position_s"] = reserved_s - totals["kv_used_position_s"]
    totals["slot_steps"], totals["useful_slot_steps"] = int(passes["rows"].sum()), int(passes["live_rows"].sum())
    return pd.DataFrame([totals])
