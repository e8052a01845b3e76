"""Measures of a sweep by batch size B: TPOT, TTFT, peak memory, speed-up, intensity and shares of the ceilings.

One figure function for all of them. With repeats, the marker is the median and a whisker spans the lowest and the
highest (columns `<name>_low` and `<name>_high`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import change, duration, percent, quantity, ratio, size
from engine.core.units import GIB
from pages.figures.colors import palette
from pages.figures.frames import records
from pages.figures.layout import axis, label, literal, note_figure, set_layout
from pages.figures.sweep.axes import add_failed, add_line, add_note, batch_axis, empty_text, line_styles, sweep_figure

PLOT_PX = 200
SAME = 1.05  # a change by less than this ratio is reported as flat


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepMeasure:
    """A column of a sweep: `scale` axis units per unit of the column, its `noun` in captions, `text` for its values.

    `is_log` draws it on a logarithmic axis, where proportional to B is a straight line. `is_ratio` values need no
    change in brackets. `needs` is the condition for a value, for captions without one.
    """

    column: str
    title: str
    axis_title: str
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
    axis_title="TPOT, ms",
    noun="TPOT",
    scale=1e3,
    is_log=False,
    text=duration,
)
TTFT = SweepMeasure(
    column="ttft_s",
    title="Time to first token",
    axis_title="TTFT, ms, logarithmic",
    noun="TTFT",
    scale=1e3,
    is_log=True,
    text=duration,
)
PEAK_MEMORY = SweepMeasure(
    column="peak_memory_bytes",
    title="Peak memory",
    axis_title="peak memory, GiB",
    noun="peak memory",
    scale=1 / GIB,
    is_log=False,
    text=size,
)
SPEEDUP = SweepMeasure(
    column="speedup",
    title="Speed-up over serial requests",
    axis_title="speed-up, logarithmic",
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
    axis_title="FLOP/byte, logarithmic",
    noun="intensity",
    scale=1,
    is_log=True,
    text=_intensity_text,
)
COMPUTE = SweepMeasure(
    column="compute_fraction",
    title="Share of the compute ceiling",
    axis_title="% of measured FLOP/s",
    noun="the share of the compute ceiling",
    scale=100,
    is_log=False,
    text=percent,
)
BANDWIDTH = SweepMeasure(
    column="bandwidth_fraction",
    title="Share of the bandwidth ceiling",
    axis_title="% of measured bytes/s",
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
    """Draw points (series, batch_size, status, the measure's column). `level` is a value and its label: a ceiling."""
    title = measure.title if title is None else title
    note = empty_text(points)
    if note:
        return note_figure(note, dark=dark, title=title)
    figure, layout = sweep_figure(points, title=title, dark=dark, plot_px=PLOT_PX, in_one_row=True)
    styles = line_styles(list(points["series"]), dark)
    for name, mine in points.groupby("series", sort=False):
        measured = mine.dropna(subset=[measure.column]).sort_values("batch_size")
        if not measured.empty:
            hover = [_hover(str(name), row, measure) for row in records(measured)]
            whiskers = _whiskers(measured, measure)
            y = measured[measure.column].astype(float) * measure.scale
            add_line(figure, str(name), measured["batch_size"], y, styles[str(name)], hover, **whiskers)
    add_failed(figure, points, styles, layout, dark)
    if level is not None:
        _add_level(figure, level, measure, dark)
    y_axis = axis(dark, title=measure.axis_title, domain=[0, layout.plot_top], fixedrange=True, tickformat=",~r")
    y_axis |= {"type": "log", "dtick": "D2"} if measure.is_log else {"rangemode": "tozero", "nticks": 6}
    if points[measure.column].isna().all():
        y_axis |= add_note(figure, points, "No batch size has a value.", dark)
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
    spans = {_span_text(first, last) for first, last in ends.values()}
    alike = len(spans) == 1
    texts = [_range_text(name, first, last, measure, alike) for name, (first, last) in ends.items()]
    return f"{noun}{' ' + spans.pop() if alike else ''}: {'; '.join(texts)}."


def _span_text(first: pd.Series, last: pd.Series) -> str:
    low, high = int(first["batch_size"]), int(last["batch_size"])
    return f"at B = {low:,}, the only point" if low == high else f"from B = {low:,} to {high:,}"


def _range_text(name: str, first: pd.Series, last: pd.Series, measure: SweepMeasure, alike: bool) -> str:
    """`p16 22.0 ms to 26.0 ms (+18.2 %)`, with its batch sizes where they differ between series."""
    low, high = float(first[measure.column]), float(last[measure.column])
    span = "" if alike else f" {_span_text(first, last)}"
    if first["batch_size"] == last["batch_size"]:
        return f"{name} {measure.text(low)}{span}"
    return f"{name} {measure.text(low)} to {measure.text(high)}{span}{'' if measure.is_ratio else _change(low, high)}"


def _change(low: float, high: float) -> str:
    """`(+10.0 %)`, `(40.0x)`, `(flat)`."""
    if low <= 0 or high <= 0:
        return ""
    factor = high / low
    if 1 / SAME < factor < SAME:
        return " (flat)"
    return f" ({ratio(factor)})" if factor >= 2 else f" ({change(factor - 1)})"


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


def _hover(name: str, row: dict[str, Any], measure: SweepMeasure) -> str:
    text = f"<b>{literal(name)}, B = {int(row['batch_size']):,}</b><br>{measure.text(float(row[measure.column]))}"
    low, high = row.get(f"{measure.column}_low"), row.get(f"{measure.column}_high")
    if low is None or high is None or pd.isna(low) or low == high:
        return text
    return f"{text}<br>{measure.text(float(low))} to {measure.text(float(high))} over repeats"


def _add_level(figure: go.Figure, level: tuple[float, str], measure: SweepMeasure, dark: bool) -> None:
    """A dotted line across the plot, labeled above it at the left."""
    value, text = level[0] * measure.scale, level[1]
    faint = palette(dark).faint_text
    figure.add_scatter(
        x=list(_ends(figure)),
        y=[value, value],
        mode="lines",
        line={"width": 1.4, "dash": "dot", "color": faint},
        showlegend=False,
        hoverinfo="skip",
        name=text,
    )
    place: dict[str, Any] = {"x": 0.01, "xref": "x domain", "yshift": 9, "font": {"size": 12, "color": faint}}
    figure.add_annotation(label(text, y=math.log10(value) if measure.is_log else value, **place))


def _ends(figure: go.Figure) -> Sequence[float]:
    sizes = [float(size) for trace in figure.data for size in (trace.x if trace.x is not None else ())]
    return (min(sizes), max(sizes)) if sizes else (1.0, 1.0)


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sweep.sample import sample_sweep

    sample = sample_sweep()
    figures = [measure_over_batch(sample, measure) for measure in MEASURES[:3]]
    show([*figures, measure_over_batch(sample, INTENSITY, level=(66.7, "balance point 66.7")), *figures[:1]])
