"""Shared by the figures of a sweep: series styles, the batch-size axis, and the strip of failed points.

A point is a row with series, batch_size and status. A failed point has no value: it is a cross in a strip above the
plot, at its batch size, with the bytes requested and free in its hover text. Never dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import size
from pages.figures.colors import palette
from pages.figures.frames import records
from pages.figures.layout import axis, label, legend_above, legend_name, literal, new_figure, set_layout

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "star", "hexagon")
PLOT_PX = 250
STRIP_PX = 15  # per series with failed points
LEGEND_PX = 22
LEGEND_WIDTH = 34  # characters, with a swatch as six, in a legend line on a narrow phone
MOST_TICKS = 7
ALL_FAILED = "failed"
NO_POINTS = "No point has been measured yet."


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStyle:
    """The style of a series: a color, and a marker that no other series of that color has."""

    color: str
    symbol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotLayout:
    """The heights of the plot and of the strip of failed points above it, which has one row or one per series."""

    plot_px: int
    strip_px: int
    is_one_row: bool = False

    @property
    def plot_top(self) -> float:
        """The top of the plot as a share of the whole height."""
        return self.plot_px / (self.plot_px + self.strip_px)


def line_styles(names: Sequence[str], dark: bool) -> dict[str, LineStyle]:
    """A style for each name, in order of appearance."""
    colors = palette(dark).series
    return {
        name: LineStyle(
            color=colors[place % len(colors)],
            symbol=SYMBOLS[(place + place // len(colors)) % len(SYMBOLS)],
        )
        for place, name in enumerate(dict.fromkeys(names))
    }


def is_failed(points: pd.DataFrame) -> pd.Series:
    """True for points that ran without a measurement."""
    return points["status"].isin(["oom", "failed", "crashed"])


def batch_axis(points: pd.DataFrame, dark: bool, **settings: Any) -> dict[str, Any]:
    """A logarithmic axis with ticks at the batch sizes of the sweep; of many, every second or third."""
    sizes = sorted({int(each) for each in points["batch_size"]})
    step = math.ceil(len(sizes) / MOST_TICKS)
    ticks = sizes[::step]
    low, high = math.log10(sizes[0]), math.log10(sizes[-1])
    margin = max(0.06 * (high - low), 0.08)
    return axis(
        dark,
        title="batch size B, logarithmic axis",
        type="log",
        range=[low - margin, high + margin],
        tickvals=ticks,
        ticktext=[f"{tick:,}" for tick in ticks],
        fixedrange=True,
        **settings,
    )


def sweep_figure(
    points: pd.DataFrame,
    *,
    title: str,
    dark: bool,
    plot_px: int = PLOT_PX,
    more: str = "",
    in_one_row: bool = False,
) -> tuple[go.Figure, PlotLayout]:
    """An empty figure with a legend of the series and `more`, and space for the strip if a point failed."""
    names = [*dict.fromkeys(points["series"]), *filter(None, [more])]
    failing = points.loc[is_failed(points), "series"].nunique()
    rows = min(failing, 1) if in_one_row else failing
    layout = PlotLayout(plot_px=plot_px, strip_px=6 + STRIP_PX * rows if rows else 0, is_one_row=in_one_row)
    has_legend = len(names) > 1
    lines = math.ceil(sum(len(name) + 6 for name in names) / LEGEND_WIDTH) if has_legend else 0
    height = layout.plot_px + layout.strip_px
    figure = new_figure(plot_px=height, dark=dark, title=title, top=8 + LEGEND_PX * lines, left=66, right=12)
    if has_legend:
        set_layout(figure, showlegend=True, legend=legend_above(gap_px=4, plot_px=height, indent_px=-4))
    return figure, layout


def add_line(
    figure: go.Figure, name: str, x: pd.Series, y: pd.Series, style: LineStyle, hover: Sequence[str], **more: Any
) -> None:
    """A series with its markers; `hover` has a text per point."""
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines+markers",
        line={"width": 2, "color": style.color},
        marker={"size": 8, "symbol": style.symbol, "color": style.color},
        name=legend_name(name),
        legendgroup=name,
        text=list(hover),
        hovertemplate="%{text}<extra></extra>",
        **more,
    )


def add_failed(
    figure: go.Figure, points: pd.DataFrame, styles: dict[str, LineStyle], layout: PlotLayout, dark: bool
) -> None:
    """The strip: a cross per failed point, with its bytes as hover text; in one row, one cross per batch size."""
    failed = points[is_failed(points)]
    if failed.empty:
        return
    names = [ALL_FAILED] if layout.is_one_row else list(dict.fromkeys(failed["series"]))
    for row, name in enumerate(names):
        mine = failed if layout.is_one_row else failed[failed["series"] == name]
        _add_crosses(figure, name, row, mine, palette(dark).dead if layout.is_one_row else styles[name].color, dark)
    strip = axis(
        dark,
        domain=[min(layout.plot_top + 6 / (layout.plot_px + layout.strip_px), 1), 1],
        range=[-0.5, len(names) - 0.5],
        tickvals=list(range(len(names))),
        ticktext=[f"✕ {literal(name)}" for name in names],
        showgrid=False,
        fixedrange=True,
    )
    set_layout(figure, yaxis2=strip)
    place = {"xref": "paper", "yref": "y2 domain", "x0": 0, "x1": 1, "y0": 0, "y1": 1}
    figure.add_shape(type="rect", fillcolor=palette(dark).empty, line={"width": 0}, layer="below", **place)


def _add_crosses(figure: go.Figure, name: str, row: int, failed: pd.DataFrame, edge: str, dark: bool) -> None:
    """A row of the strip, one cross per batch size."""
    texts = {
        int(str(batch_size)): "<br>".join(failed_text(point) for point in records(mine))
        for batch_size, mine in failed.groupby("batch_size")
    }
    figure.add_scatter(
        x=list(texts),
        y=[row] * len(texts),
        yaxis="y2",
        mode="markers",
        marker={"size": 10, "symbol": "x", "color": palette(dark).dead, "line": {"width": 1.5, "color": edge}},
        name=f"{name}, failed",
        showlegend=False,
        text=list(texts.values()),
        hovertemplate="%{text}<extra></extra>",
        cliponaxis=False,
    )


def failed_text(row: dict[str, Any]) -> str:
    """`p64, B = 512`, `out of memory`, `requested 4.38 GiB, 3.10 GiB free`, one line each."""
    status = "out of memory" if row["status"] == "oom" else str(row["status"])
    text = f"<b>{literal(str(row['series']))}, B = {int(row['batch_size']):,}</b><br>{status}"
    requested, free = row.get("asked_bytes"), row.get("free_bytes")
    if requested is not None and not pd.isna(requested):
        text += f"<br>requested {size(requested)}"
        text += f", {size(free)} free" if free is not None and not pd.isna(free) else ""
    where = row.get("oom_where")
    return text + (f"<br>{literal(where)}" if isinstance(where, str) and where else "")


def empty_text(points: pd.DataFrame) -> str | None:
    """The note of a figure without points; None if it has a point, even a failed one."""
    if points.empty:
        return NO_POINTS
    known = is_failed(points) | (points["status"] == "completed")
    return None if known.any() else NO_POINTS


def add_note(figure: go.Figure, points: pd.DataFrame, note: str, dark: bool) -> dict[str, Any]:
    """A note in the middle of a plot that has only failed points. Returns the settings of its y axis."""
    sizes = sorted({int(each) for each in points["batch_size"]})
    figure.add_scatter(x=sizes, y=[None] * len(sizes), mode="markers", showlegend=False, hoverinfo="skip", name="none")
    place = {"x": 0.5, "y": 0.4, "xref": "paper", "yref": "paper", "xanchor": "center"}
    figure.add_annotation(label(note, font={"size": 14, "color": palette(dark).faint_text}, **place))
    return {"type": "linear", "range": [0, 1], "showticklabels": False, "title": None, "showgrid": False}
