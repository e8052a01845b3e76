"""Estimated memory by batch size, stacked by term, against the capacity.

Terms are stacked in the order of allocation, so a bar crosses the capacity line in the term that fails. That term and
those above it are hatched, because their allocation fails. A bar that is far too tall is cut by a zig-zag, with its
total above. The bars are estimates; diamonds are the measured peaks of real runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import number, size
from engine.core.units import GIB
from engine.memory.memory_model import TERM_LABELS
from pages.figures.colors import palette
from pages.figures.frames import records
from pages.figures.layout import axis, label, legend_above, legend_name, literal, new_figure, note_figure, set_layout

PLOT_PX = 320
TOP_PX = 46  # a heading and a legend line; a longer legend shrinks the plot
BAR = 0.72
CUT = 1.45  # the highest end of the axis, as a multiple of the capacity
BREAK_AT, BREAK_TOOTH, BREAK_TEETH = 0.93, 0.012, 4  # zig-zag of a cut bar: shares of the plot's height, and a count
FAR = 0.25  # of the capacity: where every bar is lower, the capacity line is left out
TERMS = {
    "weights_bytes": "weights",
    "kv_bytes": "KV cache",
    "mlp_activation_bytes": "MLP activation",
    "logits_bytes": "logits",
    "logits_fp32_bytes": "fp32 copy",
}
# the column of the term that fails; with a cap on the KV pool it is the KV cache
COLUMN_OF = {"weights": "weights_bytes", "kv_cache": "kv_bytes", "kv_pool": "kv_bytes"} | {
    name.removesuffix("_bytes"): name for name in ("mlp_activation_bytes", "logits_bytes", "logits_fp32_bytes")
}
NOT_FITTING = "hatched: does not fit"
NO_MEASURED = pd.DataFrame({"batch_size": [], "measured_bytes": [], "run": []})


def memory_bars(
    points: pd.DataFrame,
    *,
    capacity_bytes: float,
    capacity_name: str = "capacity",
    measured: pd.DataFrame = NO_MEASURED,
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """Draw points of one prompt length, a bar per batch size.

    Columns: batch_size, the terms of TERMS, total_bytes, fits, and where it does not fit failing_term, asked_bytes and
    free_bytes. `measured` has a row per run: batch_size, measured_bytes and `run`, its name.
    """
    if points.empty:
        return note_figure("No batch size to draw.", dark=dark, title=title)
    points = points.sort_values("batch_size", ignore_index=True)
    top_bytes = _top(points, capacity_bytes, measured)
    figure = new_figure(plot_px=PLOT_PX, dark=dark, title=title, top=TOP_PX, left=44, right=8)
    _add_terms(figure, points, top_bytes, dark)
    _add_legend_of_hatching(figure, points, dark)
    _add_totals(figure, points, measured, top_bytes, dark)
    _add_capacity(figure, capacity_bytes, capacity_name, top_bytes, len(points), dark)
    _add_measured(figure, points, measured, top_bytes, dark)
    _add_breaks(figure, points, top_bytes, dark)
    places = list(range(len(points)))
    set_layout(
        figure,
        barmode="overlay",
        showlegend=True,
        legend=legend_above(gap_px=24, plot_px=PLOT_PX),
        xaxis=axis(
            dark,
            title="batch size",
            tickvals=places,
            ticktext=[f"{size:,.0f}" for size in points["batch_size"]],
            range=[-0.6, len(points) - 0.4],
            showgrid=False,
            fixedrange=True,
        ),
        yaxis=axis(dark, range=[0, top_bytes / GIB], fixedrange=True, rangemode="tozero"),
    )
    heading = {"x": 0, "xref": "paper", "y": 1, "yref": "paper", "xshift": -40, "yanchor": "bottom", "yshift": 4}
    figure.add_annotation(label("GiB", font={"size": 12, "color": palette(dark).faint_text}, **heading))
    return figure


def cut_sizes(points: pd.DataFrame, *, capacity_bytes: float, measured: pd.DataFrame = NO_MEASURED) -> list[int]:
    """The batch sizes whose bars `memory_bars` cuts."""
    top_bytes = _top(points, capacity_bytes, measured)
    return [int(size) for size in points.loc[points["total_bytes"] > top_bytes, "batch_size"]]


def _top(points: pd.DataFrame, capacity_bytes: float, measured: pd.DataFrame) -> float:
    """The end of the axis: above all bars and the capacity, but at most CUT times the capacity."""
    tallest = max(float(points["total_bytes"].max()), float(measured["measured_bytes"].max() if len(measured) else 0))
    if tallest < FAR * capacity_bytes:
        return tallest * 1.2
    return min(max(tallest, capacity_bytes) * 1.12, capacity_bytes * CUT)


def _add_terms(figure: go.Figure, points: pd.DataFrame, top_bytes: float, dark: bool) -> None:
    fills = term_colors(dark)
    below = np.zeros(len(points))
    hover = [_hover(row) for row in records(points)]
    hatched = np.zeros(len(points), dtype=bool)
    for column, name in TERMS.items():
        term_bytes = points[column].to_numpy(dtype=float)
        shown = np.clip(below + term_bytes, 0, top_bytes) - np.clip(below, 0, top_bytes)
        hatched |= fails_at(points, column)
        figure.add_bar(
            x=np.arange(len(points)),
            y=shown / GIB,
            base=np.clip(below, 0, top_bytes) / GIB,
            width=BAR,
            name=legend_name(name),
            showlegend=bool(term_bytes.any()),
            marker={
                "color": fills[column],
                "pattern": _hatching(["/" if each else "" for each in hatched], dark),
                "line": {"width": np.where(hatched, 1.5, 0), "color": fills[column]},
            },
            hovertext=hover,
            hovertemplate="%{hovertext}<extra></extra>",
        )
        below += term_bytes


def fails_at(points: pd.DataFrame, column: str) -> np.ndarray:
    """True for each batch whose allocation fails at this term."""
    if "failing_term" not in points:
        return np.zeros(len(points), dtype=bool)
    is_here = points["failing_term"].map(COLUMN_OF) == column
    return (is_here & ~points["fits"].astype(bool)).to_numpy()


def _hatching(shape: str | list[str], dark: bool) -> dict[str, object]:
    """Lines in the bar's color over the background."""
    return {"shape": shape, "fillmode": "replace", "bgcolor": palette(dark).surface, "size": 7, "solidity": 0.3}


