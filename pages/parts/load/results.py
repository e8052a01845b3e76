"""The results of a load test: what was asked and what failed, rates, waits, capacity and knee, goodput, the table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from engine.core.format import exact, plural
from engine.load.findings import (
    capacity_text,
    goodput_text,
    growth_text,
    knee_text,
    little_text,
    ratio_sentence,
    ttft_text,
    wait_text,
)
from engine.load.load_table import LoadRow
from engine.load.queue_growth import RULE
from pages.figures.load.latency import QUEUE, TTFT, latency_over_offered
from pages.figures.load.queue import queue_with_windows
from pages.figures.load.rates import GOODPUT, achieved_over_offered
from pages.parts.experiments.description import FAILED, STATUS, cap_text, failure_lines, how_text, lines
from pages.parts.experiments.tables import draw_csv, show_table
from pages.parts.load.measured import MeasuredLoad, waiting_of
from pages.parts.load.tables import (
    CAPACITY_HEADER,
    FIGURES,
    LITTLE_HEADER,
    attempts_columns,
    capacity_rows,
    csv_of,
    goodput_columns,
    little_rows,
    load_columns,
    rate_sentence,
)
from pages.parts.shared.charts import show_still
from pages.parts.shared.lab import is_dark
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.page_state import linked, one_of
from pages.parts.shared.tables import draw_table

MOST_RATES = 8
STEADY = (
    "**Steady window.** Rates are counted from the moment when as many requests run as ever do for long in that run, "
    "or one mean stay after the first arrival if that comes first, until the last request is admitted. Before it slots "
    "fill, after it they empty: both would make an engine look slower than it is. A request that spans an edge counts "
    "with the share of its tokens that came inside."
)
CAPACITY = (
    "**Capacity** is what an engine completes a second when somebody always waits: all requests are there from the "
    "start, and its queue never empties before the last is admitted. To confirm it, the same requests are sent evenly "
    "spaced at 0.9 and at 1.1 times it: the queue has to grow at the one above and not at the one below. Evenly, "
    "because the chance of a random trace would hide what a tenth more or less does."
)


def load_line(data: MeasuredLoad) -> str:
    """`static and continuous, smollm2-135m, 4 slots: 48 requests of chat, budget 8-48, poisson at 1, 2, 3 a second`."""
    config = data.config
    assert config is not None
    workload = config.workload
    rates = rates_text(data.rates)
    how = [*how_text(config), plural(config.slots, "slot"), *cap_text(config)]
    who = ", ".join([listed(list(data.table.engines)), config.model, *how])
    what = f"{plural(workload.requests, 'request')} of {workload.prompts}, budget {workload.budget}"
    return f"{who}: {what}, {data.settings.get('law', '')} at {rates} a second, seed {workload.seed}"


def rates_text(rates: Sequence[float]) -> str:
    """`1, 2, 3`; of many, `29 rates from 2 to 58`."""
    if len(rates) > MOST_RATES:
        return f"{len(rates)} rates from {exact(rates[0], digits=4)} to {exact(rates[-1], digits=4)}"
    return ", ".join(exact(rate, digits=4) for rate in rates)


def load_failures(data: MeasuredLoad) -> list[str]:
    """`- static, 2/s: out of memory: …`, the first few."""
    said = []
    for row in data.table.rows:
        if row.status in FAILED:
            status, why = STATUS.get(row.status, row.status), f": {row.error}" if row.error else ""
            said.append(f"{row.engine}, {rate_sentence(row.role, row.rate_per_s)}: {status}{why}")
    return failure_lines(said)


def draw_rates(data: MeasuredLoad) -> None:
    """Achieved against offered, all engines in one figure, with what it shows in words."""
    st.subheader("Achieved against offered", anchor=False)
    found = {engine: data.table.capacity(engine) for engine in data.table.engines}
    capacities = {engine: known.requests_per_s.median for engine, known in found.items() if known is not None}
    figure = achieved_over_offered(data.rows, capacities, dark=is_dark())
    show_still(figure, alt="Achieved against offered rate", key="rates")
    knees = [knee_text(knee) for engine in data.table.engines if (knee := data.table.knee(engine)) is not None]
    st.caption(lines([*knees, ratio_sentence(data.table)]) or "No rate tells yet.")
    with st.expander("What is counted, and what hollow marks and dotted lines are"):
        st.markdown(STEADY)
        st.markdown(f"{CAPACITY} Those are the hollow marks; the dotted line is the capacity.")
        st.markdown(f"**When a queue grows.** {RULE}")


def draw_waits(data: MeasuredLoad) -> None:
    """Queue wait and time to first token over the same rates."""
    st.subheader("How long readers wait", anchor=False)
    left, right = st.columns(2, gap="medium")
    with left:
        show_still(
            latency_over_offered(data.rows, QUEUE, dark=is_dark()),
            alt="Queue wait over offered rate",
            key="queue_wait",
        )
        st.caption(plain(_widest_wait(data) or "The wait from the intended arrival until a slot was free."))
    with right:
        show_still(
            latency_over_offered(data.rows, TTFT, dark=is_dark()),
            alt="Time to first token over offered rate",
            key="ttft",
        )
        said = [ttft_text(data.table.of(engine, "rate")) for engine in data.table.engines]
        st.caption(lines(said) or "From the intended arrival until the first token.")


def _widest_wait(data: MeasuredLoad) -> str:
    """What the engines' median waits are at the rate where they differ most."""
    best, said = 0.0, ""
    for rate in data.rates:
        rows = [row for row in data.table.rows if row.role == "rate" and row.rate_per_s == rate]
        known = [wait for row in rows if (wait := row.median(lambda point: point.queue_wait_p50_s)) is not None]
        apart = max(known) / max(min(known), 1e-6) if len(known) > 1 else 0.0
        if apart > best:
            best, said = apart, wait_text(rows)
    return said


