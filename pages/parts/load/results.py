"""The results of a load test: header, rates, waiting times, queues, capacities, goodput, tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
import streamlit as st

from engine.core.format import exact, plural
from engine.load.findings import (
    capacity_text,
    goodput_text,
    little_text,
    queue_text,
    rate_text,
    ratio_sentence,
    saturation_text,
    ttft_text,
    wait_text,
)
from engine.load.load_table import LoadRow
from engine.load.queue_growth import RULE
from pages.figures.load.latency import QUEUE, TTFT, floor_text, latency_over_offered
from pages.figures.load.queue import queue_with_windows
from pages.figures.load.rates import GOODPUT, achieved_over_offered
from pages.parts.experiments.description import FAILED, STATUS, cap_notes, execution_notes, failure_lines, lines
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
)
from pages.parts.shared.charts import show_still
from pages.parts.shared.lab import is_dark
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.page_state import linked, one_of
from pages.parts.shared.tables import draw_table

MOST_RATES = 8
STEADY = (
    "**Steady window.** Rates are measured in the steady window. It begins when the number of running requests reaches "
    "its lasting maximum, at the latest one mean time in system after the first arrival, and ends when the last "
    "request is admitted. Before it slots fill, after it they empty. A request at an edge counts by the share of its "
    "tokens inside."
)
CAPACITY = (
    "**Capacity.** The request rate that an engine serves when all requests arrive at once, so that requests always "
    "wait. It is confirmed with evenly spaced requests at 0.9 and 1.1 times this rate: the queue must grow at the "
    "higher rate only. Random arrivals would hide a difference of 10\u00a0%."
)
AT = "at"
LITTLE = (
    "The mean number of requests in a system is their arrival rate times their mean time in it: 0.5 requests/s, "
    "26\u00a0s each, are 13 at a time. The law says nothing about an engine; it checks that the run was steady and "
    "that its records agree. If the queue grows, the last requests stay longer than the window, and the two sides "
    "differ."
)


def load_line(data: MeasuredLoad) -> str:
    """`static and continuous, smollm2-135m, 4 slots: 48 requests of chat, budget 8-48, poisson at 1, 2, 3/s …`."""
    config = data.config
    assert config is not None
    workload = config.workload
    rates = rates_text(data.rates)
    how = [*execution_notes(config), plural(config.slots, "slot"), *cap_notes(config)]
    who = ", ".join([listed(list(data.table.engines)), config.model, *how])
    what = f"{plural(workload.requests, 'request')} of {workload.prompts}, budget {workload.budget}"
    return f"{who}: {what}, {data.settings.get('law', '')} at {rates}/s, seed {workload.seed}"


def rates_text(rates: Sequence[float]) -> str:
    """`1, 2, 3`; for many, `29 rates from 2 to 58`."""
    if len(rates) > MOST_RATES:
        return f"{len(rates)} rates from {exact(rates[0], digits=4)} to {exact(rates[-1], digits=4)}"
    return ", ".join(exact(rate, digits=4) for rate in rates)


def load_failures(data: MeasuredLoad) -> list[str]:
    """`- static, 2/s: out of memory: …`, for the first few failures."""
    failures = []
    for row in data.table.rows:
        if row.status in FAILED:
            status, why = STATUS.get(row.status, row.status), f": {row.error}" if row.error else ""
            failures.append(f"{row.engine}, {rate_text(row.role, row.rate_per_s)}: {status}{why}")
    return failure_lines(failures)


def draw_rates(data: MeasuredLoad) -> None:
    """Achieved rate by offered rate, all engines in one figure."""
    st.subheader("Achieved rate by offered rate", anchor=False)
    figure = achieved_over_offered(data.rows, capacities_of(data), dark=is_dark())
    show_still(figure, alt="Achieved rate by offered rate", key="rates")
    st.caption(lines(rate_sentences(data)))
    with st.expander("How rates and capacities are measured"):
        st.markdown(STEADY)
        st.markdown(f"{CAPACITY} Hollow marks are these two runs; the dotted line is the capacity.")
        st.markdown(f"**Growing queue.** {RULE}")


def capacities_of(data: MeasuredLoad) -> dict[str, float]:
    """The capacity of each engine that has one, in requests/s."""
    found = {engine: data.table.capacity(engine) for engine in data.table.engines}
    return {engine: known.requests_per_s.median for engine, known in found.items() if known is not None}


def rate_sentences(data: MeasuredLoad) -> list[str]:
    """The finding of the rates: each engine's saturation point, and the ratio of their capacities."""
    saturations = [
        saturation_text(saturation)
        for engine in data.table.engines
        if (saturation := data.table.saturation_point(engine)) is not None
    ]
    return [text for text in (*saturations, ratio_sentence(data.table)) if text] or ["No rate has a result yet."]


