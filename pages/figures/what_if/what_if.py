"""The trade-off of batching: total tokens/s and tokens/s per request by batch size.

Both axes are logarithmic. The dashed line is linear scaling: the batch size times the rate of one request. Marks show
the batch size at which KV reads equal the weights, and the memory limit; curves are faint beyond it. All values are
calculated, none is measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import counted, quantity
from pages.figures.colors import palette
from pages.figures.layout import axis, label, legend_above, legend_name, new_figure, note_figure, set_layout

PLOT_PX = 340


def batch_trade(
    rows: pd.DataFrame,
    *,
    free_until: float | None = None,
    wall: float | None = None,
    reading_tokens_per_s: float | None = None,
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """Draw rows (batch_size, tokens_per_s, tokens_per_s_per_request, step_s), one per batch size.

    `free_until` and `wall`, the memory limit, are batch sizes; `reading_tokens_per_s` is a rate. None draws no mark.
    """
    if rows.empty:
        return note_figure("No batch size to draw.", dark=dark, title=title)
    rows = rows.sort_values("batch_size", ignore_index=True)
    figure = new_figure(plot_px=PLOT_PX, dark=dark, title=title, top=62, left=58, right=18)
    x_range, y_range = _ranges(rows, reading_tokens_per_s)
    _add_linear(figure, rows, dark)
    _add_curves(figure, rows, wall, dark)
    _add_marks(figure, free_until, wall, x_range, y_range, dark)
    if reading_tokens_per_s is not None:
        _add_reading(figure, reading_tokens_per_s, x_range, dark)
    set_layout(
        figure,
        showlegend=True,
        legend=legend_above(gap_px=26, plot_px=PLOT_PX, indent_px=-4),
        xaxis=axis(
            dark,
            title="batch size",
            type="log",
            range=list(np.log10(x_range)),
            fixedrange=True,
            **_ticks(list(rows["batch_size"])),
        ),
        yaxis=axis(dark, type="log", range=list(np.log10(y_range)), fixedrange=True, dtick=1, tickformat=",~g"),
    )
    heading = {"x": 0, "xref": "paper", "y": 1, "yref": "paper", "xshift": -54, "yanchor": "bottom", "yshift": 4}
    font = {"size": 12, "color": palette(dark).faint_text}
    figure.add_annotation(label("tokens/s", font=font, **heading))
    return figure


def _ranges(rows: pd.DataFrame, reading: float | None) -> tuple[tuple[float, float], tuple[float, float]]:
    sizes = rows["batch_size"].to_numpy(dtype=float)
    rates = [*rows["tokens_per_s"], *rows["tokens_per_s_per_request"], *([reading] if reading else [])]
    return (float(sizes.min()) / 1.2, float(sizes.max()) * 1.2), (min(rates) / 3.5, max(rates) * 1.8)


def _ticks(sizes: Sequence[float]) -> dict[str, list[object]]:
    """A tick at every batch size; of many, at every second or third, so labels do not overlap on a phone."""
    every = max(1, -(-len(sizes) // 8))
    kept = list(sizes)[::-1][::every][::-1]
    return {"tickvals": list(kept), "ticktext": [f"{size:,.0f}" for size in kept]}


def _add_linear(figure: go.Figure, rows: pd.DataFrame, dark: bool) -> None:
    first = rows.iloc[0]
    sizes = rows["batch_size"].to_numpy(dtype=float)
    figure.add_scatter(
        x=sizes,
        y=sizes * float(first["tokens_per_s_per_request"]),
        mode="lines",
        line={"width": 1.4, "dash": "dash", "color": palette(dark).faint_text},
        name=legend_name("linear scaling"),
        hovertemplate="%{y:,.3r}\u00a0tokens/s at linear scaling<extra></extra>",
    )


def _add_curves(figure: go.Figure, rows: pd.DataFrame, wall: float | None, dark: bool) -> None:
    """Both curves, faint beyond the memory limit."""
    colors = palette(dark)
    fits = rows["batch_size"] <= (wall if wall is not None else np.inf)
    lines = (
        ("total", "tokens_per_s", "solid", "circle"),
        ("per request", "tokens_per_s_per_request", "dot", "diamond"),
    )
    for place, (name, column, dash, symbol) in enumerate(lines):
        for inside in (True, False):
            # the first size that does not fit is joined to the last that does
            kept = fits if inside else (~fits | (fits & ~fits.shift(-1, fill_value=True)))
            mine = rows[kept]
            if mine.empty or (not inside and fits.all()):
                continue
            figure.add_scatter(
                x=mine["batch_size"].to_numpy(dtype=float),
                y=mine[column].to_numpy(dtype=float),
                mode="lines+markers",
                line={"width": 2.2, "dash": dash, "color": colors.series[place]},
                marker={"size": 7, "symbol": symbol, "color": colors.series[place]},
                opacity=1.0 if inside else 0.35,
                name=legend_name(name),
                showlegend=inside or not fits.any(),
                customdata=np.column_stack([mine["step_s"] * 1e3, mine["batch_size"]]),
                hovertemplate=(
                    f"<b>batch size %{{customdata[1]:,}}</b><br>%{{y:,.3r}}\u00a0tokens/s {name}<br>"
                    "%{customdata[0]:,.3r}\u00a0ms per step<extra></extra>"
                ),
            )


def _add_marks(
    figure: go.Figure,
    free_until: float | None,
    wall: float | None,
    x_range: tuple[float, float],
    y_range: tuple[float, float],
    dark: bool,
) -> None:
    """A vertical line at each batch size inside the range, labeled at the bottom; the second label is a line higher."""
    colors = palette(dark)
    marks = [("free until", free_until, colors.decode), ("memory limit", wall, colors.dead)]
    for height, (text, size, color) in enumerate(marks):
        if size is None or not x_range[0] < size < x_range[1]:
            continue
        figure.add_shape(
            type="line", x0=size, x1=size, y0=y_range[0], y1=y_range[1], line={"width": 1.6, "color": color}
        )
        place = float(np.log(size / x_range[0]) / np.log(x_range[1] / x_range[0]))
        figure.add_annotation(
            label(
                f"{text} {counted(size)}",
                x=float(np.log10(size)),
                y=float(np.log10(y_range[0])),
                yshift=10 + 16 * height,
                xanchor="right" if place > 0.6 else "left",
                xshift=-5 if place > 0.6 else 5,
                font={"size": 12, "color": colors.text},
                bgcolor=f"{colors.surface}c0",
                borderpad=1,
            )
        )


def _add_reading(figure: go.Figure, rate: float, x_range: tuple[float, float], dark: bool) -> None:
    colors = palette(dark)
    line = {"width": 1.2, "dash": "dot", "color": colors.waiting}
    figure.add_shape(type="line", x0=x_range[0], x1=x_range[1], y0=rate, y1=rate, line=line, layer="below")
    figure.add_annotation(
        label(
            f"reading speed, {quantity(rate, 'tokens/s')}",
            x=float(np.log10(x_range[0])),
            y=float(np.log10(rate)),
            xshift=4,
            yshift=9,
            font={"size": 12, "color": colors.faint_text},
        )
    )


def sample_rows() -> pd.DataFrame:
    """A made-up GPU and model for the demo and the tests: 16 ms per step for the weights, plus 0.25 ms per request."""
    sizes = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256])
    step_s = 0.016 + 0.00025 * sizes
    return pd.DataFrame(
        {"batch_size": sizes, "step_s": step_s, "tokens_per_s": sizes / step_s, "tokens_per_s_per_request": 1 / step_s}
    )


if __name__ == "__main__":
    from pages.figures.demo import show

    drawn = [
        batch_trade(sample_rows(), free_until=64, wall=200, reading_tokens_per_s=5.3, dark=dark)
        for dark in (False, True)
    ]
    show(drawn)