def draw_capacity(data: MeasuredLoad) -> None:
    """Each engine's capacity and knee, as a table and in words."""
    st.subheader("Capacity and knee", anchor=False)
    draw_table(list(CAPACITY_HEADER), capacity_rows(data.table), figures=(1, 2, 3))
    found = [known for engine in data.table.engines if (known := data.table.capacity(engine))]
    said = [capacity_text(known) for known in found]
    st.caption(lines(said) or "No run with all requests there from the start has completed.")


def draw_goodput(data: MeasuredLoad, is_limited: bool) -> None:
    """What is served within the limits; without limits, how to get it."""
    if not is_limited:
        st.caption("Set a limit, and what each engine serves within it is drawn over the rates.")
        return
    show_still(
        achieved_over_offered(data.rows, column=GOODPUT, dark=is_dark()),
        alt="Goodput over offered rate",
        key="goodput",
    )
    rows = [row for row in data.table.rows if row.role == "rate"]
    said = [goodput_text(row) for row in rows if row.rate_per_s == max(data.rates, default=None)]
    st.caption(lines(said) or "No run at a rate completed.")
    _table(goodput_columns(data.rows), "load_goodput_table")
    st.caption(
        "Shares are of all requests of a run, one that never finished keeping no limit. Rates are counted in the "
        "steady window. An answer of one token, or one that is returned whole, has no pause that could be too long."
    )


def draw_whole_table(data: MeasuredLoad) -> None:
    """The table with its CSV, then every run by itself."""
    st.subheader("The table", anchor=False)
    _table(load_columns(data.rows), "load_table")
    st.caption(
        "Medians over the completed repeats; spread is (highest - lowest) / median of what was achieved. Percentiles "
        "are of n requests, from the intended arrival; below 100 requests there is no p99."
    )
    draw_csv(csv_of(data.rows), "load", data.experiment_id)
    with st.expander("Every run of the load test, in the order of running"):
        _table(attempts_columns(data.points), "load_attempts")


def _table(frame: pd.DataFrame, key: str) -> None:
    digits = [name for name in frame if name in FIGURES or "requests/s" in name]
    show_table(frame, key, figures=digits, whole="n")


# The queue over time at one rate, steady windows shaded, whether it grows, and Little's law in words and figures.

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
        found.setdefault(rate_sentence(row.role, row.rate_per_s), []).append(row)
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
    return [growth_text(row.engine, row.middle.growth) for row in rows if row.middle is not None]


def _draw_little(data: MeasuredLoad, rows: list[LoadRow]) -> None:
    """The law for the rate that is shown, in words; for all rates behind an expander."""
    told = [(row, row.middle.little) for row in rows if row.middle is not None and row.middle.little is not None]
    if told:
        st.caption(lines(little_text(row.engine, row.rate_per_s, little) for row, little in told))
    with st.expander("Little's law: why so few requests a second keep so many in the system"):
        st.markdown(LITTLE)
        if every := little_rows([row for row in data.table.rows if row.role != "saturation"]):
            draw_table(list(LITTLE_HEADER), every, figures=(2, 3, 4, 5, 6, 7))
        else:
            st.caption("No run has had enough requests in its steady window for it yet.")