def _add_legend_of_hatching(figure: go.Figure, points: pd.DataFrame, dark: bool) -> None:
    """A legend entry for hatching, if a bar has it."""
    if points["fits"].astype(bool).all():
        return
    color = palette(dark).faint_text
    marker = {"color": color, "pattern": _hatching("/", dark), "line": {"width": 1.5, "color": color}}
    figure.add_bar(x=[None], y=[None], name=legend_name(NOT_FITTING), marker=marker, hoverinfo="skip")


def term_colors(dark: bool) -> dict[str, str]:
    """The MLP activation has the color of prefill; the others have colors of runs, of which this figure has none."""
    colors = palette(dark)
    names = (colors.series[2], colors.series[0], colors.prefill, colors.series[1], colors.series[3])
    return dict(zip(TERMS, names, strict=True))


def _hover(row: dict[str, Any]) -> str:
    lines = [f"<b>batch size {row['batch_size']:,}: {size(row['total_bytes'])}</b>"]
    lines += [f"{name} {size(row[column])}" for column, name in TERMS.items()]
    if not row["fits"]:
        term = TERM_LABELS[str(row["failing_term"])]
        requested, free = size(row["asked_bytes"]), size(row["free_bytes"])
        lines.append(f"does not fit: {term} needs {requested} in one allocation, {free} free")
    return "<br>".join(lines)


def _add_totals(figure: go.Figure, points: pd.DataFrame, measured: pd.DataFrame, top_bytes: float, dark: bool) -> None:
    """Each bar's total above it and above a run's diamond; for a cut bar, at the top of the plot."""
    colors = palette(dark)
    highest = measured.groupby("batch_size")["measured_bytes"].max().to_dict()
    for place, (batch_size, total) in enumerate(zip(points["batch_size"], points["total_bytes"], strict=True)):
        diamond = float(highest.get(batch_size, 0.0))
        figure.add_annotation(
            label(
                number(total / GIB),
                x=place,
                y=min(max(total, diamond), top_bytes) / GIB,
                yshift=7 if diamond > 0.9 * total else 0,
                xanchor="center",
                yanchor="bottom",
                font={"size": 11, "color": colors.text},
            )
        )


