"""The queue over time at one rate, steady windows shaded, whether it grows, and Little's law in words and figures."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from engine.core.load_table import LoadRow
from engine.core.load_words import growth_words, little_words
from pages.figures.load_queue import queue_with_windows
from pages.parts.experiments.description import lines
from pages.parts.lab import is_dark
from pages.parts.load.measured import MeasuredLoad, waiting_of
from pages.parts.load.tables import LITTLE_HEADER, little_rows, rate_words
from pages.parts.markdown import plain
from pages.parts.page_state import linked, one_of
from pages.parts.shared.charts import show_still
from pages.parts.tables import draw_table

AT = "at"
LITTLE = (
    "**Little's law**: the mean number of requests in a system is the rate at which they come times the mean time that "
    "each is there, whatever the order in which they are served. So half a request a second can hold 13 in flight: "
    "each of them is there for 26\u00a0s. It says nothing about an engine; it checks that the run was steady and that "
    "its books agree. Where requests pile up, those that come last are there for longer than the window, and the "
    "two sides part."
)


def queue_choices(data: MeasuredLoad) -> dict[str, list[LoadRow]]:
    """The rows with a completed run by the words of their rate; rates first, then around capacity, then all at once."""
    order = ("rate", "below", "above", "saturation")
    rows = sorted(
        (row for row in data.table.rows if row.points), key=lambda row: (order.index(row.role), row.rate_per_s or 0)
    )
    found: dict[str, list[LoadRow]] = {}
    for row in rows:
        found.setdefault(rate_words(row.role, row.rate_per_s), []).append(row)
    return found


def draw_queue(data: MeasuredLoad) -> None:
    """One rate at a time, all engines on one axis; then the law at every rate."""
    choices = queue_choices(data)
    if not choices:
        return
    st.subheader("The queue over time", anchor=False)
    asked = st.query_params.get(AT)
    if asked is not None and asked not in choices:
        st.caption(f":material/link_off: There is no rate {plain(asked[:40])} in this load test.")
    first = next((words for words, rows in choices.items() if any(row.grows for row in rows)), next(iter(choices)))
    with linked(AT, first, one_of(list(choices))) as key:
        if st.session_state[key] not in choices:  # another load test is shown
            st.session_state[key] = first
        chosen = st.segmented_control("At", list(choices), required=True, key=key, persist_state="page") or first
    rows = choices[chosen]
    queue, windows = queues_of(rows)
    show_still(queue_with_windows(queue, windows, dark=is_dark()), alt=f"The queue over time at {chosen}", key="queue")
    st.caption(lines(queue_sentences(rows)))
    _draw_little(data, rows)


def queues_of(rows: list[LoadRow]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Of each engine the run in the middle of its repeats: its queue and its steady window."""
    queues, windows = [], []
    for row in rows:
        middle = row.middle
        sample = next((sample for sample in row.samples if sample.point is middle), None)
        waiting = None if sample is None or sample.run_id is None else waiting_of(sample.run_id)
        if middle is None or waiting is None:
            continue
        queues.append(waiting.assign(series=row.engine))
        if middle.window is not None:
            windows.append((row.engine, middle.window.begin_s, middle.window.end_s))
    columns = ["series", "begin_s", "end_s"]
    queue = pd.concat(queues, ignore_index=True) if queues else pd.DataFrame(columns=["series", "queue_depth"])
    return queue, pd.DataFrame(windows, columns=columns)


def queue_sentences(rows: list[LoadRow]) -> list[str]:
    """Whether each engine's queue grew; of runs with all requests at once, that it shrinks from the start."""
    if rows[0].role == "saturation":
        return ["All requests are there from the start: the queue is never empty until the last one is admitted."]
    return [growth_words(row.engine, row.middle.growth) for row in rows if row.middle is not None]


def _draw_little(data: MeasuredLoad, rows: list[LoadRow]) -> None:
    """The law for the rate that is shown, in words; for all rates behind an expander."""
    told = [(row, row.middle.little) for row in rows if row.middle is not None and row.middle.little is not None]
    if told:
        st.caption(lines(little_words(row.engine, row.rate_per_s, little) for row, little in told))
    with st.expander("Little's law: why so few requests a second keep so many in the system"):
        st.markdown(LITTLE)
        if every := little_rows([row for row in data.table.rows if row.role != "saturation"]):
            draw_table(list(LITTLE_HEADER), every, figures=(2, 3, 4, 5, 6, 7))
        else:
            st.caption("No run has had enough requests in its steady window for it yet.")
