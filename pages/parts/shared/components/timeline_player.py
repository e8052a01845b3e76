"""The timeline player: a cursor through several charts, play and single steps, and the marks of one request.

It adds to charts that `show` drew: it finds them by their keys. A click in a timeline is a pick (a lane at a place on
the x axis); the page finds the request there and gives back its marks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from pages.figures.timeline.passes import placed, thinned
from pages.figures.timeline.spans import Unit, closed_spans, merge_moves, unit_columns
from pages.parts.shared.components.registration import class_of, mount
from pages.parts.shared.page_state import page_key

MOST_PASSES = 4000

Mark = tuple[int, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A click in the timeline of the figure `figure`: a lane, and the place on its x axis."""

    figure: str
    lane: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A timeline: the key of its figure, its name, and the passes under the cursor (as `pass_values`).

    `marks` are the spans of the marked request, `wait` its time in the queue; both in the unit drawn.
    """

    figure: str
    name: str
    passes: Mapping[str, Any]
    marks: Sequence[Mark] = ()
    wait: tuple[float, float] | None = None


def timeline_player(
    panels: Sequence[Panel],
    *,
    unit: Unit,
    request: int | None,
    last_request: int,
    on_pick: Callable[[Pick], None],
    on_choose: Callable[[int | None], None],
    followers: Sequence[str] = (),
    values: Mapping[str, Sequence[tuple[float, str]]] | None = None,
) -> None:
    """Draw the player's bar for timelines that are on the page.

    `followers` are figures with the same x axis: the cursor passes through them too. `values` are figures over seconds
    with the places and texts of marks. A callback runs before the page, or its fragment, is drawn again.
    """
    key = page_key("timeline_player")

    def pick() -> None:
        event = st.session_state[key]["pick"]
        figure = next((panel.figure for panel in panels if figure_class(panel.figure) == event["panel"]), "")
        on_pick(Pick(figure=figure, lane=int(event["lane"]), at=float(event["at"])))

    def choose() -> None:
        chosen = st.session_state[key]["choose"]
        on_choose(None if chosen is None else int(chosen))

    data = {
        "unit": unit,
        "request": request,
        "last_request": last_request,
        "panels": [
            {
                "key": figure_class(panel.figure),
                "name": panel.name,
                "passes": panel.passes,
                "marks": panel.marks,
                "wait": panel.wait,
            }
            for panel in panels
        ],
        "followers": [{"key": figure_class(figure)} for figure in followers],
        "values": [
            {"key": figure_class(figure), "lines": [{"at_s": at_s, "text": text} for at_s, text in lines]}
            for figure, lines in (values or {}).items()
        ],
    }
    mount("timeline_player", key=key, data=data, on_pick_change=pick, on_choose_change=choose)


def figure_class(figure: str) -> str:
    """Where the player finds a figure that `show` drew with this key."""
    return class_of(page_key(f"figure_{figure}"))


def pass_values(passes: pd.DataFrame, unit: Unit) -> dict[str, Any]:
    """What the cursor shows of each pass, in columns: x (where it begins, in the unit drawn), kind, rows, live, queue,
    ms, and `other`: its seconds on an axis of steps, its step on one of seconds. `end` is the end of the last pass.

    A plan in forward passes has no ms and no `other`. More than MOST_PASSES are `thinned`: the longest and the shortest
    of every stretch are kept.
    """
    passes = passes.dropna(subset=["start_s", "end_s"]) if not passes.empty else passes
    if passes.empty:
        return {
            "end": 0.0,
            "thinned": False,
            **{name: [] for name in ("x", "kind", "rows", "live", "queue", "ms", "other")},
        }
    drawn = placed(passes, unit)
    end, is_thinned = float(drawn["x_end"].max()), len(drawn) > MOST_PASSES
    drawn = thinned(drawn, MOST_PASSES)
    has_times = unit != "pass"
    return {
        "end": round(end, 6),
        "thinned": is_thinned,
        "x": drawn["x"].round(6).tolist(),
        "kind": drawn["kind"].astype(str).tolist(),
        "rows": drawn["rows"].astype(int).tolist(),
        "live": drawn["live_rows"].astype(int).tolist(),
        "queue": drawn["queue_depth"].astype(int).tolist(),
        "ms": drawn["duration_ms"].round(4).tolist() if has_times else [],
        "other": drawn["start_s" if unit == "step" else "step"].round(6).tolist() if has_times else [],
    }


def marks_of(spans: pd.DataFrame, request_id: int, unit: Unit) -> list[Mark]:
    """The spans of a request as lane, start and end, dead ones included."""
    start, end = unit_columns(unit)
    merged = merge_moves(closed_spans(spans))
    mine = merged[merged["request_id"] == request_id] if not merged.empty else merged
    columns = (mine["lane"].astype(int), mine[start].astype(float), mine[end].astype(float))
    return [(int(lane), float(first), float(last)) for lane, first, last in zip(*columns, strict=True)]


def request_at(spans: pd.DataFrame, lane: int, at: float, unit: Unit) -> int | None:
    """The request that holds a lane at a place on the x axis; None where the lane is empty there."""
    start, end = unit_columns(unit)
    closed = closed_spans(spans)
    if closed.empty:
        return None
    found = closed[(closed["lane"] == lane) & (closed[start] <= at) & (closed[end] >= at)]
    found = found.dropna(subset=["request_id"])
    return None if found.empty else int(found.sort_values(start)["request_id"].iloc[-1])


def wait_of(passes: pd.DataFrame, marks: Sequence[Mark], arrival_s: float, unit: Unit) -> tuple[float, float] | None:
    """A request's time in the queue, from its arrival to its first span; None where it did not wait.

    On an axis of steps it arrives where the first pass begins that starts after its arrival.
    """
    if not marks or passes.empty:
        return None
    admitted = min(start for _, start, _ in marks)
    arrived = arrival_s
    if unit != "second":
        drawn = placed(passes.dropna(subset=["start_s", "end_s"]), unit)
        later = drawn["x"][drawn["start_s"] >= arrival_s]
        arrived = float(later.iloc[0]) if len(later) else float(drawn["x_end"].max())
    return (arrived, admitted) if admitted > arrived else None