def _add_breaks(figure: go.Figure, points: pd.DataFrame, top_bytes: float, dark: bool) -> None:
    """A zig-zag in the background color, with edges, across each bar that is cut."""
    colors = palette(dark)
    middle, tooth = BREAK_AT * top_bytes / GIB, BREAK_TOOTH * top_bytes / GIB
    for place in points.index[points["total_bytes"] > top_bytes]:
        across = np.linspace(place - BAR / 2 - 0.03, place + BAR / 2 + 0.03, 2 * BREAK_TEETH + 1)
        edge = [tooth * (-1) ** number for number in range(len(across))]
        lower = [f"{x:.4f},{middle + up - tooth:.6g}" for x, up in zip(across, edge, strict=True)]
        upper = [f"{x:.4f},{middle + up + tooth:.6g}" for x, up in zip(across, edge, strict=True)]
        band = "M" + "L".join([*lower, *reversed(upper)]) + "Z"
        figure.add_shape(type="path", path=band, fillcolor=colors.surface, line={"width": 0}, layer="above")
        for line in (lower, upper):
            stroke = {"color": colors.text, "width": 1}
            figure.add_shape(type="path", path="M" + "L".join(line), line=stroke, layer="above")


def _add_capacity(figure: go.Figure, capacity_bytes: float, name: str, top_bytes: float, bars: int, dark: bool) -> None:
    colors = palette(dark)
    text = f"{name}, {size(capacity_bytes)}"
    font = {"size": 12, "color": colors.text}
    if capacity_bytes > top_bytes:
        figure.add_annotation(label(f"{text}: above this axis", x=-0.55, y=top_bytes / GIB, yanchor="top", font=font))
        return
    figure.add_scatter(
        x=[-0.6, bars - 0.4],
        y=[capacity_bytes / GIB] * 2,
        mode="lines",
        line={"width": 2, "dash": "dash", "color": colors.text},
        showlegend=False,
        hoverinfo="skip",
    )
    figure.add_annotation(label(text, x=-0.55, y=capacity_bytes / GIB, yanchor="bottom", font=font))


def _add_measured(
    figure: go.Figure, points: pd.DataFrame, measured: pd.DataFrame, top_bytes: float, dark: bool
) -> None:
    colors = palette(dark)
    place_of = {int(size): place for place, size in enumerate(points["batch_size"])}
    known = measured[measured["batch_size"].isin(list(place_of))]
    if known.empty:
        return
    figure.add_scatter(
        x=[place_of[int(size)] for size in known["batch_size"]],
        y=np.minimum(known["measured_bytes"].to_numpy(dtype=float), top_bytes) / GIB,
        customdata=known["measured_bytes"].to_numpy(dtype=float) / GIB,
        mode="markers",
        cliponaxis=False,
        marker={
            "symbol": "diamond",
            "size": 11,
            "color": colors.waiting,
            "line": {"width": 1.5, "color": colors.text},
        },
        name=legend_name("measured"),
        hovertext=_run_names(known["run"].tolist()),
        hovertemplate="<b>%{hovertext}</b><br>measured %{customdata:,.3r}\u00a0GiB<extra></extra>",
    )


def _run_names(names: Sequence[object]) -> list[str]:
    return [f"run {literal(str(name))}" for name in names]


def sample_points(capacity_bytes: float) -> pd.DataFrame:
    """A sample for demos and tests: 1.5 B parameters in fp16, prompts of 1,024 and 256 output tokens."""
    rows = []
    for batch_size in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
        piece = batch_size * 1024 * 8960 * 2
        held = 3_087_428_608 + batch_size * 1280 * 28_672
        logits = batch_size * 151_936
        terms = (3_087_428_608, batch_size * 1280 * 28_672, 3 * piece, logits * 2, logits * 4)
        taken = [held + number * piece for number in range(3) if held + (number + 1) * piece > capacity_bytes]
        fits = sum(terms) <= capacity_bytes
        rows.append(
            {"batch_size": batch_size, **dict(zip(TERMS, terms, strict=True)), "total_bytes": sum(terms), "fits": fits}
            | ({} if fits else {"failing_term": "mlp_activation", "asked_bytes": piece})
            | ({} if fits else {"free_bytes": capacity_bytes - taken[0]})
        )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    from pages.figures.demo import show

    a10 = 22.06 * GIB
    ran = pd.DataFrame({"batch_size": [32, 128], "measured_bytes": [6.1 * GIB, 14.6 * GIB], "run": ["one", "two"]})
    show(
        [
            memory_bars(sample_points(a10), capacity_bytes=a10, capacity_name="NVIDIA A10", measured=ran, dark=dark)
            for dark in (False, True)
        ]
    )
