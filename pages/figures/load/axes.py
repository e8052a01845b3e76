"""What the figures of a load test share: the rows they draw, the axis of offered rates, engines' lines, failed points.

A row is an engine at a rate (columns engine, role, rate_per_s, offered_per_s, status, error, and the figure drawn). It
stands at the rate that was really offered; where no run completed there is none, and it stands at the rate asked for.
Rows of the role `rate` are joined by a line; `below` and `above`, evenly spaced requests around a capacity, are hollow
marks. A point that failed is a cross at the foot of the plot: never dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import exact
from pages.figures.colors import SeriesStyle, palette
from pages.figures.layout import axis, label, legend_above, legend_name, new_figure, set_layout

SYMBOLS = {"continuous": "circle", "static": "square", "serial": "triangle-up", "paged": "diamond", "chunked": "star"}
LOG_SPAN = 100.0  # values that span more than this are drawn on a logarithmic axis
AROUND = ("below", "above")
LEGEND_PX = 24
ROLE_WORDS = {"below": "evenly spaced, just below capacity", "above": "evenly spaced, just above capacity"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """One axis: its range in values, and whether it is logarithmic."""

    low: float
    high: float
    is_log: bool

    @property
    def ends(self) -> list[float]:
        """The range in plotly's own coordinates."""
        return [float(np.log10(self.low)), float(np.log10(self.high))] if self.is_log else [self.low, self.high]

    def drawn(self, values: pd.Series) -> pd.Series:
        """Values as they are drawn: a logarithmic axis has a least one."""
        return values.clip(lower=self.low) if self.is_log else values

    def settings(self) -> dict[str, Any]:
        shared = {"range": self.ends, "fixedrange": True}
        if not self.is_log:
            return {**shared, "tickformat": ",~r"}
        ticks = log_ticks(self.low, self.high)
        return {**shared, "type": "log", "tickvals": ticks, "ticktext": [exact(tick) for tick in ticks]}


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten; with 2 and 5 between them where fewer than four lie inside."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 2, 5)):
        ticks = [float(f"{step}e{power}") for power in powers for step in steps]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= 4:
            break
    return inside


def scale_of(values: pd.Series, *, floor: float = 0.0, air: float = 1.08) -> Scale:
    """A linear axis from 0, or a logarithmic one where the values above `floor` span over two decades."""
    known = values.dropna()
    top = float(known.max()) if len(known) and float(known.max()) > 0 else 1.0
    least = known[known > floor]
    if len(least) and top / float(least.min()) > LOG_SPAN:
        return Scale(low=float(max(known.min(), floor, least.min() / 10)) / air, high=top * air**2, is_log=True)
    return Scale(low=0.0, high=top * air, is_log=False)


