"""The results of a load test: what was asked and what failed, rates, waits, capacity and knee, goodput, the table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from engine.core.format import exact, plural
from engine.core.load_words import (
    capacity_words,
    goodput_words,
    knee_words,
    ratio_words,
    ttft_words,
    wait_words,
)
from engine.core.queue_growth import RULE
from pages.figures.load_latency import QUEUE, TTFT, wait_over_offered
from pages.figures.load_rates import GOODPUT, achieved_over_offered
from pages.parts.experiments.description import FAILED, STATUS, cap_words, failure_lines, how_words, lines
from pages.parts.experiments.tables import draw_csv, show_table
from pages.parts.lab import is_dark
from pages.parts.load.measured import MeasuredLoad
from pages.parts.load.tables import (
    CAPACITY_HEADER,
    FIGURES,
    attempts_columns,
    capacity_rows,
    csv_of,
    goodput_columns,
    load_columns,
    rate_words,
)
from pages.parts.markdown import listed, plain
from pages.parts.shared.charts import show_still
from pages.parts.tables import draw_table

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
    rates = rates_words(data.rates)
    how = [*how_words(config), plural(config.slots, "slot"), *cap_words(config)]
    who = ", ".join([listed(list(data.table.engines)), config.model, *how])
    what = f"{plural(workload.requests, 'request')} of {workload.prompts}, budget {workload.budget}"
    return f"{who}: {what}, {data.settings.get('law', '')} at {rates} a second, seed {workload.seed}"


def rates_words(rates: Sequence[float]) -> str:
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
            said.append(f"{row.engine}, {rate_words(row.role, row.rate_per_s)}: {status}{why}")
    return failure_lines(said)


def draw_rates(data: MeasuredLoad) -> None:
    """Achieved against offered, all engines in one figure, with what it shows in words."""
    st.subheader("Achieved against offered", anchor=False)
    found = {engine: data.table.capacity(engine) for engine in data.table.engines}
    capacities = {engine: known.requests_per_s.median for engine, known in found.items() if known is not None}
    figure = achieved_over_offered(data.rows, capacities, dark=is_dark())
    show_still(figure, alt="Achieved against offered rate", key="rates")
    knees = [knee_words(knee) for engine in data.table.engines if (knee := data.table.knee(engine)) is not None]
    st.caption(lines([*knees, ratio_words(data.table)]) or "No rate tells yet.")
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
            wait_over_offered(data.rows, QUEUE, dark=is_dark()),
            alt="Queue wait over offered rate",
            key="queue_wait",
        )
        st.caption(plain(_widest_wait(data) or "The wait from the intended arrival until a slot was free."))
    with right:
        show_still(
            wait_over_offered(data.rows, TTFT, dark=is_dark()),
            alt="Time to first token over offered rate",
            key="ttft",
        )
        said = [ttft_words(data.table.of(engine, "rate")) for engine in data.table.engines]
        st.caption(lines(said) or "From the intended arrival until the first token.")


def _widest_wait(data: MeasuredLoad) -> str:
    """What the engines' median waits are at the rate where they differ most."""
    best, said = 0.0, ""
    for rate in data.rates:
        rows = [row for row in data.table.rows if row.role == "rate" and row.rate_per_s == rate]
        known = [wait for row in rows if (wait := row.median(lambda point: point.queue_wait_p50_s)) is not None]
        apart = max(known) / max(min(known), 1e-6) if len(known) > 1 else 0.0
        if apart > best:
            best, said = apart, wait_words(rows)
    return said


def draw_capacity(data: MeasuredLoad) -> None:
    """Each engine's capacity and knee, as a table and in words."""
    st.subheader("Capacity and knee", anchor=False)
    draw_table(list(CAPACITY_HEADER), capacity_rows(data.table), figures=(1, 2, 3))
    found = [known for engine in data.table.engines if (known := data.table.capacity(engine))]
    said = [capacity_words(known) for known in found]
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
    said = [goodput_words(row) for row in rows if row.rate_per_s == max(data.rates, default=None)]
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
