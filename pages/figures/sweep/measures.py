"""What a batch size costs and uses: TPOT, TTFT, peak memory, intensity and shares of the ceilings, each against B.

One drawing for all of them. Where repeats were run, a whisker spans the lowest and the highest (columns `<name>_low`
and `<name>_high`), and the marker is their median.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import change, duration, number, percent, quantity, ratio, size
from engine.core.units import GIB
from pages.figures.colors import palette
from pages.figures.layout import axis, label, note_figure, set_layout
from pages.figures.sweep.axes import add_failed, add_line, batch_axis, empty_text, hold_open, line_styles, sweep_figure

PLOT_PX = 200
SAME = 1.05  # a change of less than this ratio is called flat


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepMeasure:
    """A column of a sweep: `scale` axis units in one of the column's, `noun` as a caption says it, `text` its values.

    `is_log` draws it over a logarithmic axis, where what grows as B does is a straight line. `is_ratio` values say by
    themselves how much they grew. `needs` says what a value takes, where no point may have one.
    """

    column: str
    title: str
    axis_words: str
    noun: str
    scale: float
    is_log: bool
    text: Callable[[float], str]
    is_ratio: bool = False
    needs: str = ""


def _intensity_text(value: float) -> str:
    return quantity(value, "FLOP/byte")


TPOT = SweepMeasure(
    column="tpot_s",
    title="Time per output token",
    axis_words="TPOT, ms",
    noun="TPOT",
    scale=1e3,
    is_log=False,
    text=duration,
)
TTFT = SweepMeasure(
    column="ttft_s",
    title="Time to first token",
    axis_words="TTFT, ms, logarithmic",
    noun="TTFT",
    scale=1e3,
    is_log=True,
    text=duration,
)
PEAK_MEMORY = SweepMeasure(
    column="peak_memory_bytes",
    title="Peak memory",
    axis_words="peak memory, GiB",
    noun="peak memory",
    scale=1 / GIB,
    is_log=False,
    text=size,
)
SPEEDUP = SweepMeasure(
    column="speedup",
    title="Speed-up over one request after another",
    axis_words="times as fast, logarithmic",
    noun="speed-up",
    scale=1,
    is_log=True,
    text=ratio,
    is_ratio=True,
    needs="; it needs one at B = 1",
)
INTENSITY = SweepMeasure(
    column="intensity_flop_per_byte",
    title="Arithmetic intensity of a decode step",
    axis_words="FLOP/byte, logarithmic",
    noun="intensity",
    scale=1,
    is_log=True,
    text=_intensity_text,
)
COMPUTE = SweepMeasure(
    column="compute_fraction",
    title="Share of the compute ceiling",
    axis_words="% of measured FLOP/s",
    noun="the share of the compute ceiling",
    scale=100,
    is_log=False,
    text=percent,
)
BANDWIDTH = SweepMeasure(
    column="bandwidth_fraction",
    title="Share of the bandwidth ceiling",
    axis_words="% of measured bytes/s",
    noun="the share of the bandwidth ceiling",
    scale=100,
    is_log=False,
    text=percent,
)
MEASURES = (TPOT, TTFT, PEAK_MEMORY, SPEEDUP, INTENSITY, COMPUTE, BANDWIDTH)


def measure_over_batch(
    points: pd.DataFrame,
    measure: SweepMeasure,
    *,
    level: tuple[float, str] | None = None,
    title: str | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw points (series, batch_size, status, the measure's column). `level` is a value with its words: a ceiling."""
    title = measure.title if title is None else title
    words = empty_text(points)
    if words:
        return note_figure(words, dark=dark, title=title)
    figure, room = sweep_figure(points, title=title, dark=dark, plot_px=PLOT_PX, in_one_row=True)
    styles = line_styles(list(points["series"]), dark)
    for name, mine in points.groupby("series", sort=False):
        measured = mine.dropna(subset=[measure.column]).sort_values("batch_size")
        if not measured.empty:
            hover = [_hover(str(name), row, measure) for row in measured.to_dict("records")]
            whiskers = _whiskers(measured, measure)
            y = measured[measure.column].astype(float) * measure.scale
            add_line(figure, str(name), measured["batch_size"], y, styles[str(name)], hover, **whiskers)
    add_failed(figure, points, styles, room, dark)
    if level is not None:
        _add_level(figure, level, measure, dark)
    y_axis = axis(dark, title=measure.axis_words, domain=[0, room.plot_top], fixedrange=True, tickformat=",~r")
    y_axis |= {"type": "log", "dtick": "D2"} if measure.is_log else {"rangemode": "tozero", "nticks": 6}
    if points[measure.column].isna().all():
        y_axis |= hold_open(figure, points, "No batch size gave a value.", dark)
    set_layout(figure, xaxis=batch_axis(points, dark), yaxis=y_axis)
    return figure