def draw_waits(data: MeasuredLoad) -> None:
    """Queue wait and TTFT by offered rate."""
    st.subheader("Waiting times", anchor=False)
    left, right = st.columns(2, gap="medium")
    with left:
        show_still(
            latency_over_offered(data.rows, QUEUE, dark=is_dark()),
            alt="Queue wait by offered rate",
            key="queue_wait",
        )
        st.caption(plain(wait_caption(data)))
    with right:
        show_still(
            latency_over_offered(data.rows, TTFT, dark=is_dark()),
            alt="Time to first token by offered rate",
            key="ttft",
        )
        st.caption(lines(ttft_sentences(data)))


def wait_caption(data: MeasuredLoad) -> str:
    """The engines' waits where they differ most."""
    wait = _widest_wait(data) or "From the intended arrival until admission."
    return f"{wait} {floor_text(data.rows, QUEUE)}".rstrip()


def ttft_sentences(data: MeasuredLoad) -> list[str]:
    """A sentence on each engine's time to first token."""
    sentences = [ttft_text(data.table.of(engine, "rate")) for engine in data.table.engines]
    return list(filter(None, sentences)) or ["From the intended arrival until the first token."]


def _widest_wait(data: MeasuredLoad) -> str:
    """The engines' median waits at the rate where they differ most."""
    most, text = 0.0, ""
    for rate in data.rates:
        rows = [row for row in data.table.rows if row.role == "rate" and row.rate_per_s == rate]
        known = [wait for row in rows if (wait := row.median(lambda point: point.queue_wait_p50_s)) is not None]
        wait_ratio = max(known) / max(min(known), 1e-6) if len(known) > 1 else 0.0
        if wait_ratio > most:
            most, text = wait_ratio, wait_text(rows)
    return text


def draw_queue(data: MeasuredLoad) -> None:
    """The queues of all engines at one rate, and Little's law."""
    choices = queue_choices(data)
    if not choices:
        return
    st.subheader("Queue over time", anchor=False)
    asked = st.query_params.get(AT)
    if asked is not None and asked not in choices:
        st.caption(f":material/link_off: This load test has no rate {plain(asked[:40])}.")
    first = first_growing(choices)
    with linked(AT, first, one_of(list(choices))) as key:
        if st.session_state[key] not in choices:  # another load test is shown
            st.session_state[key] = first
        chosen = st.segmented_control("Rate", list(choices), required=True, key=key, persist_state="page") or first
    rows = choices[chosen]
    queue, windows = queues_of(rows)
    show_still(queue_with_windows(queue, windows, dark=is_dark()), alt=f"Queue over time at {chosen}", key="queue")
    st.caption(lines(queue_sentences(rows)))
    _draw_little(data, rows)


def queue_choices(data: MeasuredLoad) -> dict[str, list[LoadRow]]:
    """The rows with a completed run by the label of their rate: rates, then around capacity, then all at once."""
    order = ("rate", "below", "above", "saturation")
    rows = sorted(
        (row for row in data.table.rows if row.points), key=lambda row: (order.index(row.role), row.rate_per_s or 0)
    )
    found: dict[str, list[LoadRow]] = {}
    for row in rows:
        found.setdefault(rate_text(row.role, row.rate_per_s), []).append(row)
    return found


def first_growing(choices: Mapping[str, list[LoadRow]]) -> str:
    """The lowest rate at which a queue grows; else the first."""
    return next((rate for rate, rows in choices.items() if any(row.grows for row in rows)), next(iter(choices)))


