"""Spans prepared for drawing: open ends closed, slot moves joined, gaps filled as empty, hover texts.

A span is one phase of a lane from one step to another. The columns are COLUMNS. Ends may be null while a run is live;
request_id is null for empty spans; chunk (from 0) is null except in chunked prefill. The frame has both units, since
hover texts show both.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from engine.core.format import duration, plural
from pages.figures.frames import records

RunUnit = Literal["step", "second"]
Unit = Literal[RunUnit, "pass"]  # the steps of a plan are forward passes

AXIS_TITLES: dict[Unit, str] = {"step": "step", "second": "seconds", "pass": "forward pass"}

COLUMNS = (
    "lane",
    "slot",
    "request_id",
    "phase",
    "start_step",
    "end_step",
    "start_s",
    "end_s",
    "prompt_tokens",
    "tokens_so_far",
    "chunk",
)


def unit_columns(unit: Unit) -> tuple[str, str]:
    """The names of the start and end columns in a unit."""
    assert unit in AXIS_TITLES
    return ("start_s", "end_s") if unit == "second" else ("start_step", "end_step")


def point_column(unit: Unit) -> str:
    """The name of the column with a moment in a unit."""
    return "time_s" if unit == "second" else "step"


def closed_spans(spans: pd.DataFrame) -> pd.DataFrame:
    """The spans of requests, sorted by lane and start; open ends closed at the latest known time.

    Empty spans are left out: `fill_empty` finds all gaps, including those that the log does not list.
    """
    if spans.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    spans = spans.reindex(columns=list(COLUMNS)).dropna(subset=["lane", "start_s", "start_step"])
    spans = spans[spans["phase"] != "empty"]
    if spans.empty:
        return spans
    for start, end in (("start_step", "end_step"), ("start_s", "end_s")):
        begins, ends = spans[start].astype(float), spans[end].astype(float)
        now = np.nanmax(np.concatenate([begins, ends]))
        spans = spans.assign(**{start: begins, end: ends.fillna(now)})
    spans = spans.assign(lane=spans["lane"].astype(int), phase=spans["phase"].astype(str))
    return spans.sort_values(["lane", "start_s", "start_step"], ignore_index=True)


def merge_moves(spans: pd.DataFrame) -> pd.DataFrame:
    """Join touching spans of one lane, request and phase: a slot move does not change what the lane does.

    Chunks of a prefill stay separate. Takes closed spans. Adds `slots`, the physical slots in order, as text:
    "3, then 1".
    """
    if spans.empty:
        return spans.assign(slots=pd.Series(dtype=str))
    before = spans.shift()
    same = (spans["lane"] == before["lane"]) & (spans["phase"] == before["phase"])
    same &= (spans["request_id"] == before["request_id"]) & (spans["start_step"] <= before["end_step"] + 1e-9)
    same &= (spans["chunk"] == before["chunk"]) | (spans["chunk"].isna() & before["chunk"].isna())
    group = (~same).cumsum()
    edges = spans.groupby(group, sort=False)
    merged = edges.first()
    for column in ("end_step", "end_s", "tokens_so_far"):
        merged[column] = edges[column].last()
    slots = spans["slot"].map(lambda slot: "" if pd.isna(slot) else f"{slot:.0f}")
    sizes = edges.size()
    merged["slots"] = slots.groupby(group, sort=False).first()
    moved = sizes.index[sizes > 1]
    if len(moved):
        held = slots[group.isin(moved)]
        merged.loc[moved, "slots"] = held.groupby(group[held.index], sort=False).agg(", then ".join)
    return merged.reset_index(drop=True)


def fill_empty(spans: pd.DataFrame, num_lanes: int, unit: Unit) -> pd.DataFrame:
    """Add an empty span wherever a lane had no request between the run's start and its latest time.

    Takes merged spans. In seconds, the pause between two passes is too short to count as empty.
    """
    if spans.empty:
        return spans
    begin, finish = unit_columns(unit)
    columns = ["start_step", "end_step", "start_s", "end_s"]
    starts, ends = spans[["start_step", "start_s"]].min().clip(upper=0.0), spans[["end_step", "end_s"]].max()
    first = pd.DataFrame({"lane": np.arange(num_lanes), "end_step": starts["start_step"], "end_s": starts["start_s"]})
    last = pd.DataFrame({"lane": np.arange(num_lanes), "start_step": ends["end_step"], "start_s": ends["end_s"]})
    edges = pd.concat([first, spans[["lane", *columns]], last], ignore_index=True)
    edges = edges.sort_values(["lane", begin], na_position="first", kind="stable", ignore_index=True)
    after = edges.shift(-1)
    least = 1e-9 if unit != "second" else 1e-3 * float(ends[finish] - starts[begin])
    is_gap = (edges["lane"] == after["lane"]) & (after[begin] - edges[finish] > least)
    empty = pd.DataFrame(
        {
            "lane": edges["lane"],
            "phase": "empty",
            "start_step": edges["end_step"],
            "end_step": after["start_step"],
            "start_s": edges["end_s"],
            "end_s": after["start_s"],
            "slots": "",
        }
    )[is_gap]
    return pd.concat([spans, empty], ignore_index=True) if len(empty) else spans


def visible_spans(spans: pd.DataFrame, unit: Unit, x_range: tuple[float, float] | None) -> pd.DataFrame:
    """The spans that overlap a window; all spans without a window."""
    if x_range is None:
        return spans
    start, end = unit_columns(unit)
    return spans[(spans[end] > x_range[0]) & (spans[start] < x_range[1])]


def hover_texts(spans: pd.DataFrame, unit: Unit = "step") -> list[str]:
    """For each merged span: request, prompt tokens, tokens so far, steps, seconds, lane and physical slot.

    A plan in forward passes has no seconds.
    """
    return [_hover_text(row, unit) for row in records(spans)]


def _hover_text(span: dict[str, Any], unit: Unit) -> str:
    start_step, end_step = float(span["start_step"]), float(span["end_step"])
    start_s, end_s = float(span["start_s"]), float(span["end_s"])
    first, last = int(np.floor(start_step + 1e-9)), max(int(np.ceil(end_step - 1e-9)) - 1, int(start_step))
    noun, nouns = ("pass", "passes") if unit == "pass" else ("step", "steps")
    steps = f"{noun} {first:,}" if first == last else f"{nouns} {first:,} to {last:,}"
    where = f"lane {span['lane']}" + (f", slot {span['slots']}" if span.get("slots") else "")
    lines = [_phase_text(span)]
    if span["phase"] != "empty":
        lines.append(_tokens_text(span))
    seconds = f"{duration(start_s)} to {duration(end_s)} ({duration(end_s - start_s)})"
    lines += [steps, where] if unit == "pass" else [steps, seconds, where]
    return "<br>".join(lines)


def _phase_text(span: dict[str, Any]) -> str:
    phase = {"dead": "dead: already finished", "empty": "empty: no request"}.get(str(span["phase"]), str(span["phase"]))
    request_id = span.get("request_id")
    if span["phase"] == "empty" or request_id is None or pd.isna(request_id):
        return f"<b>{phase}</b>"
    chunk = span.get("chunk")
    if chunk is not None and not pd.isna(chunk):
        phase += f", chunk {int(chunk) + 1}"
    return f"<b>request {request_id:.0f}</b>, {phase}"


def _tokens_text(span: dict[str, Any]) -> str:
    nouns = (("prompt_tokens", "prompt token", "prompt tokens"), ("tokens_so_far", "token so far", "tokens so far"))
    known = [plural(float(span[name]), one, many) for name, one, many in nouns if not pd.isna(span[name])]
    return ", ".join(known) or "token counts not known yet"
