"""The pass trace: how long each forward pass took, how many rows it ran and how wide it was, one under the other.

All three share the x axis. A row between the live ones and the top is dead: hatched red. Runs of more than DENSE passes
are thinned, keeping the longest and shortest pass of every stretch, and drawn by WebGL.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pages.figures.colours import palette
from pages.figures.layout import axis, hatch, label, legend_above, legend_name, new_figure, note_figure
from pages.figures.queue import changes_only
from pages.figures.spans import Unit

DENSE = 4000
MAX_POINTS = 12_000
PANELS_PX = (170, 80, 80)
GAP_PX = 30
SYMBOLS = {"prefill": "diamond", "decode": "circle"}


def pass_trace(
    passes: pd.DataFrame,
    *,
    unit: Unit = "second",
    x_range: tuple[float, float] | None = None,
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """Draw the passes table: step, kind, start_s, end_s, rows, live_rows, width. `x_range` is in the unit drawn.

    A pass stands where it began. No passes give a figure with a note.
    """
    passes = passes.dropna(subset=["start_s", "end_s"]) if not passes.empty else passes
    if passes.empty:
        return note_figure("No pass has run yet.", dark=dark, title=title)
    passes = _placed(passes, unit)
    end = float(passes["x_end"].max())
    figure = _canvas(unit, x_range or (0.0, end or 1.0), title, dark)
    _add_durations(figure, passes, unit, dark)
    _add_rows(figure, passes, dark)
    _add_width(figure, passes, dark)
    return figure


def _placed(passes: pd.DataFrame, unit: Unit) -> pd.DataFrame:
    """The passes in order, with x and x_end in the unit drawn and their duration in ms."""
    passes = passes.sort_values("start_s", ignore_index=True)
    passes = passes.assign(duration_ms=(passes["end_s"] - passes["start_s"]) * 1000.0)
    if unit == "second":
        return passes.assign(x=passes["start_s"], x_end=passes["end_s"])
    by_step = passes.groupby("step")["step"]
    size = by_step.transform("size")
    x = passes["step"] + by_step.cumcount() / size
    return passes.assign(x=x, x_end=x + 1 / size)


def _canvas(unit: Unit, window: tuple[float, float], title: str, dark: bool) -> go.Figure:
    inner_px = sum(PANELS_PX) + 2 * GAP_PX
    figure = new_figure(plot_px=inner_px, dark=dark, title=title, top=44, left=52)
    tops = np.cumsum([0, PANELS_PX[0] + GAP_PX, PANELS_PX[1] + GAP_PX])
    headings = ("time of a pass, ms", "rows in a pass", "width of a pass, columns")
    colours = palette(dark)
    for number, (top, height, heading) in enumerate(zip(tops, PANELS_PX, headings, strict=True), start=1):
        low, high = 1 - (top + height) / inner_px, 1 - top / inner_px
        name = "yaxis" if number == 1 else f"yaxis{number}"
        figure.update_layout(
            {name: axis(dark, domain=[max(low, 0.0), high], anchor="x", rangemode="tozero", nticks=5, tickformat=",~r")}
        )
        figure.add_annotation(
            label(
                heading,
                x=0,
                xref="paper",
                y=high,
                yref="paper",
                yanchor="bottom",
                font={"size": 12, "color": colours.faint_text},
            )
        )
    figure.update_layout(
        dragmode="zoom",
        showlegend=True,
        legend=legend_above(gap_px=20, plot_px=inner_px),
        xaxis=axis(
            dark, title="step" if unit == "step" else "seconds", range=list(window), anchor="y3", nticks=12
        ),
    )
    return figure


def _add_durations(figure: go.Figure, passes: pd.DataFrame, unit: Unit, dark: bool) -> None:
    """One mark a pass, of a colour and a shape for its kind."""
    colours = palette(dark)
    at = "step %{x:.0f}" if unit == "step" else "%{x:.3~r} s"
    is_dense = len(passes) > DENSE
    draw = figure.add_scattergl if is_dense else figure.add_scatter
    for kind, symbol in SYMBOLS.items():
        mine = thinned(passes[passes["kind"] == kind], MAX_POINTS)
        draw(
            x=mine["x"].to_numpy(),
            y=mine["duration_ms"].to_numpy(),
            mode="markers",
            marker={
                "symbol": symbol,
                "size": 4 if is_dense else 7,
                "color": colours.phase(kind),
                "opacity": 0.7 if is_dense else 1,
                "line": {"width": 0 if len(passes) > 300 else 1, "color": colours.surface},
            },
            name=legend_name(f"{kind} pass"),
            customdata=mine[["rows", "width"]].to_numpy(),
            hovertemplate=(
                f"<b>{kind} pass</b> at {at}<br>%{{y:.3~r}} ms<br>"
                "%{customdata[0]:,} rows, %{customdata[1]:,} columns<extra></extra>"
            ),
        )


def thinned(passes: pd.DataFrame, max_points: int) -> pd.DataFrame:
    """At most `max_points` passes: the longest and the shortest of each stretch, so that no spike is lost."""
    if len(passes) <= max_points:
        return passes
    stretch = pd.Series(np.arange(len(passes)) * (max_points // 2) // len(passes), index=passes.index)
    by_stretch = passes["duration_ms"].groupby(stretch)
    kept = np.unique(np.concatenate([by_stretch.idxmin().to_numpy(), by_stretch.idxmax().to_numpy()]))
    return passes.loc[kept]


def _add_rows(figure: go.Figure, passes: pd.DataFrame, dark: bool) -> None:
    """Live rows as a green area, and what is dead above them in hatched red."""
    colours = palette(dark)
    x = np.append(passes["x"].to_numpy(dtype=float), passes["x_end"].iloc[-1])
    live, rows = (_held(passes[name]) for name in ("live_rows", "rows"))
    has_dead = bool((rows > live).any())
    for name, y, phase in (("live", live, "decode"), ("dead", rows, "dead")):
        if phase == "dead" and not has_dead:
            continue
        points = changes_only(x, y)
        figure.add_scatter(
            x=points[0],
            y=points[1],
            yaxis="y2",
            mode="lines",
            line={"shape": "hv", "width": 1, "color": colours.phase(phase)},
            fill="tozeroy" if phase == "decode" else "tonexty",
            fillcolor=colours.phase(phase),
            fillpattern=dict(hatch(dark)) if phase == "dead" else None,
            name=legend_name(f"{name} rows"),
            hovertemplate="%{y:,.0f} live rows<extra></extra>" if name == "live" else "%{y:,.0f} rows<extra></extra>",
        )


def _held(counts: pd.Series) -> np.ndarray:
    """The counts, the last of them held to the end of its pass."""
    values = counts.to_numpy(dtype=float)
    return np.append(values, values[-1])


def _add_width(figure: go.Figure, passes: pd.DataFrame, dark: bool) -> None:
    colours = palette(dark)
    x = np.append(passes["x"].to_numpy(dtype=float), passes["x_end"].iloc[-1])
    points = changes_only(x, _held(passes["width"]))
    figure.add_scatter(
        x=points[0],
        y=points[1],
        yaxis="y3",
        mode="lines",
        line={"shape": "hv", "width": 1.6, "color": colours.series[0]},
        name="width",
        showlegend=False,
        hovertemplate="%{y:,.0f} columns wide<extra></extra>",
    )


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sample import sample_run

    show([pass_trace(sample_run(name).passes, title=name, dark=name == "static") for name in ("static", "continuous")])
