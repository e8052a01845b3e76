"""Bars of parts in groups: how each run's whole falls into useful and wasted parts, a group a measure.

What waste.py and kv_layouts.py share: where bars and headings stand, and the bars themselves. A part's bar begins where
the parts before it end; lengths are shares of the scale, which is the whole itself unless bars of unequal wholes are
to be compared by their lengths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import exact
from pages.figures.layout import axis, label, legend_above, legend_name, new_figure, set_layout
from pages.figures.waste.measures import PART_WORDS, part_marker

TICKS = (0, 0.25, 0.5, 0.75, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BarSizes:
    """Pixels: of a bar, of its row with the words over it, of a heading, and between groups."""

    bar_px: int
    row_px: int
    heading_px: int
    gap_px: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Pixels from the top: the middle of each bar, by (heading, series), and of each heading; and the height of all."""

    bars: Mapping[tuple[str, str], float]
    headings: Mapping[str, float]
    plot_px: int


def places_of(parts: pd.DataFrame, sizes: BarSizes) -> Places:
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
    return Places(bars=bars, headings=headings, plot_px=round(y) + 2)


def part_bars(
    parts: pd.DataFrame,
    places: Places,
    sizes: BarSizes,
    *,
    words: Mapping[str, str],
    unlisted: str,
    zero: str,
    axis_title: str,
    top_px: int,
    title: str,
    dark: bool,
) -> go.Figure:
    """Bars and headings of `parts` (measures.ledger_shares, with `scale` and `hover`), without words over the bars.

    `words` name the parts; `unlisted` is one that looks as another does and is left out of the legend; `zero` is the
    word at the axis' beginning.
    """
    figure = new_figure(plot_px=places.plot_px, dark=dark, title=title, top=top_px, left=14, right=18)
    for part in PART_WORDS:
        mine = parts[parts["part"] == part]
        if mine.empty:
            continue
        figure.add_bar(
            name=legend_name(words[part]),
            showlegend=part != unlisted,
            orientation="h",
            base=(mine["before"] * (mine["whole"] / mine["scale"])).to_numpy(),
            x=(mine["share"] * (mine["whole"] / mine["scale"])).to_numpy(),
            y=[places.bars[key] for key in zip(mine["heading"], mine["series"], strict=True)],
            width=sizes.bar_px,
            marker=part_marker(part, dark),
            hovertext=mine["hover"].tolist(),
            hovertemplate="%{hovertext}<extra></extra>",
        )
    for heading, y in places.headings.items():
        figure.add_annotation(label(f"<b>{heading}</b>", x=0, xref="paper", y=y, font={"size": 13}))
    set_layout(
        figure,
        barmode="overlay",
        showlegend=True,
        legend=legend_above(gap_px=4, plot_px=places.plot_px),
        xaxis=_share_axis(zero, axis_title, dark),
        yaxis=axis(dark, range=[places.plot_px, 0], visible=False, fixedrange=True),
    )
    return figure


def _share_axis(zero: str, title: str, dark: bool) -> dict[str, Any]:
    words = [zero, *(exact(100 * tick, "%") for tick in TICKS[1:])]
    return axis(dark, range=[0, 1], tickvals=list(TICKS), ticktext=words, fixedrange=True, title=title)
