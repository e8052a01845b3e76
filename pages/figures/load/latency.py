"""How long readers waited at each offered rate: in the queue, and for the first token. One line an engine.

Logarithmic where the waits span over two decades, as they do over a knee. A wait shorter than FLOOR_S is drawn at it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import duration
from pages.figures.colors import palette, series_styles
from pages.figures.layout import axis, legend_name, note_figure, set_layout
from pages.figures.load.axes import (
    Scale,
    add_engine,
    add_failed,
    head_text,
    load_figure,
    note_in_plot,
    offered_axis,
    scale_of,
    with_place,
)
from pages.figures.load.rates import EMPTY

PLOT_PX = 220
FLOOR_S = 1e-3
SECONDS_FROM_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What is drawn: columns in seconds, each with its words and its dash."""

    title: str
    axis_words: str
    columns: tuple[tuple[str, str, str], ...]


QUEUE = Wait(title="Queue wait", axis_words="queue wait, p50", columns=(("queue_wait_p50_s", "p50", "solid"),))
TTFT = Wait(
    title="Time to first token",
    axis_words="TTFT, p50 and p95",
    columns=(("ttft_p50_s", "p50", "solid"), ("ttft_p95_s", "p95", "dash")),
)


def wait_over_offered(rows: pd.DataFrame, wait: Wait, *, title: str | None = None, dark: bool = False) -> go.Figure:
    """Draw rows as `load_axes` describes them, with the columns of `wait`, ttft_n and queue_grows."""
    title = wait.title if title is None else title
    placed = with_place(rows)
    if placed.empty or (placed["status"] == "pending").all():
        return note_figure(EMPTY, dark=dark, title=title)
    engines = [str(engine) for engine in dict.fromkeys(rows["engine"])]
    styles = series_styles(engines, dark)
    several = len(wait.columns) > 1
    figure = load_figure(engines, title=title, dark=dark, plot_px=PLOT_PX, more=int(several))
    _, x_axis = offered_axis(placed, dark)
    values = pd.concat([placed[column].astype(float) for column, _, _ in wait.columns])
    scale = scale_of(values.clip(lower=FLOOR_S), air=1.15)
    unit, factor = ("s", 1.0) if scale.high >= SECONDS_FROM_S else ("ms", 1000.0)
    for engine in engines:
        mine = placed[placed["engine"] == engine]
        for column, words, dash in wait.columns:
            if mine[column].notna().any():
                hover = _hover(column, words)
                add_engine(figure, mine, column, styles[engine], hover, scale=scale, factor=factor, dash=dash)
    for _, words, dash in wait.columns[1:]:
        _add_key(figure, words, dash, dark)
    add_failed(figure, placed, scale, dark, factor)
    if values.isna().all():
        note_in_plot(figure, "No run at a rate completed.", dark)
    set_layout(figure, xaxis=x_axis, yaxis=_y_axis(wait, scale, unit, factor, dark))
    return figure


def _y_axis(wait: Wait, scale: Scale, unit: str, factor: float, dark: bool) -> dict[str, Any]:
    drawn = Scale(low=scale.low * factor, high=scale.high * factor, is_log=scale.is_log)
    log = ", logarithmic" if scale.is_log else ""
    return axis(dark, title=f"{wait.axis_words}, {unit}{log}", **drawn.settings())


def _add_key(figure: go.Figure, words: str, dash: str, dark: bool) -> None:
    """What a line of another dash is, in the legend; the solid ones carry their engine's name."""
    line = {"width": 2, "dash": dash, "color": palette(dark).faint_text}
    figure.add_scatter(x=[None], y=[None], mode="lines", line=line, name=legend_name(words), hoverinfo="skip")


def _hover(column: str, words: str) -> Callable[[dict[str, Any]], str]:
    def text(row: dict[str, Any]) -> str:
        what = "queue wait" if column.startswith("queue") else "time to first token"
        n = row.get("ttft_n")
        of = "" if n is None or pd.isna(n) else f" of {int(n):,} requests"
        return f"<b>{head_text(row)}</b><br>{what} {words}{of}: {duration(float(row[column]))}"

    return text


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.load.sample import sample_load

    rows = sample_load()
    show([wait_over_offered(rows, wait, dark=dark) for wait in (QUEUE, TTFT) for dark in (False, True)])
