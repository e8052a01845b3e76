"""The number of waiting requests over steps or seconds: the thin strip above a timeline, and a separate figure."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import count, number
from pages.figures.colors import palette, series_styles, translucent
from pages.figures.layout import axis, legend_above, legend_name, literal, new_figure, note_figure
from pages.figures.timeline.spans import AXIS_TITLES, Unit, point_column

MAX_POINTS = 4000
PLOT_PX = 150
FEW_WAITING = 5
NO_PASSES = "No pass has run yet."


def queue_from_passes(passes: pd.DataFrame) -> pd.DataFrame:
    """The queue at the start of each pass and at the end of the last: columns step, time_s, queue_depth.

    Takes the passes table (step, start_s, end_s, queue_depth). `step` is a position: the second of two passes in step 7
    begins at 7.5, where its spans begin too.
    """
    if passes.empty:
        return pd.DataFrame({"step": [], "time_s": [], "queue_depth": []}, dtype=float)
    passes = passes.sort_values("start_s", ignore_index=True)
    queue = pd.DataFrame(
        {
            "step": passes["start_step"] if "start_step" in passes else start_steps(passes),
            "time_s": passes["start_s"],
            "queue_depth": passes["queue_depth"].astype(float),
        }
    )
    last = passes.iloc[-1]
    end_s = last["start_s"] if pd.isna(last["end_s"]) else last["end_s"]
    end = pd.DataFrame({"step": [last["step"] + 1.0], "time_s": [end_s], "queue_depth": [float(last["queue_depth"])]})
    return pd.concat([queue, end], ignore_index=True)


def start_steps(passes: pd.DataFrame) -> pd.Series:
    """Where each pass begins, in steps: the second of two passes of step 7 at 7.5."""
    by_step = passes.groupby("step")["step"]
    return passes["step"] + by_step.cumcount() / by_step.transform("size")


def changes_only(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points where a step line changes, and its last point: the same line from fewer points.

    More than MAX_POINTS of them are thinned to the highest and lowest of each of MAX_POINTS / 2 stretches.
    """
    if len(x) == 0:
        return x, y
    keep = np.concatenate([[True], y[1:] != y[:-1]])
    keep[-1] = True
    x, y = x[keep], y[keep]
    if len(x) <= MAX_POINTS:
        return x, y
    stretches = np.array_split(np.arange(len(x)), MAX_POINTS // 2 - 1)
    extremes = [s[[int(np.argmin(y[s])), int(np.argmax(y[s]))]] for s in stretches]
    kept = np.unique(np.concatenate([[0], *extremes, [len(x) - 1]]))
    return x[kept], y[kept]


def add_queue_strip(
    figure: go.Figure, queue: pd.DataFrame, *, unit: Unit, window: tuple[float, float], dark: bool
) -> None:
    """Fill the strip above a timeline (its second y axis) in amber. The axis shows 0 and the window's deepest queue."""
    x = queue[point_column(unit)]
    begun = max(float(x[x <= window[0]].max()), float(x.min())) if (x <= window[0]).any() else float(x.min())
    inside = queue[(x >= begun) & (x <= window[1])]
    deepest = _add_area(figure, inside, unit, dark, yaxis="y2")
    top = max(deepest, 1.0)
    figure.update_layout(
        yaxis2={
            "range": [0, top * 1.08],
            "tickvals": [0, top] if deepest else [0],
            "ticktext": ["0", _short_count(top)] if deepest else ["0"],
            "tickfont": {"size": 11},
        }
    )


def _short_count(depth: float) -> str:
    """A count that fits beside a narrow strip: 1,765 in full, 12,345 as 12.3 k."""
    return count(depth) if depth < 10_000 else f"{number(depth / 1000)} k"


def _add_area(figure: go.Figure, queue: pd.DataFrame, unit: Unit, dark: bool, yaxis: str) -> float:
    """Add the queue as a filled area and return its greatest depth."""
    colors = palette(dark)
    x = queue[point_column(unit)].to_numpy(dtype=float)
    x, depth = changes_only(x, queue["queue_depth"].to_numpy(dtype=float))
    figure.add_scatter(
        x=x,
        y=depth,
        yaxis=yaxis,
        mode="lines",
        line={"shape": "hv", "width": 1.2, "color": colors.waiting},
        fill="tozeroy",
        fillcolor=translucent(colors.waiting, 0.35),
        name="waiting",
        showlegend=False,
        hovertemplate="%{y:,.0f} waiting<extra></extra>",
    )
    return float(np.nanmax(depth)) if len(depth) else 0.0


def queue_depth(
    queue: pd.DataFrame,
    *,
    unit: Unit = "second",
    x_range: tuple[float, float] | None = None,
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """The queue over time (columns of queue_from_passes). With a column `series`, one line per run on the same axes."""
    queue = queue.dropna(subset=["queue_depth"]) if not queue.empty else queue
    if queue.empty:
        return note_figure(NO_PASSES, dark=dark, title=title)
    figure = new_figure(plot_px=PLOT_PX, dark=dark, title=title, top=28 if "series" in queue else 10, left=52)
    if "series" in queue:
        _add_lines(figure, queue, unit, dark)
    else:
        _add_area(figure, queue, unit, dark, yaxis="y")
    deepest = max(float(queue["queue_depth"].max()), 1.0)
    x = queue[point_column(unit)]
    figure.update_xaxes(axis(dark, title=AXIS_TITLES[unit], range=list(x_range or (0, float(x.max()) or 1.0))))
    steps = {"nticks": 5} if deepest > FEW_WAITING else {"dtick": 1}  # with so few, Plotly would label halves
    figure.update_yaxes(axis(dark, title="waiting requests", range=[0, deepest * 1.08], tickformat=",d", **steps))
    return figure


def _add_lines(figure: go.Figure, queue: pd.DataFrame, unit: Unit, dark: bool) -> None:
    names = list(dict.fromkeys(queue["series"]))
    styles = series_styles(names, dark)
    for name in names:
        mine = queue[queue["series"] == name]
        x = mine[point_column(unit)].to_numpy(dtype=float)
        x, depth = changes_only(x, mine["queue_depth"].to_numpy(dtype=float))
        style = styles[name]
        figure.add_scatter(
            x=x,
            y=depth,
            mode="lines",
            name=legend_name(name),
            line={"shape": "hv", "width": 2, "color": style.color, "dash": style.dash},
            hovertemplate=f"{literal(name)}: %{{y:,.0f}} waiting<extra></extra>",
        )
    figure.update_layout(showlegend=True, legend=legend_above(gap_px=4, plot_px=PLOT_PX, indent_px=-4))


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sample import sample_run

    frames = {name: queue_from_passes(sample_run(name).passes) for name in ("static", "continuous")}
    together = pd.concat([frame.assign(series=name) for name, frame in frames.items()])
    show([queue_depth(frames["static"]), queue_depth(together), queue_depth(together, dark=True)])
