"""The queue over time at one rate: all engines on the same axes, with the steady window of each shaded.

Left of a window is the ramp-up, right of it the tail. Rates are counted only inside.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import duration
from pages.figures.colors import series_styles, translucent
from pages.figures.frames import records
from pages.figures.layout import label
from pages.figures.timeline.queue import queue_depth

WINDOWS_PX = 70  # additional height for the windows' bars
BAR = 0.085  # a window's bar, as a share of the plot's height
HEADROOM = 0.03


def queue_with_windows(queue: pd.DataFrame, windows: pd.DataFrame, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw queues (series, time_s, queue_depth) and windows (series, begin_s, end_s; a series may have none)."""
    figure = queue_depth(queue, unit="second", title=title, dark=dark)
    if queue.empty:
        return figure
    names = list(dict.fromkeys(queue["series"]))
    shown = windows[windows["series"].isin(names)]
    figure.layout.height += WINDOWS_PX
    styles = series_styles(names, dark)
    top = max(float(queue["queue_depth"].max()), 1.0)
    figure.update_yaxes(range=[0, top * 1.08 / (1 - HEADROOM - BAR * len(shown))])
    for place, row in enumerate(records(shown)):
        color = styles[str(row["series"])].color
        begin_s, end_s = float(row["begin_s"]), float(row["end_s"])
        upper = 1 - HEADROOM / 2 - place * BAR
        shared = {"type": "rect", "x0": begin_s, "x1": end_s, "yref": "y domain", "layer": "below"}
        figure.add_shape(y0=0, y1=upper, fillcolor=translucent(color, 0.07), line={"width": 0}, **shared)
        edge = {"width": 1, "color": color}
        figure.add_shape(y0=upper - 0.8 * BAR, y1=upper, fillcolor=translucent(color, 0.22), line=edge, **shared)
        is_late = begin_s > 0.6 * float(queue["time_s"].max())
        figure.add_annotation(
            label(
                f"{row['series']}: steady window, {duration(end_s - begin_s)}",
                x=end_s if is_late else begin_s,
                xanchor="right" if is_late else "left",
                xshift=-4 if is_late else 4,
                y=upper - 0.4 * BAR,
                yref="y domain",
                font={"size": 11, "color": color},
            )
        )
    return figure


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.load.sample import sample_queues

    queue, windows = sample_queues()
    show([queue_with_windows(queue, windows, dark=dark) for dark in (False, True)])
