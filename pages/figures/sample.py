"""Sample runs for the figures' own demos: eight requests with unequal budgets through four slots.

The lab's own policies decide every step; only the clock is made up (a pass costs a fixed part, a part a row and a part
a prompt token). Nothing here is a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from engine.core.config import FormRule
from engine.core.kv_layout import PaddedLayout, SlotLayout
from engine.core.passes import PassKind, PlannedPass
from engine.core.request import ExactPrompt, Request, RequestSpec
from engine.core.scheduler import ContinuousScheduler, Scheduler, StaticScheduler

BUDGETS = (20, 44, 12, 31, 48, 9, 36, 17)
PROMPTS = (38, 52, 41, 95, 33, 47, 120, 44)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRun:
    """One made-up run as the figures take it: a DataFrame a table, and the ledger's one row."""

    spans: pd.DataFrame
    passes: pd.DataFrame
    tokens: pd.DataFrame
    requests: pd.DataFrame
    ledger: pd.DataFrame


@dataclass(slots=True, kw_only=True)
class _Notes:
    """What is written down while the scheduler runs."""

    clock_s: float = 0.0
    passes: list[dict[str, object]] = field(default_factory=list)
    tokens: list[dict[str, object]] = field(default_factory=list)
    cells: list[dict[str, object]] = field(default_factory=list)


def sample_run(
    engine: str,
    *,
    slots: int = 4,
    budgets: tuple[int, ...] = BUDGETS,
    prompts: tuple[int, ...] = PROMPTS,
    arrivals_s: tuple[float, ...] | None = None,
) -> SampleRun:
    """Run `static` or `continuous` over made-up requests, one a budget; prompts repeat when they are fewer."""
    arrivals = arrivals_s or (0.0,) * len(budgets)
    requests = [_request(i, prompts[i % len(prompts)], budget, arrivals[i]) for i, budget in enumerate(budgets)]
    scheduler = _scheduler(engine, requests, slots)
    notes = _Notes()
    while not scheduler.is_done:
        scheduler.submit_arrived(notes.clock_s)
        scheduler.admit(notes.clock_s)
        ran = [_run_pass(scheduler, kind, notes) for kind in (PassKind.PREFILL, PassKind.DECODE)]
        if not any(ran):
            wake_s = scheduler.wake_s(notes.clock_s)
            assert wake_s is not None
            notes.clock_s = max(wake_s, notes.clock_s)
    return _frames(notes, requests)


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


def _scheduler(engine: str, requests: list[Request], slots: int) -> Scheduler:
    if engine == "static":
        return StaticScheduler(requests, slots, PaddedLayout(), FormRule())
    width = max((r.num_prompt_tokens + r.spec.budget_tokens for r in requests), default=1)
    return ContinuousScheduler(requests, slots, SlotLayout(slots, width))


def _run_pass(scheduler: Scheduler, kind: PassKind, notes: _Notes) -> bool:
    planned = scheduler.plan(kind)
    if planned is None:
        return False
    is_prefill = kind is PassKind.PREFILL
    per_pass_s = 0.018 + 0.0011 * planned.prompt_tokens if is_prefill else 0.031
    start_s = notes.clock_s
    notes.clock_s = start_s + per_pass_s + 0.0012 * len(planned.rows) + 0.00002 * planned.shape.width
    _note_pass(planned, start_s, notes)
    if not is_prefill:
        _note_cells(planned, planned.rows, "decode", notes)
    else:
        _note_cells(planned, planned.rows, "prefill", notes)
        _note_cells(planned, tuple(r for r in scheduler.running if r not in planned.rows), "decode", notes)
    for row in planned.live_requests:
        notes.tokens.append(
            {
                "request_id": row.request_id,
                "token_index": row.num_scheduled,
                "pass_index": planned.index,
                "delivered_s": notes.clock_s,
            }
        )
    for request in scheduler.complete(planned).ended:
        request.finished_s = notes.clock_s
    return True


def _note_pass(planned: PlannedPass, start_s: float, notes: _Notes) -> None:
    shape = planned.shape
    notes.passes.append(
        {
            "pass_index": planned.index,
            "step": planned.step,
            "kind": str(planned.kind),
            "start_s": start_s,
            "end_s": notes.clock_s,
            "rows": len(planned.rows),
            "live_rows": len(planned.live),
            "width": shape.width,
            "queue_depth": planned.queue_depth,
            "prompt_tokens": planned.prompt_tokens,
            "computed_positions": shape.computed_positions,
            "padding_positions": shape.padding_positions,
            "dead_positions": shape.dead_positions,
            "kv_reserved_positions": planned.kv.reserved,
            "kv_used_positions": planned.kv.used,
        }
    )


def _note_cells(planned: PlannedPass, rows: tuple[Request, ...], phase: str, notes: _Notes) -> None:
    """One cell a row and pass; the frames below join them into spans."""
    for request in rows:
        notes.cells.append(
            {
                "lane": request.lane,
                "slot": request.slot,
                "request_id": request.request_id,
                "phase": phase if request.finish_reason is None else "dead",
                "pass_index": planned.index,
                "prompt_tokens": request.num_prompt_tokens,
                "tokens_so_far": request.num_scheduled + (request.finish_reason is None),
            }
        )


def _frames(notes: _Notes, requests: list[Request]) -> SampleRun:
    passes, tokens = pd.DataFrame(notes.passes), pd.DataFrame(notes.tokens)
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
        spans=_spans(pd.DataFrame(notes.cells), passes),
        passes=passes,
        tokens=tokens,
        requests=pd.DataFrame(rows),
        ledger=_ledger(passes),
    )


def _spans(cells: pd.DataFrame, passes: pd.DataFrame) -> pd.DataFrame:
    """Join neighbouring cells of one lane, slot, request and phase into spans, with step positions and seconds."""
    cells = cells.sort_values(["lane", "pass_index"], ignore_index=True)
    key = cells[["lane", "slot", "request_id", "phase"]]
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
    )
    in_step = passes.groupby("step").cumcount() / passes.groupby("step")["step"].transform("size")
    position = passes["step"] + in_step
    end = [*position.iloc[1:], passes["step"].iloc[-1] + 1.0]
    first, last = spans.pop("first_pass").to_numpy(), spans.pop("last_pass").to_numpy()
    spans["start_step"], spans["end_step"] = position.to_numpy()[first], pd.Series(end).to_numpy()[last]
    spans["start_s"], spans["end_s"] = passes["start_s"].to_numpy()[first], passes["end_s"].to_numpy()[last]
    return spans.reset_index(drop=True)


def _ledger(passes: pd.DataFrame) -> pd.DataFrame:
    seconds = passes["end_s"] - passes["start_s"]
    totals = passes[["computed_positions", "padding_positions", "dead_positions"]].sum().to_dict()
    for part in ("padding", "dead"):
        totals[f"{part}_s"] = float((seconds * passes[f"{part}_positions"] / passes["computed_positions"]).sum())
    for kind in ("prefill", "decode"):
        totals[f"{kind}_s"] = float(seconds[passes["kind"] == kind].sum())
    held_s = passes["start_s"].shift(-1).fillna(passes["end_s"]) - passes["start_s"]
    unused = passes["kv_reserved_positions"] - passes["kv_used_positions"]
    totals["kv_reserved_position_s"] = float((held_s * passes["kv_reserved_positions"]).sum())
    totals["kv_unused_position_s"] = float((held_s * unused).sum())
    totals["slot_steps"], totals["useful_slot_steps"] = int(passes["rows"].sum()), int(passes["live_rows"].sum())
    return pd.DataFrame([totals])
