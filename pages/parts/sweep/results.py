"""The results of a sweep: header, throughput, batch size within limits, costs, ceilings, ragged batches, tables."""

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
from pages.parts.experiments.description import FAILED, cap_notes, execution_notes, failure_lines, status_text
from pages.parts.experiments.tables import draw_csv, show_table
from pages.parts.shared.charts import show_still
from pages.parts.shared.fields import Field, Number
from pages.parts.shared.lab import is_dark
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import Texts, linked, written
from pages.parts.shared.widgets import number as number_field
from pages.parts.sweep.measured import MeasuredSweep, balance_of
from pages.parts.sweep.tables import FIGURES, attempts_table, csv_of, ragged_table, shown_table

TPOT_LIMIT = "tpot_limit_ms"
LIMITS: dict[str, Field] = {
    "ttft_limit_s": Number(low=0, high=3600, default=0.5, whole=False, above=True, label="TTFT limit, s"),
    TPOT_LIMIT: Number(low=0, high=600_000, default=100.0, whole=False, above=True, label="TPOT limit, ms"),
}
CLOSE = 0.25  # the next larger batch is named if it exceeds a limit by at most this share


def sweep_line(data: MeasuredSweep) -> str:
    """`static, smollm2-135m, budget 32: p16,p64 at B = 1, 2, 4, 8`."""
    config, settings = data.config, data.settings
    assert config is not None
    sizes = ", ".join(f"{int(size):,}" for size in settings.get("batch_sizes") or ())
    swept = " and ".join(filter(None, [settings.get("prompts"), _mixed(settings.get("mix"))]))
    parts = [
        config.engine,
        config.model,
        *execution_notes(config),
        f"budget {config.workload.budget}",
        *cap_notes(config),
    ]
    return f"{', '.join(parts)}: {swept} at B = {sizes}"


def _mixed(mix: str | None) -> str:
    return f"a ragged batch of {mix} with its control" if mix else ""


def sweep_failures(data: MeasuredSweep) -> list[str]:
    """A line for each series that failed: `- p4096, B = 64 (and at B = 128): out of memory: asked for 4.38 GiB …`."""
    failed = [row for row in data.rows if row.status in FAILED]
    by_place: dict[tuple[str, str], list[SweepRow]] = {}
    for row in sorted(failed, key=lambda row: row.batch_size):
        by_place.setdefault((row.role, row.prompts if row.role == "point" else ""), []).append(row)
    failures = []
    for rows in by_place.values():
        first = rows[0]
        name = first.prompts if first.role == "point" else f"{first.role} ({first.prompts})"
        more = f" (and at B = {', '.join(f'{row.batch_size:,}' for row in rows[1:])})" if len(rows) > 1 else ""
        failures.append(f"{name}, B = {first.batch_size:,}{more}: {status_text(first.to_dict())}")
    return failure_lines(failures, most=len(failures))


def draw_throughput(data: MeasuredSweep) -> None:
    """Throughput by batch size, with the line of linear scaling."""
    st.subheader("Throughput by batch size", anchor=False)
    figure = throughput_over_batch(data.grid, dark=is_dark())
    show_still(figure, alt="Throughput by batch size", key="throughput")
    st.caption(plain(throughput_caption(data.grid)))
    with st.expander("Why throughput falls below the line"):
        st.markdown(
            "The dashed line assumes that a step with B rows takes as long as a step with one. This nearly holds while "
            "a step mostly reads weights or issues kernels, which cost the same for any number of rows. It ends when "
            "the arithmetic or the KV reads of the rows dominate. Decode tokens/s are B / TPOT; a series follows its "
            "line as long as it reaches 80\u00a0% of it."
        )


def draw_batch_choice(data: MeasuredSweep) -> None:
    """Two latency limits, and the largest batch size within them for each prompt length."""
    st.subheader("Largest batch size within limits", anchor=False)
    left, right = st.columns(2, gap="medium")
    with left:
        ttft_s = number_field("ttft_limit_s", step=0.1, fields=LIMITS)
    with right:
        tpot_s = _tpot_limit_s()
    lines = [f"**{plain(name)}**: {choice_text(rows, ttft_s, tpot_s)}" for name, rows in by_series(data).items()]
    st.markdown("\n".join(f"- {line}" for line in lines))
    st.caption(
        "By measured medians, for B requests that arrive at once, without queue wait. Rates are decode tokens/s, "
        "B / TPOT."
    )


