"""Shared by the figures of a load test: the axis of offered rates, the engines' lines, and failed points.

A row is an engine at a rate: engine, role, rate_per_s, offered_per_s, status, error, and the column drawn. It is drawn
at the offered rate; without a completed run there is none, and it is drawn at the requested rate. Rows with the role
`rate` are joined by a line. `below` and `above`, evenly spaced requests around a capacity, are hollow marks. A failed
point is a cross at the bottom of the plot, never dropped.
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
from pages.figures.colors import SeriesStyle, engine_symbol, palette
from pages.figures.frames import records
from pages.figures.layout import axis, label, legend_above, legend_name, literal, new_figure, set_layout

LOG_SPAN = 100.0  # the ratio of values above which the axis is logarithmic
AROUND = ("below", "above")
LEGEND_PX = 24
ROLE_LABELS = {"below": "evenly spaced, just below capacity", "above": "evenly spaced, just above capacity"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """One axis: its range in values, and whether it is logarithmic."""

    low: float
    high: float
    is_log: bool

    @property
    def ends(self) -> list[float]:
        """The range in Plotly's coordinates."""
        return [float(np.log10(self.low)), float(np.log10(self.high))] if self.is_log else [self.low, self.high]

    def drawn(self, values: pd.Series) -> pd.Series:
        """The values to draw: on a logarithmic axis, at least `low`."""
        return values.clip(lower=self.low) if self.is_log else values

    def settings(self) -> dict[str, Any]:
        """The settings of a Plotly axis with this scale."""
        shared = {"range": self.ends, "fixedrange": True}
        if not self.is_log:
            return {**shared, "tickformat": ",~r"}
        ticks = log_ticks(self.low, self.high)
        return {**shared, "type": "log", "tickvals": ticks, "ticktext": [exact(tick) for tick in ticks]}


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten; with 2 and 5 between them where fewer than four are inside."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 2, 5)):
        ticks = [float(f"{step}e{power}") for power in powers for step in steps]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= 4:
            break
    return inside


def scale_of(values: pd.Series, *, floor: float = 0.0, margin: float = 1.08) -> Scale:
    """A linear axis from 0, or a logarithmic one where the values above `floor` span more than two decades."""
    known = values.dropna()
    top = float(known.max()) if len(known) and float(known.max()) > 0 else 1.0
    least = known[known > floor]
    if len(least) and top / float(least.min()) > LOG_SPAN:
        return Scale(low=float(max(known.min(), floor, least.min() / 10)) / margin, high=top * margin**2, is_log=True)
    return Scale(low=0.0, high=top * margin, is_log=False)


def at_rates(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows at a rate, with `x_per_s`: the offered rate, or the requested one."""
    at_rate = rows[rows["role"] != "saturation"]
    offered, requested = at_rate["offered_per_s"].astype(float), at_rate["rate_per_s"].astype(float)
    return at_rate.assign(x_per_s=offered.fillna(requested)).dropna(subset=["x_per_s"])


def load_figure(engines: list[str], *, title: str, dark: bool, plot_px: int, more: int = 0) -> go.Figure:
    """An empty figure with a legend of the engines and `more` entries."""
    has_legend = len(engines) + more > 1
    figure = new_figure(plot_px=plot_px, dark=dark, title=title, top=8 + LEGEND_PX * has_legend, left=62, right=14)
    if has_legend:
        set_layout(figure, showlegend=True, legend=legend_above(gap_px=4, plot_px=plot_px, indent_px=-4))
    return figure


def offered_axis(rows: pd.DataFrame, dark: bool) -> tuple[Scale, dict[str, Any]]:
    """The x axis, the same for all figures of a load test."""
    scale = scale_of(rows["x_per_s"], margin=1.06)
    title = "offered requests/s, logarithmic" if scale.is_log else "offered requests/s"
    return scale, axis(dark, title=title, **scale.settings())


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
    """One engine's line over the rates; a solid line also gets hollow marks around capacity.

    Values are multiplied by `factor`. `whiskers` are the columns of the lowest and the highest repeat.
    """
    engine = str(mine["engine"].iloc[0])
    known = mine.dropna(subset=[column]).sort_values("x_per_s")
    symbol, is_main = engine_symbol(engine), dash == "solid"
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
            text=[hover(row) for row in records(part)],
            hovertemplate="%{text}<extra></extra>",
            cliponaxis=False,
        )


def add_around_entry(figure: go.Figure, rows: pd.DataFrame, column: str, dark: bool) -> None:
    """The legend entry of the hollow marks, where any is drawn."""
    if rows.loc[rows["role"].isin(AROUND), column].notna().any():
        color = palette(dark).faint_text
        marker = {"size": 9, "symbol": "circle-open-dot", "color": color, "line": {"width": 1.6, "color": color}}
        name = legend_name("near capacity")
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=marker, name=name, hoverinfo="skip")


def _whiskers(part: pd.DataFrame, column: str, ends: tuple[str, str], color: str) -> dict[str, Any] | None:
    """Error bars from the lowest to the highest repeat; None without repeats."""
    low, high = (part[end].astype(float).fillna(part[column]) for end in ends)
    if ((high - low).abs() < 1e-12).all():
        return None
    lengths = {"array": (high - part[column]).tolist(), "arrayminus": (part[column] - low).tolist()}
    return {**lengths, "color": color, "thickness": 1.2, "width": 4}


def add_failed(figure: go.Figure, rows: pd.DataFrame, scale: Scale, dark: bool, factor: float = 1.0) -> None:
    """A cross per row without a completed run; the hover text says how it ended."""
    failed = rows[rows["status"].isin(["oom", "failed", "crashed", "stopped"])]
    if failed.empty:
        return
    texts = [f"<b>{literal(point_text(row))}</b><br>{literal(failure_text(row))}" for row in records(failed)]
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


def point_text(row: dict[str, Any]) -> str:
    """`static, 2 requests/s requested`; `static, 2 requests/s, evenly spaced, just below capacity`."""
    rate = float(row["rate_per_s"])
    requested = exact(rate, f"request{'' if rate == 1 else 's'}/s", digits=4)
    around = ROLE_LABELS.get(str(row["role"]))
    return f"{row['engine']}, {requested}" + (f", {around}" if around else " requested")


def failure_text(row: dict[str, Any]) -> str:
    """`out of memory: asked 4.38 GiB with 3.10 GiB free`."""
    status = "out of memory" if row["status"] == "oom" else str(row["status"])
    return f"{status}: {row['error']}" if isinstance(row.get("error"), str) and row["error"] else status


def note_in_plot(figure: go.Figure, note: str, dark: bool) -> None:
    """A note in the middle of a plot that has only failed points."""
    place = {"x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper", "xanchor": "center"}
    figure.add_annotation(label(note, font={"size": 14, "color": palette(dark).faint_text}, **place))