def measure_caption(points: pd.DataFrame, measure: SweepMeasure) -> str:
    """From the smallest to the largest measured batch: `TPOT from B = 1 to 64: p16 22.0 ms to 26.0 ms (+18.2 %).`"""
    noun = f"{measure.noun[0].upper()}{measure.noun[1:]}"
    if points.empty or points[measure.column].isna().all():
        return f"{noun}: no point has a value{measure.needs}."
    ends = {}
    for name, mine in points.groupby("series", sort=False):
        measured = mine.dropna(subset=[measure.column]).sort_values("batch_size")
        if not measured.empty:
            ends[str(name)] = (measured.iloc[0], measured.iloc[-1])
    spans = {_span(first, last) for first, last in ends.values()}
    alike = len(spans) == 1
    said = [_grown(name, first, last, measure, alike) for name, (first, last) in ends.items()]
    return f"{noun}{' ' + spans.pop() if alike else ''}: {'; '.join(said)}."


def _span(first: pd.Series, last: pd.Series) -> str:
    low, high = int(first["batch_size"]), int(last["batch_size"])
    return f"at B = {low:,}, the only point" if low == high else f"from B = {low:,} to {high:,}"


def _grown(name: str, first: pd.Series, last: pd.Series, measure: SweepMeasure, alike: bool) -> str:
    """`p16 22.0 ms to 26.0 ms (+18.2 %)`, with its own batch sizes where the series differ in them."""
    low, high = float(first[measure.column]), float(last[measure.column])
    span = "" if alike else f" {_span(first, last)}"
    if first["batch_size"] == last["batch_size"]:
        return f"{name} {measure.text(low)}{span}"
    return f"{name} {measure.text(low)} to {measure.text(high)}{span}{'' if measure.is_ratio else _change(low, high)}"


def _change(low: float, high: float) -> str:
    """`(+10.0 %)`, `(40 times)`, `(flat)`."""
    if low <= 0 or high <= 0:
        return ""
    times = high / low
    if 1 / SAME < times < SAME:
        return " (flat)"
    return f" ({number(times)} times)" if times >= 2 else f" ({change(times - 1)})"


def _whiskers(measured: pd.DataFrame, measure: SweepMeasure) -> dict[str, Any]:
    low, high = f"{measure.column}_low", f"{measure.column}_high"
    if low not in measured or high not in measured or measured[low].isna().all():
        return {}
    middle = measured[measure.column].astype(float)
    return {
        "error_y": {
            "array": ((measured[high] - middle) * measure.scale).fillna(0),
            "arrayminus": ((middle - measured[low]) * measure.scale).fillna(0),
            "thickness": 1.4,
            "width": 3,
        }
    }


def _hover(name: str, row: dict[Any, Any], measure: SweepMeasure) -> str:
    text = f"<b>{name}, B = {int(row['batch_size']):,}</b><br>{measure.text(float(row[measure.column]))}"
    low, high = row.get(f"{measure.column}_low"), row.get(f"{measure.column}_high")
    if low is None or high is None or pd.isna(low) or low == high:
        return text
    return f"{text}<br>{measure.text(float(low))} to {measure.text(float(high))} over repeats"


def _add_level(figure: go.Figure, level: tuple[float, str], measure: SweepMeasure, dark: bool) -> None:
    """A dotted line across the plot, its words above it at the left."""
    value, words = level[0] * measure.scale, level[1]
    faint = palette(dark).faint_text
    figure.add_scatter(
        x=list(_ends(figure)),
        y=[value, value],
        mode="lines",
        line={"width": 1.4, "dash": "dot", "color": faint},
        showlegend=False,
        hoverinfo="skip",
        name=words,
    )
    place: dict[str, Any] = {"x": 0.01, "xref": "x domain", "yshift": 9, "font": {"size": 12, "color": faint}}
    figure.add_annotation(label(words, y=math.log10(value) if measure.is_log else value, **place))


def _ends(figure: go.Figure) -> Sequence[float]:
    sizes = [float(size) for trace in figure.data for size in (trace.x if trace.x is not None else ())]
    return (min(sizes), max(sizes)) if sizes else (1.0, 1.0)


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sweep.sample import sample_sweep

    sample = sample_sweep()
    figures = [measure_over_batch(sample, measure) for measure in MEASURES[:3]]
    show([*figures, measure_over_batch(sample, INTENSITY, level=(66.7, "balance point 66.7")), *figures[:1]])
