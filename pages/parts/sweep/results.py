"""The results of a sweep: what was asked and what failed, throughput, what a batch size costs and uses, the table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from engine.core.format import duration, number, percent, plural, quantity, ratio, size
from engine.experiments.sweep_table import BatchChoice, SweepRow, choose_batch
from engine.hardware.roofline import ModelShape
from pages.figures.sweep.measures import (
    BANDWIDTH,
    COMPUTE,
    INTENSITY,
    PEAK_MEMORY,
    SPEEDUP,
    TPOT,
    TTFT,
    SweepMeasure,
    measure_caption,
    measure_over_batch,
)
from pages.figures.sweep.ragged import ragged_bars, ragged_caption
from pages.figures.sweep.throughput import throughput_caption, throughput_over_batch
from pages.parts.experiments.description import FAILED, cap_text, failure_lines, how_text, status_text
from pages.parts.experiments.tables import draw_csv, show_table
from pages.parts.shared.charts import show_still
from pages.parts.shared.fields import Field, Number
from pages.parts.shared.lab import is_dark
from pages.parts.shared.markdown import plain
from pages.parts.shared.widgets import number as number_field
from pages.parts.sweep.measured import MeasuredSweep, balance_of
from pages.parts.sweep.tables import FIGURES, attempts_table, csv_of, ragged_table, shown_table


def sweep_line(data: MeasuredSweep) -> str:
    """`static, smollm2-135m, budget 32: p16,p64 at B = 1, 2, 4, 8`."""
    config, settings = data.config, data.settings
    assert config is not None
    sizes = ", ".join(f"{int(size):,}" for size in settings.get("batch_sizes") or ())
    swept = " and ".join(filter(None, [settings.get("prompts"), _mixed(settings.get("mix"))]))
    parts = [config.engine, config.model, *how_text(config), f"budget {config.workload.budget}", *cap_text(config)]
    return f"{', '.join(parts)}: {swept} at B = {sizes}"


def sweep_failures(data: MeasuredSweep) -> list[str]:
    """Each series that failed, once: `- p4096 from B = 64 on: out of memory: asked 4.38 GiB …`, the smallest first."""
    failed = [row for row in data.rows if row.status in FAILED]
    by_place: dict[tuple[str, str], list[SweepRow]] = {}
    for row in sorted(failed, key=lambda row: row.batch_size):
        by_place.setdefault((row.role, row.prompts if row.role == "point" else ""), []).append(row)
    said = []
    for rows in by_place.values():
        first = rows[0]
        name = first.prompts if first.role == "point" else f"{first.role} ({first.prompts})"
        more = f" (and at B = {', '.join(f'{row.batch_size:,}' for row in rows[1:])})" if len(rows) > 1 else ""
        said.append(f"{name}, B = {first.batch_size:,}{more}: {status_text(first.to_dict())}")
    return failure_lines(said, most=len(said))


def draw_throughput(data: MeasuredSweep) -> None:
    """Throughput beside the straight line, over the whole width."""
    st.subheader("Throughput against batch size", anchor=False)
    figure = throughput_over_batch(data.grid, dark=is_dark())
    show_still(figure, alt="Throughput against batch size", key="throughput")
    st.caption(plain(throughput_caption(data.grid)))
    with st.expander("Why it leaves the line"):
        st.markdown(
            "The dashed line is what B requests would decode together if a step with B rows took as long as with one. "
            "It nearly does as long as a step's time goes into reading the weights, or into issuing kernels: both are "
            "the same for any number of rows. It stops when rows add time of their own, by arithmetic or by reading "
            "their keys and values. Decoded tokens/s are B / TPOT; a series is said to follow its line up to where it "
            "reaches 80\u00a0% of it."
        )


def draw_costs(data: MeasuredSweep) -> None:
    """TPOT, TTFT and peak memory; two columns at most."""
    st.subheader("What a larger batch costs", anchor=False)
    _pair(data.grid, (TPOT, None), (TTFT, None))
    _pair(data.grid, (PEAK_MEMORY, None), (SPEEDUP, None))
    for words in (memory_text(data.grid, data.machine.shape), serial_text(data.grid)):
        if words:
            st.caption(words)


def draw_ceilings(data: MeasuredSweep) -> None:
    """Intensity, and the shares of what the machine was measured to do; where nothing was, how to measure it."""
    st.subheader("How near the machine's ceilings", anchor=False)
    balance = balance_of(data.machine.ceilings)
    level = None if balance is None else (balance, f"balance point {number(balance)}")
    if data.machine.ceilings is None:
        st.info(data.machine.words or "The ceilings are looked up when the first run has been read into the store.")
        _pair(data.grid, (INTENSITY, level))
        return
    _pair(data.grid, (INTENSITY, level), (COMPUTE, None))
    _pair(data.grid, (BANDWIDTH, None))
    st.caption(
        f"{data.machine.words} FLOP and bytes are counted from the model's shape at the mean context, not measured: "
        "2 FLOP a parameter and row plus attention's, weights and cached keys and values read once a step."
    )


def draw_ragged(data: MeasuredSweep) -> None:
    """The ragged batch beside its control, where the sweep has one."""
    if data.ragged.empty:
        return
    st.subheader("A ragged batch and its control", anchor=False)
    show_still(ragged_bars(data.ragged, dark=is_dark()), alt="A ragged batch beside its control", key="ragged")
    st.caption(plain(ragged_caption(data.ragged)))
    _table(ragged_table(data.ragged), "sweep_ragged_table")
    with st.expander("What the control controls"):
        st.markdown(
            "The control is a uniform batch of as many rows, each as long as the ragged batch's longest prompt and "
            "longest budget. Its tensors have the same shape, and every position is a real token. What the ragged "
            "batch falls short of it is what mixed lengths cost: padded positions, the mask, the slower "
            "attention that a mask needs, and rows that are done before the batch is. Rates are output tokens of the "
            "whole batch over its time: a rate a row means nothing where rows end at different steps."
        )


def draw_table(data: MeasuredSweep) -> None:
    """The table of the grid with its CSV, then every point by itself."""
    st.subheader("The runs" if data.grid.empty else "The table", anchor=False)
    if not data.grid.empty:
        _table(shown_table(data.grid), "sweep_table")
        st.caption(
            "Medians over n runs; spread is (highest - lowest) / median of a run's tokens/s. tok/s is B / TPOT. "
            "Serial s is B times what one request alone took; speed-up is that over the batch's time. "
            f"{data.machine.words if data.machine.ceilings is None else ''}"
        )
    draw_csv(csv_of(data.table), "sweep", data.experiment_id)
    with st.expander("Every run of the sweep, in the order of running"):
        _table(attempts_table(data.points), "sweep_attempts")


def serial_text(grid: pd.DataFrame) -> str:
    """What the largest batch saved against one request after another, for each prompt length that has both."""
    known = grid.dropna(subset=["serial_s", "speedup", "duration_s"])
    said = []
    for name, mine in known.groupby("series", sort=False):
        row = mine.loc[mine["batch_size"].idxmax()]
        if row["batch_size"] > 1:
            said.append(
                f"{name}: {int(row['batch_size']):,} requests in {duration(row['duration_s'])} instead of "
                f"{duration(row['serial_s'])}, {ratio(row['speedup'])}"
            )
    return plain(f"Against one request after another: {'; '.join(said)}.") if said else ""


def memory_text(grid: pd.DataFrame, shape: ModelShape | None) -> str:
    """What the peak grew by from the smallest to the largest batch, beside the keys and values of the added rows."""
    if shape is None:
        return ""
    said = []
    for name, mine in grid.dropna(subset=["peak_memory_bytes", "generated_tokens"]).groupby("series", sort=False):
        first, last = (mine.loc[getattr(mine["batch_size"], end)()] for end in ("idxmin", "idxmax"))
        rows = int(last["batch_size"] - first["batch_size"])
        if rows:
            positions = rows * (last["prompt_tokens"] + last["generated_tokens"])
            grown = last["peak_memory_bytes"] - first["peak_memory_bytes"]
            kv = size(positions * shape.kv_position_bytes)
            said.append(f"{name} {size(grown)} for {plural(rows, 'more row')}, whose keys and values are {kv}")
    return plain(f"Peak memory grew by: {'; '.join(said)}.") if said else ""


def _table(frame: pd.DataFrame, key: str) -> None:
    digits = [name for name in frame if name in FIGURES or (name.startswith("%") or name.endswith("tok/s"))]
    show_table(frame, key, figures=digits, whole="B")


def _pair(grid: pd.DataFrame, *measures: tuple[SweepMeasure, tuple[float, str] | None]) -> None:
    """Two figures beside each other, each with its finding; one alone keeps the half of the width."""
    for column, (measure, level) in zip(st.columns(2, gap="medium"), measures, strict=False):
        with column:
            figure = measure_over_batch(grid, measure, level=level, dark=is_dark())
            show_still(figure, alt=f"{measure.title} against batch size", key=f"{measure.column}")
            st.caption(plain(measure_caption(grid, measure)))


def _mixed(mix: str | None) -> str:
    return f"a ragged batch of {mix} with its control" if mix else ""


# The chooser: how long may a reader wait, and how large a batch does that leave? With what the best rate would cost.

LIMITS: dict[str, Field] = {
    "ttft_limit_s": Number(low=0, high=3600, default=0.5, whole=False, above=True),
    "tpot_limit_ms": Number(low=0, high=600_000, default=100.0, whole=False, above=True),
}
CLOSE = 0.25  # a larger batch that misses a limit by no more than this share of it is named


def draw_chooser(data: MeasuredSweep) -> None:
    """Two limits, and a line a prompt length."""
    st.subheader("Which batch size?", anchor=False)
    left, right = st.columns(2, gap="medium")
    with left:
        ttft_s = number_field("First token within, seconds", "ttft_limit_s", step=0.1, fields=LIMITS)
    with right:
        tpot_ms = number_field("Each next token within, milliseconds", "tpot_limit_ms", step=10.0, fields=LIMITS)
    tpot_s = None if tpot_ms is None else tpot_ms / 1e3
    lines = [f"**{plain(name)}**: {choice_text(rows, ttft_s, tpot_s)}" for name, rows in by_series(data).items()]
    st.markdown("\n".join(f"- {line}" for line in lines))
    st.caption(
        "By measured medians, for B requests that all arrive at once; what waits in a queue before that comes on top. "
        "Rates are decoded tokens a second, B / TPOT."
    )


def by_series(data: MeasuredSweep) -> dict[str, list[SweepRow]]:
    """The grid's rows by the name that their line has in the figures."""
    found: dict[str, list[SweepRow]] = {}
    for name, row in zip(data.table["series"], data.rows, strict=True):
        if row.role == "point":
            found.setdefault(str(name), []).append(row)
    return found


