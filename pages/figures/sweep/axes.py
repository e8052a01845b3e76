"""What the figures of a sweep share: series and their styles, the batch-size axis, and the strip of failed points.

A point is a row with series, batch_size and status. A point that failed has no height: it stands in a strip above the
plot, at the batch size where it failed, with the bytes that it asked for and those that were free. Never dropped.
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
from pages.figures.layout import axis, label, legend_above, legend_name, new_figure, set_layout

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "star", "hexagon")
PLOT_PX = 250
STRIP_PX = 15  # a series with failed points
LEGEND_PX = 22
LEGEND_WIDE = 34  # characters and swatches in a line of a legend on a narrow phone
MOST_TICKS = 7
ALL_FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStyle:
    """How one series is drawn: a color, and a marker that no series of that color has."""

    color: str
    symbol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Where a figure's parts stand: the plot, and above it the strip of failed points, of one row or one a series."""

    plot_px: int
    strip_px: int
    is_one_row: bool = False

    @property
    def plot_top(self) -> float:
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
    """The points that were tried and gave no measurement."""
    return points["status"].isin(["oom", "failed", "crashed"])


def batch_axis(points: pd.DataFrame, dark: bool, **settings: Any) -> dict[str, Any]:
    """A logarithmic axis of batch sizes, marked at those of the sweep; of many, every second or third."""
    sizes = sorted({int(size) for size in points["batch_size"]})
    step = math.ceil(len(sizes) / MOST_TICKS)
    ticks = sizes[::step]
    low, high = math.log10(sizes[0]), math.log10(sizes[-1])
    air = max(0.06 * (high - low), 0.08)
    return axis(
        dark,
        title="batch size B, logarithmic axis",
        type="log",
        range=[low - air, high + air],
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
) -> tuple[go.Figure, Room]:
    """An empty figure with a legend of the series and of `more`, and room for the strip where a point failed."""
    names = [*dict.fromkeys(points["series"]), *filter(None, [more])]
    failing = points.loc[is_failed(points), "series"].nunique()
    rows = min(failing, 1) if in_one_row else failing
    room = Room(plot_px=plot_px, strip_px=6 + STRIP_PX * rows if rows else 0, is_one_row=in_one_row)
    is_keyed = len(names) > 1
    lines = math.ceil(sum(len(name) + 6 for name in names) / LEGEND_WIDE) if is_keyed else 0
    height = room.plot_px + room.strip_px
    figure = new_figure(plot_px=height, dark=dark, title=title, top=8 + LEGEND_PX * lines, left=66, right=12)
    if is_keyed:
        set_layout(figure, showlegend=True, legend=legend_above(gap_px=4, plot_px=height, indent_px=-4))
    return figure, room


def add_line(
    figure: go.Figure, name: str, x: pd.Series, y: pd.Series, style: LineStyle, hover: Sequence[str], **more: Any
) -> None:
    """A series with its markers; `hover` is a text a point."""
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


def add_failed(figure: go.Figure, points: pd.DataFrame, styles: dict[str, LineStyle], room: Room, dark: bool) -> None:
    """The strip: a cross a failed point, with its bytes under the pointer; in one row, one cross for all of a size."""
    failed = points[is_failed(points)]
    if failed.empty:
        return
    names = [ALL_FAILED] if room.is_one_row else list(dict.fromkeys(failed["series"]))
    for row, name in enumerate(names):
        mine = failed if room.is_one_row else failed[failed["series"] == name]
        _add_crosses(figure, name, row, mine, palette(dark).dead if room.is_one_row else styles[name].color, dark)
    strip = axis(
        dark,
        domain=[min(room.plot_top + 6 / (room.plot_px + room.strip_px), 1), 1],
        range=[-0.5, len(names) - 0.5],
        tickvals=list(range(len(names))),
        ticktext=[f"✕ {name}" for name in names],
        showgrid=False,
        fixedrange=True,
    )
    set_layout(figure, yaxis2=strip)
    place = {"xref": "paper", "yref": "y2 domain", "x0": 0, "x1": 1, "y0": 0, "y1": 1}
    figure.add_shape(type="rect", fillcolor=palette(dark).empty, line={"width": 0}, layer="below", **place)


def _add_crosses(figure: go.Figure, name: str, row: int, failed: pd.DataFrame, edge: str, dark: bool) -> None:
    """A row of the strip, one cross a batch size."""
    texts = {
        int(str(size)): "<br>".join(failed_text(point) for point in mine.to_dict("records"))
        for size, mine in failed.groupby("batch_size")
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


def failed_text(row: dict[Any, Any]) -> str:
    """`p64, B = 512: out of memory, asked 4.38 GiB with 3.10 GiB free`."""
    what = "out of memory" if row["status"] == "oom" else str(row["status"])
    text = f"<b>{row['series']}, B = {int(row['batch_size']):,}</b><br>{what}"
    asked, free = row.get("asked_bytes"), row.get("free_bytes")
    if asked is not None and not pd.isna(asked):
        text += f"<br>asked {size(asked)}"
        text += f" with {size(free)} free" if free is not None and not pd.isna(free) else ""
    where = row.get("oom_where")
    return text + (f"<br>{where}" if isinstance(where, str) and where else "")


def empty_text(points: pd.DataFrame) -> str | None:
    """What a figure says where it has nothing to draw; None where it has a point, even a failed one."""
    if points.empty:
        return "No point has been measured yet."
    known = is_failed(points) | (points["status"] == "completed")
    return None if known.any() else "No point has been measured yet."


def hold_open(figure: go.Figure, points: pd.DataFrame, words: str, dark: bool) -> dict[str, Any]:
    """A plot with failed points alone keeps its place, with words in its middle. Returns what its y axis becomes."""
    sizes = sorted({int(size) for size in points["batch_size"]})
    figure.add_scatter(x=sizes, y=[None] * len(sizes), mode="markers", showlegend=False, hoverinfo="skip", name="none")
    place = {"x": 0.5, "y": 0.4, "xref": "paper", "yref": "paper", "xanchor": "center"}
    figure.add_annotation(label(words, font={"size": 14, "color": palette(dark).faint_text}, **place))
    return {"type": "linear", "range": [0, 1], "showticklabels": False, "title": None, "showgrid": False}
