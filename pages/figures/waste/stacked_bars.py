"""Stacked bars in groups: each run's useful and wasted parts, one group per breakdown. Shared by waste and kv_layouts.

A part's bar begins where the parts before it end. Lengths are shares of `scale`: the run's own whole, or the largest
whole of the group where lengths of different runs are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import exact
from pages.figures.layout import axis, label, legend_above, legend_name, new_figure, set_layout
from pages.figures.waste.breakdowns import PART_LABELS, part_marker

TICKS = (0, 0.25, 0.5, 0.75, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BarSizes:
    """Heights in pixels: a bar, its row including the text above it, a heading, the gap between groups."""

    bar_px: int
    row_px: int
    heading_px: int
    gap_px: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BarPositions:
    """Pixels from the top to the middle of each bar, by (heading, series), and of each heading; the total height."""

    bars: Mapping[tuple[str, str], float]
    headings: Mapping[str, float]
    plot_px: int


def bar_positions(parts: pd.DataFrame, sizes: BarSizes) -> BarPositions:
    """Positions for the rows of breakdown_shares, in their order."""
    bars: dict[tuple[str, str], float] = {}
    headings: dict[str, float] = {}
    y = 0.0
    for heading, group in parts.groupby("heading", sort=False):
        headings[str(heading)] = y + sizes.heading_px / 2 + 2
        y += sizes.heading_px
        for series in dict.fromkeys(group["series"]):
            bars[str(heading), str(series)] = y + sizes.row_px - sizes.bar_px / 2 - 4
            y += sizes.row_px
        y += sizes.gap_px
    return BarPositions(bars=bars, headings=headings, plot_px=round(y) + 2)


def stacked_bars(
    parts: pd.DataFrame,
    positions: BarPositions,
    sizes: BarSizes,
    *,
    labels: Mapping[str, str],
    unlisted: str,
    zero: str,
    axis_title: str,
    top_px: int,
    title: str,
    dark: bool,
) -> go.Figure:
    """Bars and headings of `parts` (breakdown_shares with `scale` and `hover`), without the text above the bars.

    `labels` names the parts; `unlisted` is a part that looks like another and is left out of the legend; `zero` is the
    tick text at 0.
    """
    figure = new_figure(plot_px=positions.plot_px, dark=dark, title=title, top=top_px, left=14, right=18)
    for part in PART_LABELS:
        mine = parts[parts["part"] == part]
        if mine.empty:
            continue
        figure.add_bar(
            name=legend_name(labels[part]),
            showlegend=part != unlisted,
            orientation="h",
            base=(mine["before"] * (mine["whole"] / mine["scale"])).to_numpy(),
            x=(mine["share"] * (mine["whole"] / mine["scale"])).to_numpy(),
            y=[positions.bars[key] for key in zip(mine["heading"], mine["series"], strict=True)],
            width=sizes.bar_px,
            marker=part_marker(part, dark),
            hovertext=mine["hover"].tolist(),
            hovertemplate="%{hovertext}<extra></extra>",
        )
    for heading, y in positions.headings.items():
        figure.add_annotation(label(f"<b>{heading}</b>", x=0, xref="paper", y=y, font={"size": 13}))
    set_layout(
        figure,
        barmode="overlay",
        showlegend=True,
        legend=legend_above(gap_px=4, plot_px=positions.plot_px),
        xaxis=_share_axis(zero, axis_title, dark),
        yaxis=axis(dark, range=[positions.plot_px, 0], visible=False, fixedrange=True),
    )
    return figure


def _share_axis(zero: str, title: str, dark: bool) -> dict[str, Any]:
    texts = [zero, *(exact(100 * tick, "%") for tick in TICKS[1:])]
    return axis(dark, range=[0, 1], tickvals=list(TICKS), ticktext=texts, fixedrange=True, title=title)