def choice_text(rows: Sequence[SweepRow], ttft_limit_s: float | None, tpot_limit_s: float | None) -> str:
    """The answer for one prompt length in words; None for a limit that is not set."""
    choice = choose_batch(rows, ttft_limit_s, tpot_limit_s)
    if choice.fastest is None:
        return "no batch size has been measured."
    if choice.chosen is None:
        least = min((r for r in rows if r.ttft_s is not None), key=lambda r: r.batch_size)
        return (
            f"no measured batch is within these limits. Even B = {least.batch_size:,} takes {duration(least.ttft_s)} "
            f"to the first token and {duration(least.tpot_s)} for each next one."
        )
    chosen = choice.chosen
    said = (
        f"**B = {chosen.batch_size:,}**, {quantity(chosen.decode_tokens_per_s, 'tokens/s')} in all and "
        f"{number(chosen.tokens_per_s_per_request)} for each request; first token after {duration(chosen.ttft_s)}, "
        f"then one every {duration(chosen.tpot_s)}."
    )
    return " ".join(filter(None, [said, _next_text(choice), _fastest_text(choice)]))


def _next_text(choice: BatchChoice) -> str:
    """The next larger batch, where it misses a limit by little."""
    missed = [
        f"{what} by {percent(over)}"
        for what, over in (("the first token's limit", choice.over_ttft), ("the next tokens' limit", choice.over_tpot))
        if over is not None
    ]
    overs = [over for over in (choice.over_ttft, choice.over_tpot) if over is not None]
    if choice.next_up is None or not overs or max(overs) > CLOSE:
        return ""
    return f"B = {choice.next_up.batch_size:,} misses {' and '.join(missed)}."


def _fastest_text(choice: BatchChoice) -> str:
    """What the best rate of all would cost a reader."""
    fastest, chosen = choice.fastest, choice.chosen
    assert fastest is not None
    assert chosen is not None
    if fastest.batch_size == chosen.batch_size:
        return "No measured batch decodes more."
    if fastest.batch_size < chosen.batch_size:
        return (
            f"A smaller one has more, {quantity(fastest.decode_tokens_per_s, 'tokens/s')} at "
            f"B = {fastest.batch_size:,}: {duration(fastest.ttft_s)} to the first token and "
            f"{duration(fastest.tpot_s)} for each next one."
        )
    return (
        f"The most, {quantity(fastest.decode_tokens_per_s, 'tokens/s')} ({ratio(choice.throughput_gain)}), is at "
        f"B = {fastest.batch_size:,}: it would cost the reader {duration(fastest.ttft_s)} to the first token "
        f"({ratio(choice.ttft_cost)}) and {duration(fastest.tpot_s)} for each next one ({ratio(choice.tpot_cost)})."
    )
