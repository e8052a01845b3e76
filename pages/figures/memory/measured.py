"""What runs were measured to hold at most, over what was estimated for them: a point a run, and the line of no error.

A point above the line held more than the estimate counts. On a CPU that is the process itself, so that points lie along
a line of their own, as far above as Python and torch are large.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import change, size
from engine.core.units import GIB
from pages.figures.colors import palette, series_styles
from pages.figures.layout import axis, label, legend_above, legend_name, new_figure, note_figure, set_layout

PLOT_PX = 280
TOP_PX = 46  # a heading and a line of the legend; where its names need more, the plot gives way
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star")


def memory_measured(rows: pd.DataFrame, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw rows (engine, run, predicted_bytes, measured_bytes, words: what the run was), a point each."""
    if rows.empty:
        return note_figure("No run to set beside the estimate.", dark=dark, title=title)
    figure = new_figure(plot_px=PLOT_PX, dark=dark, title=title, top=TOP_PX, left=52, right=14)
    top = float(rows[["predicted_bytes", "measured_bytes"]].to_numpy(dtype=float).max()) / GIB * 1.08
    figure.add_scatter(
        x=[0, top],
        y=[0, top],
        mode="lines",
        line={"width": 1.4, "dash": "dash", "color": palette(dark).faint_text},
        name=legend_name("as estimated"),
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
            hovertext=[_hover(row) for row in mine.to_dict("records")],
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


def _hover(row: dict[str, object]) -> str:
    predicted, measured = (float(str(row[name])) for name in ("predicted_bytes", "measured_bytes"))
    return (
        f"<b>{row['run']}</b>, {row['words']}<br>estimated {size(predicted)}, "
        f"measured {size(measured)} ({change(measured / predicted - 1)})"
    )


if __name__ == "__main__":
    from pages.figures.demo import show

    sizes = np.array([3.4, 4.2, 6.0, 9.3]) * GIB
    sample = pd.DataFrame(
        {
            "engine": ["static", "static", "continuous", "continuous"],
            "run": list("abcd"),
            "words": "p256, 32 rows",
            "predicted_bytes": sizes,
            "measured_bytes": sizes * 1.06,
        }
    )
    show([memory_measured(sample, dark=dark) for dark in (False, True)])
