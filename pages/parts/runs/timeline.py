"""The slot timelines of one run or several, as an instrument: one cursor, play and step, one request marked in all.

`?request=12` marks a request and opens its prompt and answers; `?lanes=all` unfolds the lanes that were never used.
"""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from engine.core.format import is_missing, plural
from pages.figures.timeline.preemptions import preemptions_of
from pages.figures.timeline.queue import queue_from_passes
from pages.figures.timeline.spans import RunUnit, closed_spans
from pages.figures.timeline.timeline import shared_range, slot_timeline, unused_lanes
from pages.parts.runs.figures import LATENCY_FIGURES, chosen_unit, lanes_px
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.runs.request_texts import draw_request
from pages.parts.shared.charts import show
from pages.parts.shared.components.timeline_player import (
    Panel,
    Pick,
    marks_of,
    pass_values,
    request_at,
    timeline_player,
    wait_of,
)
from pages.parts.shared.fields import Choice, Field, Number
from pages.parts.shared.lab import is_dark
from pages.parts.shared.page_state import linked, page_key

REQUEST, LANES = "request", "lanes"
FOLDED, ALL = "folded", "all"
TIMELINE_FIELDS: dict[str, Field] = {
    REQUEST: Number(low=0, high=1e9, default=None),
    LANES: Choice(options=(FOLDED, ALL), default=FOLDED),
}
FOLLOWERS = ("passes", "blocks")  # the keys of Run's other figures on the same x axis

Runs = Mapping[str, LoadedRun]


def draw_slot_timelines(runs: Runs, *, room_px: float) -> RunUnit:
    """A timeline per run over one x range, by name; the lanes of each have room for `room_px`. Returns the unit, which
    the page's switch has set. `draw_player` belongs to them."""
    unit = chosen_unit()
    folds = _fold_switch(runs)
    window = shared_range([run.spans for run in runs.values()], unit)
    is_single = len(runs) == 1
    for name, run in runs.items():
        figure = slot_timeline(
            run.spans,
            unit=unit,
            queue=queue_from_passes(run.passes),
            x_range=window,
            num_lanes=run.config.num_slots,
            preemptions=preemptions_of(run.events),
            title="" if is_single else name,
            folds=folds,
            most_px=lanes_px(run.config.num_slots, room_px),
            dark=is_dark(),
        )
        show(figure, key=_figure_of(run), alt="Slot timeline" if is_single else f"Slot timeline of {name}")
    return unit


def _fold_switch(runs: Runs) -> bool:
    """Draw the switch of unused lanes where a timeline has many. Returns whether they are folded."""
    unused = max(unused_lanes(closed_spans(run.spans), run.config.num_slots) for run in runs.values())
    if not unused:
        return True
    with linked(LANES, False, lambda texts: texts[-1] == ALL, lambda shown: (ALL,) if shown else ()) as key:
        return not st.toggle(f"Show {plural(unused, 'unused lane')}", key=key)


@st.fragment
def draw_player(runs: Runs) -> None:
    """The player of the timelines, and the marked request's texts. A click draws this part again, not the figures."""
    unit = chosen_unit()
    by_figure = {_figure_of(run): run for run in runs.values()}

    def choose(request_id: int | None) -> None:
        st.session_state[page_key(REQUEST)] = request_id

    def pick(picked: Pick) -> None:
        if picked.figure in by_figure:
            choose(request_at(by_figure[picked.figure].spans, picked.lane, picked.at, unit))

    with linked(REQUEST, None, lambda texts: _whole_number(texts[-1])) as key:
        marked: int | None = st.session_state.get(key)
    timeline_player(
        [_panel(name, run, marked, unit) for name, run in runs.items()],
        unit=unit,
        request=marked,
        last_request=max((run.num_requests for run in runs.values()), default=1) - 1,
        on_pick=pick,
        on_choose=choose,
        followers=FOLLOWERS if len(runs) == 1 else (),
        values=_latency_marks(runs, marked),
    )
    if marked is not None:
        draw_request(runs, marked)


def _panel(name: str, run: LoadedRun, marked: int | None, unit: RunUnit) -> Panel:
    marks = [] if marked is None else marks_of(run.spans, marked, unit)
    arrival = run.requests.loc[run.requests["request_id"] == marked, "arrival_s"]
    return Panel(
        figure=_figure_of(run),
        name=name,
        passes=pass_values(run.passes, unit),
        marks=marks,
        wait=wait_of(run.passes, marks, float(arrival.iloc[0]), unit) if len(arrival) else None,
    )


def _latency_marks(runs: Runs, marked: int | None) -> dict[str, list[tuple[float, str]]]:
    """The marked request's value in each figure of latencies, by the figure's key. Gaps have no single value."""
    marks: dict[str, list[tuple[float, str]]] = {}
    for latency in LATENCY_FIGURES:
        column = f"{latency.key}_s"
        for name, run in runs.items():
            if marked is None or column not in run.requests:
                continue
            value = run.requests.loc[run.requests["request_id"] == marked, column]
            if len(value) and not is_missing(value.iloc[0]):
                text = f"request {marked}" if len(runs) == 1 else f"{name}, request {marked}"
                marks.setdefault(f"cdf_{latency.key}", []).append((float(value.iloc[0]), text))
    return marks


def _figure_of(run: LoadedRun) -> str:
    """The key of its timeline."""
    return f"timeline_{run.run_id}"


def _whole_number(text: str) -> int:
    """A request's number in the address. ValueError for any other text."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError("no request")
    return int(text)