def with_place(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a place on the axis of rates, with `x_per_s`: the offered rate, or that asked for."""
    placed = rows[rows["role"] != "saturation"]
    offered, asked = placed["offered_per_s"].astype(float), placed["rate_per_s"].astype(float)
    return placed.assign(x_per_s=offered.fillna(asked)).dropna(subset=["x_per_s"])


def load_figure(engines: list[str], *, title: str, dark: bool, plot_px: int, more: int = 0) -> go.Figure:
    """An empty figure with a legend of the engines and of `more` entries."""
    is_keyed = len(engines) + more > 1
    figure = new_figure(plot_px=plot_px, dark=dark, title=title, top=8 + LEGEND_PX * is_keyed, left=62, right=14)
    if is_keyed:
        set_layout(figure, showlegend=True, legend=legend_above(gap_px=4, plot_px=plot_px, indent_px=-4))
    return figure


def offered_axis(rows: pd.DataFrame, dark: bool) -> tuple[Scale, dict[str, Any]]:
    """The x axis of all figures of one load test: the same for each of them."""
    scale = scale_of(rows["x_per_s"], air=1.06)
    words = "offered requests/s, logarithmic" if scale.is_log else "offered requests/s"
    return scale, axis(dark, title=words, **scale.settings())


def add_engine(
    figure: go.Figure,
    mine: pd.DataFrame,
    column: str,
    style: SeriesStyle,
    hover: Callable[[dict[str, Any]], str],
    *,
    scale: Scale,
    factor: float = 1.0,
    dash: str = "solid",
    whiskers: tuple[str, str] | None = None,
) -> None:
    """One engine's line over the rates; a solid one with hollow marks around capacity. Values are drawn `factor`
    times."""
    engine = str(mine["engine"].iloc[0])
    known = mine.dropna(subset=[column]).sort_values("x_per_s")
    symbol, is_main = SYMBOLS.get(engine, "circle"), dash == "solid"
    for is_line, part in ((True, known[known["role"] == "rate"]), (False, known[known["role"].isin(AROUND)])):
        if part.empty or not (is_line or is_main):
            continue
        y = scale.drawn(part[column].astype(float)) * factor
        errors = None if whiskers is None or not is_line else _whiskers(part, column, whiskers, style.color)
        figure.add_scatter(
            x=part["x_per_s"].tolist(),
            y=y.tolist(),
            mode="lines+markers" if is_line else "markers",
            line={"width": 2, "color": style.color, "dash": dash},
            marker={
                "size": (8 if is_main else 6) if is_line else 9,
                "symbol": symbol if is_line else f"{symbol}-open-dot",
                "color": style.color,
                "line": {"width": 1.6, "color": style.color},
            },
            error_y=errors,
            name=legend_name(engine),
            showlegend=is_line and is_main,
            text=[hover(row) for row in part.to_dict("records")],
            hovertemplate="%{text}<extra></extra>",
            cliponaxis=False,
        )


def _whiskers(part: pd.DataFrame, column: str, ends: tuple[str, str], color: str) -> dict[str, Any] | None:
    """From the lowest to the highest repeat; None where nothing was repeated."""
    low, high = (part[end].astype(float).fillna(part[column]) for end in ends)
    if ((high - low).abs() < 1e-12).all():
        return None
    lengths = {"array": (high - part[column]).tolist(), "arrayminus": (part[column] - low).tolist()}
    return {**lengths, "color": color, "thickness": 1.2, "width": 4}


def add_failed(figure: go.Figure, rows: pd.DataFrame, scale: Scale, dark: bool, factor: float = 1.0) -> None:
    """A cross a row without a completed run, with how it ended under the pointer."""
    failed = rows[rows["status"].isin(["oom", "failed", "crashed", "stopped"])]
    if failed.empty:
        return
    texts = [f"<b>{head_text(row)}</b><br>{failure_text(row)}" for row in failed.to_dict("records")]
    figure.add_scatter(
        x=failed["x_per_s"].tolist(),
        y=[scale.low * factor] * len(failed),
        mode="markers",
        marker={"size": 11, "symbol": "x", "color": palette(dark).dead, "line": {"width": 0}},
        name=legend_name("failed"),
        showlegend=True,
        text=texts,
        hovertemplate="%{text}<extra></extra>",
        cliponaxis=False,
    )


def head_text(row: dict[str, Any]) -> str:
    """`static, 2 requests/s asked`."""
    rate = float(row["rate_per_s"])
    asked = exact(rate, f"request{'' if rate == 1 else 's'}/s", digits=4)
    around = ROLE_WORDS.get(str(row["role"]))
    return f"{row['engine']}, {asked}" + (f", {around}" if around else " asked for")


def failure_text(row: dict[str, Any]) -> str:
    status = "out of memory" if row["status"] == "oom" else str(row["status"])
    return f"{status}: {row['error']}" if isinstance(row.get("error"), str) and row["error"] else status


def note_in_plot(figure: go.Figure, words: str, dark: bool) -> None:
    """A line in the middle of a plot that has nothing but failed points."""
    place = {"x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper", "xanchor": "center"}
    figure.add_annotation(label(words, font={"size": 14, "color": palette(dark).faint_text}, **place))