def _tpot_limit_s() -> float | None:
    """The TPOT limit, typed in seconds as on Load; the address has it in milliseconds."""
    field = LIMITS[TPOT_LIMIT]
    assert isinstance(field, Number)
    assert field.default is not None

    def read(texts: Texts) -> float:
        if field.complaint(texts[-1]) is not None:
            raise ValueError("out of bounds")
        return float(texts[-1]) / 1e3

    def write(limit_s: float | None) -> Texts:
        return () if limit_s is None else written(round(limit_s * 1e3, 6))

    with linked(TPOT_LIMIT, field.default / 1e3, read, write) as key:
        return st.number_input(
            "TPOT limit, s", 1e-6, field.high / 1e3, step=0.01, format="%g", key=key, persist_state="page"
        )


def by_series(data: MeasuredSweep) -> dict[str, list[SweepRow]]:
    """The grid's rows by series."""
    found: dict[str, list[SweepRow]] = {}
    for name, row in zip(data.table["series"], data.rows, strict=True):
        if row.role == "point":
            found.setdefault(str(name), []).append(row)
    return found


def choice_text(rows: Sequence[SweepRow], ttft_limit_s: float | None, tpot_limit_s: float | None) -> str:
    """The largest batch size within the limits for one prompt length; a limit of None is not set."""
    choice = choose_batch(rows, ttft_limit_s, tpot_limit_s)
    if choice.fastest is None:
        return "no measured batch size."
    if choice.chosen is None:
        least = min((r for r in rows if r.ttft_s is not None), key=lambda r: r.batch_size)
        return (
            f"no measured batch size is within these limits; the smallest, B = {least.batch_size:,}, has TTFT "
            f"{duration(least.ttft_s)} and TPOT {duration(least.tpot_s)}."
        )
    chosen = choice.chosen
    largest = (
        f"**B = {chosen.batch_size:,}**, {quantity(chosen.decode_tokens_per_s, 'tokens/s')} total and "
        f"{number(chosen.tokens_per_s_per_request)} per request, with TTFT {duration(chosen.ttft_s)} and TPOT "
        f"{duration(chosen.tpot_s)}."
    )
    return " ".join(filter(None, [largest, _next_text(choice), _fastest_text(choice)]))


def _next_text(choice: BatchChoice) -> str:
    """The next larger batch, if it exceeds a limit by little."""
    exceeded = [
        f"{what} by {percent(over)}"
        for what, over in (("the TTFT limit", choice.over_ttft), ("the TPOT limit", choice.over_tpot))
        if over is not None
    ]
    overs = [over for over in (choice.over_ttft, choice.over_tpot) if over is not None]
    if choice.next_up is None or not overs or max(overs) > CLOSE:
        return ""
    return f"B = {choice.next_up.batch_size:,} exceeds {' and '.join(exceeded)}."


def _fastest_text(choice: BatchChoice) -> str:
    """The latency of the batch with the highest rate."""
    fastest, chosen = choice.fastest, choice.chosen
    assert fastest is not None
    assert chosen is not None
    if fastest.batch_size == chosen.batch_size:
        return "No measured batch is faster."
    if fastest.batch_size < chosen.batch_size:
        return (
            f"A smaller batch is faster: B = {fastest.batch_size:,} has "
            f"{quantity(fastest.decode_tokens_per_s, 'tokens/s')}, TTFT {duration(fastest.ttft_s)} and TPOT "
            f"{duration(fastest.tpot_s)}."
        )
    return (
        f"The fastest, B = {fastest.batch_size:,}, has {quantity(fastest.decode_tokens_per_s, 'tokens/s')} "
        f"({ratio(choice.throughput_gain)}), TTFT {duration(fastest.ttft_s)} ({ratio(choice.ttft_cost)}) and TPOT "
        f"{duration(fastest.tpot_s)} ({ratio(choice.tpot_cost)})."
    )


def draw_costs(data: MeasuredSweep) -> None:
    """TPOT, TTFT, peak memory and speed-up by batch size."""
    st.subheader("Cost by batch size", anchor=False)
    _pair(data.grid, (TPOT, None), (TTFT, None))
    _pair(data.grid, (PEAK_MEMORY, None), (SPEEDUP, None))
    for sentence in (memory_text(data.grid, data.machine.shape), serial_text(data.grid)):
        if sentence:
            st.caption(sentence)


