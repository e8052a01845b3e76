"""The pass trace: duration, rows and width of each forward pass, in three panels over one x axis.

Up to BARS passes are bars as wide as they lasted; more are marks; more than DENSE are drawn by WebGL and thinned,
keeping the longest and shortest of every stretch. A mixed pass decodes rows and prefills chunks of prompts. Above the
live rows are dead rows, hatched, and above those, rows whose prompt is not complete yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import duration, percent, plural
from pages.figures.colors import palette
from pages.figures.frames import records
from pages.figures.layout import axis, hatch, label, legend_above, legend_name, new_figure, note_figure, set_layout
from pages.figures.timeline.queue import NO_PASSES, changes_only
from pages.figures.timeline.spans import AXIS_TITLES, Unit

BARS = 600
DENSE = 4000
MAX_POINTS = 12_000
PANELS_PX = (170, 80, 80)
GAP_PX = 30
SYMBOLS = {"prefill": "diamond", "decode": "circle", "mixed": "square"}


def pass_trace(
    passes: pd.DataFrame,
    *,
    unit: Unit = "second",
    x_range: tuple[float, float] | None = None,
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """Draw the passes table: step, kind, start_s, end_s, rows, live_rows, width; chunked runs also have chunk_rows.

    `x_range` is in the unit drawn. A pass is drawn where it began. No passes give a figure with a note.
    """
    passes = passes.dropna(subset=["start_s", "end_s"]) if not passes.empty else passes
    if passes.empty:
        return note_figure(NO_PASSES, dark=dark, title=title)
    passes = placed(passes, unit)
    end = float(passes["x_end"].max())
    chunk_rows = _chunk_rows(passes)
    figure = _canvas(unit, x_range or (0.0, end or 1.0), bool(chunk_rows.any()), title, dark)
    for kind in SYMBOLS:
        mine = thinned(passes[passes["kind"] == kind], MAX_POINTS)
        if mine.empty and kind == "mixed":
            continue  # prefill and decode are in every legend, so the legends of two runs agree
        drawing = _bars(mine, kind, dark) if len(passes) <= BARS else _marks(mine, kind, len(passes), dark)
        _add_durations(figure, mine, kind, unit, drawing)
    _add_rows(figure, passes, chunk_rows, dark)
    _add_width(figure, passes, dark)
    return figure


def placed(passes: pd.DataFrame, unit: Unit) -> pd.DataFrame:
    """The passes in order, with x and x_end in the unit drawn and their duration in ms."""
    passes = passes.sort_values("start_s", ignore_index=True)
    passes = passes.assign(duration_ms=(passes["end_s"] - passes["start_s"]) * 1000.0)
    if unit == "second":
        return passes.assign(x=passes["start_s"], x_end=passes["end_s"])
    if {"start_step", "end_step"} <= set(passes.columns):  # a subset of the passes: the store has their steps
        return passes.assign(x=passes["start_step"], x_end=passes["end_step"])
    by_step = passes.groupby("step")["step"]
    size = by_step.transform("size")
    x = passes["step"] + by_step.cumcount() / size
    return passes.assign(x=x, x_end=x + 1 / size)


def _chunk_rows(passes: pd.DataFrame) -> pd.Series:
    """The rows of each pass whose prompt is not complete yet, so they yield no token; 0 where they were not logged."""
    if "chunk_rows" not in passes:
        return pd.Series(0.0, index=passes.index)
    return passes["chunk_rows"].astype(float).fillna(0.0)


def _canvas(unit: Unit, window: tuple[float, float], has_chunks: bool, title: str, dark: bool) -> go.Figure:
    inner_px = sum(PANELS_PX) + 2 * GAP_PX
    figure = new_figure(plot_px=inner_px, dark=dark, title=title, top=44, left=52)
    tops = np.cumsum([0, PANELS_PX[0] + GAP_PX, PANELS_PX[1] + GAP_PX])
    rows = "rows (hatched: dead; slate on top: prefill chunks)" if has_chunks else "rows (hatched: dead)"
    headings = ("pass time, ms", rows, "width, columns")
    colors = palette(dark)
    for number, (top, height, heading) in enumerate(zip(tops, PANELS_PX, headings, strict=True), start=1):
        low, high = 1 - (top + height) / inner_px, 1 - top / inner_px
        name = "yaxis" if number == 1 else f"yaxis{number}"
        panel = axis(dark, domain=[max(low, 0.0), high], anchor="x", rangemode="tozero", nticks=4, tickformat=",~r")
        set_layout(figure, **{name: panel})
        figure.add_annotation(
            label(
                heading,
                x=0,
                xref="paper",
                y=high,
                yref="paper",
                yanchor="bottom",
                font={"size": 12, "color": colors.faint_text},
            )
        )
    set_layout(
        figure,
        dragmode="zoom",
        showlegend=True,
        legend=legend_above(gap_px=20, plot_px=inner_px),
        barmode="overlay",
        xaxis=axis(dark, title=AXIS_TITLES[unit], range=list(window), anchor="y3"),
    )
    return figure


def _bars(mine: pd.DataFrame, kind: str, dark: bool) -> go.Bar:
    """A bar per pass, as wide as the pass lasted."""
    width = (mine["x_end"] - mine["x"]).to_numpy(dtype=float)
    marker = {"color": palette(dark).pass_kind(kind), "line": {"width": 0}}
    return go.Bar(x=mine["x"].to_numpy(dtype=float) + width / 2, width=width * 0.94, marker=marker)


def _marks(mine: pd.DataFrame, kind: str, num_passes: int, dark: bool) -> go.Scatter | go.Scattergl:
    """A mark where each pass began; the shape is the kind."""
    is_dense = num_passes > DENSE
    draw = go.Scattergl if is_dense else go.Scatter
    marker = {
        "symbol": SYMBOLS[kind],
        "size": (6 if is_dense else 7) - (kind == "decode") * 2,
        "color": palette(dark).pass_kind(kind),
        "opacity": 0.7,
    }
    return draw(x=mine["x"].to_numpy(dtype=float), mode="markers", marker=marker)


def _add_durations(
    figure: go.Figure, mine: pd.DataFrame, kind: str, unit: Unit, drawing: go.Bar | go.Scatter | go.Scattergl
) -> None:
    """Set the heights, name and hover text of a trace and add it to the first panel."""
    at = "step %{customdata[2]:,}" if unit == "step" else "%{customdata[2]:,.3r}\u00a0s"
    places = mine["step"] if unit == "step" else mine["start_s"].round(6)
    drawing.update(
        y=mine["duration_ms"].to_numpy(dtype=float),
        name=legend_name(f"{kind} pass"),
        customdata=np.column_stack([mine["rows"], mine["width"], places]),
        hovertemplate=(
            f"<b>{kind} pass</b> at {at}<br>%{{y:,.3r}}\u00a0ms<br>"
            "%{customdata[0]:,} rows, %{customdata[1]:,} columns<extra></extra>"
        ),
    )
    figure.add_trace(drawing)


def thinned(passes: pd.DataFrame, max_points: int) -> pd.DataFrame:
    """At most `max_points` passes: the longest and the shortest of each stretch, so no spike is lost."""
    if len(passes) <= max_points:
        return passes
    stretch = pd.Series(np.arange(len(passes)) * (max_points // 2) // len(passes), index=passes.index)
    by_stretch = passes["duration_ms"].groupby(stretch)
    kept = np.unique(np.concatenate([by_stretch.idxmin().to_numpy(), by_stretch.idxmax().to_numpy()]))
    return passes.loc[kept]


def _add_rows(figure: go.Figure, passes: pd.DataFrame, chunk_rows: pd.Series, dark: bool) -> None:
    """The live rows of each kind of pass as areas; above them dead rows, hatched, then rows of unfinished prompts."""
    colors = palette(dark)
    x = np.append(passes["x"].to_numpy(dtype=float), passes["x_end"].iloc[-1])
    of_kind = {kind: passes["live_rows"].where(passes["kind"] == kind, 0) for kind in ("mixed", "prefill")}
    layers = (
        ("decode", passes["live_rows"], "tozeroy", "%{y:,.0f} live rows"),
        ("dead", passes["rows"], "tonexty", "%{y:,.0f} rows that yield a token"),
        ("prefill", passes["rows"] + chunk_rows if chunk_rows.any() else None, "tonexty", "%{y:,.0f} rows, total"),
        ("mixed", of_kind["mixed"] if of_kind["mixed"].any() else None, "tozeroy", ""),
        ("prefill", of_kind["prefill"], "tozeroy", ""),
    )
    for phase, counts, fill, hover in layers:
        if counts is None:
            continue
        points = changes_only(x, _step_values(counts))
        figure.add_scatter(
            x=points[0],
            y=points[1],
            yaxis="y2",
            mode="lines",
            line={"shape": "hv", "width": 0},
            fill=fill,
            fillcolor=colors.pass_kind(phase),
            fillpattern=dict(hatch(dark)) if phase == "dead" else None,
            name=f"{phase} rows",
            showlegend=False,
            hovertemplate=f"{hover}<extra></extra>" if hover else None,
            hoverinfo=None if hover else "skip",
        )


def _step_values(counts: pd.Series) -> np.ndarray:
    """The y values of a step line: the counts, with the last one repeated at the end of its pass."""
    values = counts.to_numpy(dtype=float)
    return np.append(values, values[-1])


def _add_width(figure: go.Figure, passes: pd.DataFrame, dark: bool) -> None:
    colors = palette(dark)
    x = np.append(passes["x"].to_numpy(dtype=float), passes["x_end"].iloc[-1])
    points = changes_only(x, _step_values(passes["width"]))
    figure.add_scatter(
        x=points[0],
        y=points[1],
        yaxis="y3",
        mode="lines",
        line={"shape": "hv", "width": 1.6, "color": colors.series[0]},
        name="width",
        showlegend=False,
        hovertemplate="%{y:,.0f} columns wide<extra></extra>",
    )


def pass_kinds_caption(kinds: pd.DataFrame) -> str:
    """The prefill share of the time, and the median and longest decode pass, from a row per kind of pass.

    Columns: kind, passes, seconds, median_s, longest_s.
    """
    if kinds.empty:
        return NO_PASSES
    by_kind = {str(row["kind"]): row for row in records(kinds)}
    total_s = float(kinds["seconds"].sum())
    shares = [_time_share(by_kind.get("prefill"), "prefill", total_s)]
    shares += [_time_share(by_kind["mixed"], "mixed", total_s)] if "mixed" in by_kind else []
    passes = plural(int(kinds["passes"].sum()), "forward pass", "forward passes")
    text = f"{passes} took {duration(total_s)}, {' and '.join(shares)}"
    decode = by_kind.get("decode")
    if decode is None:
        return f"{text}; no decode pass ran."
    return (
        f"{text}; decode passes took {duration(float(decode['median_s']))} (median) "
        f"and at most {duration(float(decode['longest_s']))}."
    )


def _time_share(row: Mapping[str, Any] | None, kind: str, total_s: float) -> str:
    """`40.0 % in 1 prefill pass`."""
    passes, seconds = (0, 0.0) if row is None else (int(row["passes"]), float(row["seconds"]))
    share = percent(seconds / total_s) if total_s > 0 else percent(0)
    return f"{share} in {plural(passes, f'{kind} pass', f'{kind} passes')}"


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sample import sample_run

    show([pass_trace(sample_run(name).passes, title=name, dark=name == "static") for name in ("static", "continuous")])
