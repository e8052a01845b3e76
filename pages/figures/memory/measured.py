"""Measured peak memory by estimated memory: a point per run, and the diagonal where both are equal.

A point above the diagonal used more than the estimate counts. On a CPU the whole process is measured, so points lie
above the diagonal by the size of Python and torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import change, size
from engine.core.units import GIB
from pages.figures.colors import palette, series_styles
from pages.figures.frames import records
from pages.figures.layout import axis, label, legend_above, legend_name, literal, new_figure, note_figure, set_layout

PLOT_PX = 280
TOP_PX = 46  # a heading and a legend line; a longer legend shrinks the plot
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star")


def memory_measured(rows: pd.DataFrame, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw rows (engine, run, predicted_bytes, measured_bytes, settings), a point each."""
    if rows.empty:
        return note_figure("No run to compare with the estimate.", dark=dark, title=title)
    figure = new_figure(plot_px=PLOT_PX, dark=dark, title=title, top=TOP_PX, left=52, right=14)
    top = float(rows[["predicted_bytes", "measured_bytes"]].to_numpy(dtype=float).max()) / GIB * 1.08
    figure.add_scatter(
        x=[0, top],
        y=[0, top],
        mode="lines",
        line={"width": 1.4, "dash": "dash", "color": palette(dark).faint_text},
        name=legend_name("measured = estimated"),
        hoverinfo="skip",
    )
    styles = series_styles(list(dict.fromkeys(rows["engine"])), dark)
    for place, (engine, mine) in enumerate(rows.groupby("engine", sort=False)):
        figure.add_scatter(
            x=mine["predicted_bytes"].to_numpy(dtype=float) / GIB,
            y=mine["measured_bytes"].to_numpy(dtype=float) / GIB,
            mode="markers",
            marker={"symbol": SYMBOLS[place % len(SYMBOLS)], "size": 9, "color": styles[str(engine)].color},
            name=legend_name(str(engine)),
            hovertext=[_hover(row) for row in records(mine)],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    set_layout(
        figure,
        showlegend=True,
        legend=legend_above(gap_px=24, plot_px=PLOT_PX),
        xaxis=axis(dark, title="estimated, GiB", range=[0, top], fixedrange=True),
        yaxis=axis(dark, range=[0, top], fixedrange=True),
    )
    heading = {"x": 0, "xref": "paper", "y": 1, "yref": "paper", "xshift": -48, "yanchor": "bottom", "yshift": 4}
    font = {"size": 12, "color": palette(dark).faint_text}
    figure.add_annotation(label("measured peak, GiB", font=font, **heading))
    return figure


def _hover(row: dict[str, Any]) -> str:
    predicted, measured = (float(row[name]) for name in ("predicted_bytes", "measured_bytes"))
    return (
        f"<b>{literal(str(row['run']))}</b>, {literal(str(row['settings']))}<br>estimated {size(predicted)}, "
        f"measured {size(measured)} ({change(measured / predicted - 1)})"
    )


if __name__ == "__main__":
    from pages.figures.demo import show

    sizes = np.array([3.4, 4.2, 6.0, 9.3]) * GIB
    sample = pd.DataFrame(
        {
            "engine": ["static", "static", "continuous", "continuous"],
            "run": list("abcd"),
            "settings": "p256, 32 rows",
            "predicted_bytes": sizes,
            "measured_bytes": sizes * 1.06,
        }
    )
    show([memory_measured(sample, dark=dark) for dark in (False, True)])
