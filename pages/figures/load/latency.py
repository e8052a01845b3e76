"""Queue wait and time to first token by offered rate, one line per engine.

The axis is logarithmic where values span more than two decades, as around the saturation point. Values below FLOOR_S
are drawn at FLOOR_S.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import duration, exact, plural
from pages.figures.colors import palette, series_styles
from pages.figures.layout import axis, legend_name, literal, note_figure, set_layout
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
from pages.figures.load.rates import EMPTY

PLOT_PX = 220
FLOOR_S = 1e-3
SECONDS_FROM_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLatency:
    """A latency of a load test: columns in seconds, each with its label and its dash."""

    title: str
    noun: str
    axis_title: str
    columns: tuple[tuple[str, str, str], ...]


QUEUE = LoadLatency(
    title="Queue wait",
    noun="queue wait",
    axis_title="queue wait, p50",
    columns=(("queue_wait_p50_s", "p50", "solid"),),
)
TTFT = LoadLatency(
    title="Time to first token",
    noun="time to first token",
    axis_title="TTFT, p50 and p95",
    columns=(("ttft_p50_s", "p50", "solid"), ("ttft_p95_s", "p95", "dash")),
)


def latency_over_offered(
    rows: pd.DataFrame, latency: LoadLatency, *, title: str | None = None, dark: bool = False
) -> go.Figure:
    """Draw rows as in `axes`, with the columns of `latency` and ttft_n."""
    title = latency.title if title is None else title
    placed = at_rates(rows)
    if placed.empty or (placed["status"] == "pending").all():
        return note_figure(EMPTY, dark=dark, title=title)
    engines = [str(engine) for engine in dict.fromkeys(rows["engine"])]
    styles = series_styles(engines, dark)
    several = len(latency.columns) > 1
    figure = load_figure(engines, title=title, dark=dark, plot_px=PLOT_PX, more=int(several))
    _, x_axis = offered_axis(placed, dark)
    values = pd.concat([placed[column].astype(float) for column, _, _ in latency.columns])
    scale = scale_of(values.clip(lower=FLOOR_S), margin=1.15)
    unit, factor = ("s", 1.0) if scale.high >= SECONDS_FROM_S else ("ms", 1000.0)
    for engine in engines:
        mine = placed[placed["engine"] == engine]
        for column, percentile, dash in latency.columns:
            if mine[column].notna().any():
                hover = _hover(column, f"{latency.noun} {percentile}")
                add_engine(figure, mine, column, styles[engine], hover, scale=scale, factor=factor, dash=dash)
    for _, percentile, dash in latency.columns[1:]:
        _add_legend_entry(figure, percentile, dash, dark)
    add_around_entry(figure, placed, latency.columns[0][0], dark)
    add_failed(figure, placed, scale, dark, factor)
    if values.isna().all():
        note_in_plot(figure, "No run completed.", dark)
    set_layout(figure, xaxis=x_axis, yaxis=_y_axis(latency, scale, unit, factor, dark))
    return figure


def floor_text(rows: pd.DataFrame, latency: LoadLatency) -> str:
    """A note if `latency_over_offered` draws values below FLOOR_S at the lower edge; empty if it draws none there."""
    values = pd.concat([at_rates(rows)[column].astype(float) for column, _, _ in latency.columns])
    is_cut = scale_of(values.clip(lower=FLOOR_S)).is_log and bool((values < FLOOR_S).any())
    return f"Values below {exact(1e3 * FLOOR_S, 'ms')} are drawn at the lower edge." if is_cut else ""


def _y_axis(latency: LoadLatency, scale: Scale, unit: str, factor: float, dark: bool) -> dict[str, Any]:
    drawn = Scale(low=scale.low * factor, high=scale.high * factor, is_log=scale.is_log)
    log = ", logarithmic" if scale.is_log else ""
    return axis(dark, title=f"{latency.axis_title}, {unit}{log}", **drawn.settings())


def _add_legend_entry(figure: go.Figure, name: str, dash: str, dark: bool) -> None:
    """The legend entry of a dashed line; solid lines have their engine's name."""
    line = {"width": 2, "dash": dash, "color": palette(dark).faint_text}
    figure.add_scatter(x=[None], y=[None], mode="lines", line=line, name=legend_name(name), hoverinfo="skip")


def _hover(column: str, name: str) -> Callable[[dict[str, Any]], str]:
    def text(row: dict[str, Any]) -> str:
        n = row.get("ttft_n")
        of = "" if n is None or pd.isna(n) else f" of {plural(int(n), 'request')}"
        return f"<b>{literal(point_text(row))}</b><br>{name}{of}: {duration(float(row[column]))}"

    return text


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.load.sample import sample_load

    rows = sample_load()
    show([latency_over_offered(rows, latency, dark=dark) for latency in (QUEUE, TTFT) for dark in (False, True)])
