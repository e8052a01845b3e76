"""Achieved requests/s by offered requests/s: on the diagonal while an engine keeps up, flat after saturation.

The achieved rate counts the requests served, fully or partly, in the steady window. A dotted line is an engine's
capacity, measured separately with all requests arriving at once. The same figure draws goodput: the rate of requests
within the latency limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import number, percent, quantity
from pages.figures.colors import palette, series_styles
from pages.figures.layout import axis, label, legend_name, literal, note_figure, set_layout
from pages.figures.load.axes import (
    Scale,
    add_around_entry,
    add_engine,
    add_failed,
    at_rates,
    load_figure,
    note_in_plot,
    offered_axis,
    point_text,
    scale_of,
)

ACHIEVED, GOODPUT = "achieved_per_s", "goodput_requests_per_s"
AXES = {ACHIEVED: "achieved requests/s", GOODPUT: "requests/s within the limits"}
DIAGONAL = "achieved = offered"
PLOT_PX = 270
EMPTY = "No rate has been measured yet."
CLOSE = 0.09  # capacities closer than this share of the plot have one label above and one below


def achieved_over_offered(
    rows: pd.DataFrame,
    capacities: Mapping[str, float] | None = None,
    *,
    column: str = ACHIEVED,
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """Draw rows as in `axes`, with `column`, achieved_low_per_s and achieved_high_per_s; all engines in one figure.

    `capacities` are requests/s by engine.
    """
    placed = at_rates(rows)
    if placed.empty or (placed["status"] == "pending").all():
        return note_figure(EMPTY, dark=dark, title=title)
    capacities = capacities or {}
    engines = [str(engine) for engine in dict.fromkeys(rows["engine"])]
    styles = series_styles(engines, dark)
    figure = load_figure(engines, title=title, dark=dark, plot_px=PLOT_PX, more=1)
    x_scale, x_axis = offered_axis(placed, dark)
    y_scale = _y_scale(placed, column, capacities, x_scale)
    _add_diagonal(figure, x_scale, y_scale, dark)
    for engine in engines:
        mine = placed[placed["engine"] == engine]
        if len(mine):
            ends = ("achieved_low_per_s", "achieved_high_per_s") if column == ACHIEVED else None
            add_engine(figure, mine, column, styles[engine], _hover(column), scale=y_scale, whiskers=ends)
    colors = {name: style.color for name, style in styles.items()}
    _add_capacities(figure, capacities, colors, (x_scale, y_scale), dark)
    add_around_entry(figure, placed, column, dark)
    add_failed(figure, placed, y_scale, dark)
    if placed[column].isna().all():
        note_in_plot(figure, "No run completed.", dark)
    set_layout(figure, xaxis=x_axis, yaxis=axis(dark, title=AXES[column], **y_scale.settings()))
    return figure


def _y_scale(placed: pd.DataFrame, column: str, capacities: Mapping[str, float], x_scale: Scale) -> Scale:
    """A scale for the achieved rates and the capacities; logarithmic if x is, so the diagonal stays straight."""
    values = pd.concat([placed[column].astype(float), pd.Series(list(capacities.values()), dtype=float)]).dropna()
    if values.empty:
        return Scale(low=x_scale.low, high=x_scale.high, is_log=x_scale.is_log)
    top = 1.14 * float(values.max()) or 1.0
    if x_scale.is_log:
        return Scale(low=x_scale.low, high=max(top, 2 * x_scale.low), is_log=True)
    return Scale(low=0.0, high=top, is_log=False) if top > 0 else scale_of(values)


def _add_diagonal(figure: go.Figure, x_scale: Scale, y_scale: Scale, dark: bool) -> None:
    low, high = max(x_scale.low, y_scale.low), min(x_scale.high, y_scale.high)
    figure.add_scatter(
        x=[low, high],
        y=[low, high],
        mode="lines",
        line={"width": 1.4, "dash": "dash", "color": palette(dark).faint_text},
        name=legend_name(DIAGONAL),
        hoverinfo="skip",
    )


def _add_capacities(
    figure: go.Figure,
    capacities: Mapping[str, float],
    colors: Mapping[str, str],
    scales: tuple[Scale, Scale],
    dark: bool,
) -> None:
    """A dotted line per engine, labeled at the left; the lower one of two close lines is labeled below."""
    x_scale, y_scale = scales
    ranked = sorted(((value, name) for name, value in capacities.items() if name in colors), reverse=True)
    for place, (value, engine) in enumerate(ranked):
        figure.add_scatter(
            x=[x_scale.low, x_scale.high],
            y=[value, value],
            mode="lines",
            line={"width": 1.4, "dash": "dot", "color": colors[engine]},
            name=f"{engine}, capacity",
            showlegend=False,
            hovertemplate=f"<b>{engine}</b><br>capacity {quantity(value, 'requests/s')}<extra></extra>",
        )
        is_under = place > 0 and _gap(ranked[place - 1][0], value, y_scale) < CLOSE
        figure.add_annotation(
            label(
                f"capacity {number(value)}",
                x=0,
                xref="x domain",
                xshift=4,
                y=float(np.log10(value)) if y_scale.is_log else value,
                yanchor="top" if is_under else "bottom",
                font={"size": 12, "color": colors[engine]},
                bgcolor=f"{palette(dark).surface}c0",  # on a narrow screen the curves cross it
            )
        )


def _gap(higher: float, lower: float, scale: Scale) -> float:
    if scale.is_log:
        return float(np.log(higher / lower) / np.log(scale.high / scale.low))
    return (higher - lower) / (scale.high - scale.low)


def _hover(column: str) -> Callable[[dict[str, Any]], str]:
    def text(row: dict[str, Any]) -> str:
        served, offered = float(row[column]), float(row["x_per_s"])
        lines = [f"<b>{literal(point_text(row))}</b>", f"{quantity(offered, 'requests/s')} offered"]
        name = "achieved" if column == ACHIEVED else "within the limits"
        lines.append(f"{quantity(served, 'requests/s')} {name} ({percent(served / offered)})")
        low, high = row.get("achieved_low_per_s"), row.get("achieved_high_per_s")
        if column == ACHIEVED and low is not None and high is not None and high > low:
            lines.append(f"{number(float(low))} to {number(float(high))} over repeats")
        grows = row.get("queue_grows")
        if grows is True or grows is False:
            lines.append("the queue grows" if grows else "the queue does not grow")
        return "<br>".join(lines)

    return text


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.load.sample import CAPACITIES, sample_load

    rows = sample_load()
    show([achieved_over_offered(rows, CAPACITIES, dark=dark) for dark in (False, True)])