def queues_of(
    rows: list[LoadRow], waiting_in: Callable[[str], pd.DataFrame | None] = waiting_of
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The queue and the steady window of each engine's middle run. `waiting_in` gives the queue of a run by its id."""
    queues, windows = [], []
    for row in rows:
        middle = row.middle
        sample = next((sample for sample in row.samples if sample.point is middle), None)
        waiting = None if sample is None or sample.run_id is None else waiting_in(sample.run_id)
        if middle is None or waiting is None:
            continue
        queues.append(waiting.assign(series=row.engine))
        if middle.window is not None:
            windows.append((row.engine, middle.window.begin_s, middle.window.end_s))
    columns = ["series", "begin_s", "end_s"]
    queue = pd.concat(queues, ignore_index=True) if queues else pd.DataFrame(columns=["series", "queue_depth"])
    return queue, pd.DataFrame(windows, columns=columns)


def queue_sentences(rows: list[LoadRow]) -> list[str]:
    """Whether each engine's queue grew."""
    if rows[0].role == "saturation":
        return ["All requests arrive at once, so the queue shrinks until the last is admitted."]
    return [queue_text(row.engine, row.middle) for row in rows if row.middle is not None]


def _draw_little(data: MeasuredLoad, rows: list[LoadRow]) -> None:
    """Little's law for the rate that is shown, and for all rates in an expander."""
    known = [(row, row.middle.little) for row in rows if row.middle is not None and row.middle.little is not None]
    if known:
        st.caption(lines(little_text(row.engine, row.rate_per_s, little) for row, little in known))
    with st.expander("Little's law"):
        st.markdown(LITTLE)
        if every := little_rows([row for row in data.table.rows if row.role != "saturation"]):
            draw_table(list(LITTLE_HEADER), every, figures=(2, 3, 4, 5, 6, 7))
        else:
            st.caption("No run has enough requests in its steady window yet.")


def draw_capacity(data: MeasuredLoad) -> None:
    """The capacity and saturation point of each engine."""
    st.subheader("Capacity and saturation point", anchor=False)
    draw_table(list(CAPACITY_HEADER), capacity_rows(data.table), figures=(1, 2, 3))
    st.caption(lines(capacity_sentences(data)))


def capacity_sentences(data: MeasuredLoad) -> list[str]:
    """A sentence on each engine's capacity."""
    found = [known for engine in data.table.engines if (known := data.table.capacity(engine))]
    return [capacity_text(known) for known in found] or ["No run with all requests at once has completed."]


def draw_goodput(data: MeasuredLoad, is_limited: bool) -> None:
    """Goodput by offered rate, if a limit is set."""
    if not is_limited:
        st.caption("Set a limit to see goodput by offered rate.")
        return
    show_still(
        achieved_over_offered(data.rows, column=GOODPUT, dark=is_dark()),
        alt="Goodput by offered rate",
        key="goodput",
    )
    st.caption(lines(goodput_sentences(data)))
    _table(goodput_columns(data.rows), "load_goodput_table")
    st.caption(
        "Shares are of all requests of a run; unfinished requests miss every limit. Rates are measured in the steady "
        "window. Answers of one token, or in full response mode (`whole`), always meet the TPOT limit."
    )


def goodput_sentences(data: MeasuredLoad) -> list[str]:
    """A sentence on each engine's goodput at the highest rate."""
    rows = [row for row in data.table.rows if row.role == "rate"]
    sentences = [goodput_text(row) for row in rows if row.rate_per_s == max(data.rates, default=None)]
    return sentences or ["No run at a rate has completed."]


def draw_whole_table(data: MeasuredLoad) -> None:
    """The table of all rates, the CSV, and every run."""
    st.subheader("Table", anchor=False)
    _table(load_columns(data.rows), "load_table")
    st.caption(
        "Medians of completed repeats; spread is (highest - lowest) / median of the achieved rate. Percentiles are of "
        "n requests, from the intended arrival; a p99 needs 100 requests."
    )
    draw_csv(csv_of(data.rows), "load", data.experiment_id)
    with st.expander("All runs, in running order"):
        _table(attempts_columns(data.points), "load_attempts")


def _table(frame: pd.DataFrame, key: str) -> None:
    digits = [name for name in map(str, frame) if name in FIGURES or "requests/s" in name]
    show_table(frame, key, figures=digits, whole="n")