def serial_text(grid: pd.DataFrame) -> str:
    """The speed-up of the largest batch over serial execution, for each prompt length that has both."""
    known = grid.dropna(subset=["serial_s", "speedup", "duration_s"])
    parts = []
    for name, mine in known.groupby("series", sort=False):
        row = mine.iloc[mine["batch_size"].to_numpy().argmax()]
        if row["batch_size"] > 1:
            parts.append(
                f"{name}: {int(row['batch_size']):,} requests in {duration(row['duration_s'])} instead of "
                f"{duration(row['serial_s'])} ({ratio(row['speedup'])})"
            )
    return plain(f"Batched over serial: {'; '.join(parts)}.") if parts else ""


def memory_text(grid: pd.DataFrame, shape: ModelShape | None) -> str:
    """The growth of peak memory from the smallest to the largest batch, next to the KV of the added rows."""
    if shape is None:
        return ""
    parts = []
    for name, mine in grid.dropna(subset=["peak_memory_bytes", "generated_tokens"]).groupby("series", sort=False):
        sizes = mine["batch_size"].to_numpy()
        first, last = mine.iloc[sizes.argmin()], mine.iloc[sizes.argmax()]
        rows = int(last["batch_size"] - first["batch_size"])
        if rows:
            positions = rows * (last["prompt_tokens"] + last["generated_tokens"])
            grown = last["peak_memory_bytes"] - first["peak_memory_bytes"]
            kv = size(positions * shape.kv_position_bytes)
            parts.append(f"{name} {size(grown)} for {plural(rows, 'more row')}, of which KV {kv}")
    return plain(f"Peak memory growth: {'; '.join(parts)}.") if parts else ""


def draw_ceilings(data: MeasuredSweep) -> None:
    """Intensity and the shares of the machine's ceilings; without ceilings, how to measure them."""
    title = "Intensity" if data.machine.ceilings is None else "Share of the machine's ceilings"
    st.subheader(title, anchor=False)
    balance = balance_of(data.machine.ceilings)
    level = None if balance is None else (balance, f"balance point {number(balance)}")
    if data.machine.ceilings is None:
        st.info(data.machine.note or "The ceilings appear after the first run.")
        _pair(data.grid, (INTENSITY, level))
        return
    _pair(data.grid, (INTENSITY, level), (COMPUTE, None))
    _pair(data.grid, (BANDWIDTH, None))
    st.caption(
        f"{data.machine.note} FLOP and bytes are calculated from the model's shape at the mean context: 2 FLOP per "
        "parameter and row plus attention; weights and KV are read once per step."
    )


def _pair(grid: pd.DataFrame, *measures: tuple[SweepMeasure, tuple[float, str] | None]) -> None:
    """Up to two figures side by side, each with its caption."""
    for column, (measure, level) in zip(st.columns(2, gap="medium"), measures, strict=False):
        with column:
            figure = measure_over_batch(grid, measure, level=level, dark=is_dark())
            show_still(figure, alt=f"{measure.title} by batch size", key=f"{measure.column}")
            st.caption(plain(measure_caption(grid, measure)))


def draw_ragged(data: MeasuredSweep) -> None:
    """Ragged batches and their controls, if the sweep has any."""
    if data.ragged.empty:
        return
    st.subheader("Ragged batches", anchor=False)
    show_still(ragged_bars(data.ragged, dark=is_dark()), alt="Ragged batches and their controls", key="ragged")
    st.caption(plain(ragged_caption(data.ragged)))
    _table(ragged_table(data.ragged), "sweep_ragged_table")
    with st.expander("The control batch"):
        st.markdown(
            "The control is a uniform batch with as many rows, each with the ragged batch's longest prompt and longest "
            "budget. Its tensors have the same shape, and every position is a real token. The difference is the cost "
            "of mixed lengths: padding, the mask, slower masked attention, and rows that finish before the batch. "
            "Rates are output tokens of the whole batch over its time."
        )


def draw_table(data: MeasuredSweep) -> None:
    """The table of the grid, the CSV, and every run."""
    st.subheader("Runs" if data.grid.empty else "Table", anchor=False)
    if not data.grid.empty:
        _table(shown_table(data.grid), "sweep_table")
        st.caption(
            "Medians of n runs; spread is (highest - lowest) / median of tokens/s. tok/s is B / TPOT. Serial s is B "
            "times the time of one request; speed-up is serial s over batch s. "
            f"{data.machine.note if data.machine.ceilings is None else ''}"
        )
    draw_csv(csv_of(data.table), "sweep", data.experiment_id)
    with st.expander("All runs, in running order"):
        _table(attempts_table(data.points), "sweep_attempts")


def _table(frame: pd.DataFrame, key: str) -> None:
    digits = [name for name in map(str, frame) if name in FIGURES or name.startswith("%") or name.endswith("tok/s")]
    show_table(frame, key, figures=digits, whole="B")
