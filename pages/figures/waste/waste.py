"""The waste breakdown: of all that a run computed, spent and held, the part that served unfinished requests.

A group of bars per breakdown (see breakdowns), a bar per run; a full bar is the run's whole.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import percent
from pages.figures.colors import palette
from pages.figures.layout import label, literal, note_figure
from pages.figures.waste.breakdowns import (
    ALL_BREAKDOWNS,
    GOOD,
    PART_LABELS,
    SECONDS,
    BreakdownGroups,
    amount_text,
    breakdown_shares,
)
from pages.figures.waste.stacked_bars import BarPositions, BarSizes, bar_positions, stacked_bars

SIZES = BarSizes(bar_px=20, row_px=46, heading_px=24, gap_px=6)
NO_WASTE = "Nothing has been computed yet."


def waste_breakdown(
    runs: pd.DataFrame, *, groups: BreakdownGroups = ALL_BREAKDOWNS, title: str = "", dark: bool = False
) -> go.Figure:
    """Draw a row per run (`series` and the run metrics' names) as stacked bars of shares."""
    shares = breakdown_shares(runs, groups)
    if shares.empty:
        return note_figure(NO_WASTE, dark=dark, title=title)
    positions = bar_positions(shares, SIZES)
    figure = stacked_bars(
        shares.assign(scale=shares["whole"], hover=_hover(shares)),
        positions,
        SIZES,
        labels=PART_LABELS,
        unlisted="used",  # it looks like useful
        zero=percent(0),
        axis_title="share of the whole",
        top_px=28,
        title=title,
        dark=dark,
    )
    _add_text(figure, shares, positions, dark)
    return figure


def _hover(shares: pd.DataFrame) -> list[str]:
    rows = shares[["series", "part", "share", "amount", "whole", "noun"]].to_numpy()
    return [
        f"<b>{literal(series)}</b>, {PART_LABELS[part]}: {percent(share)}<br>"
        f"{amount_text(amount, noun)} of {amount_text(whole, noun)}"
        for series, part, share, amount, whole, noun in rows
    ]


def _add_text(figure: go.Figure, shares: pd.DataFrame, positions: BarPositions, dark: bool) -> None:
    """Above each bar the run's name and every share, since thin parts cannot be read off the bar."""
    colors = palette(dark)
    for (heading, series), bar in shares.groupby(["heading", "series"], sort=False):
        parts = share_text(bar)
        whole = amount_text(bar["whole"].iloc[0], bar["noun"].iloc[0] if bar["noun"].iloc[0] == "s" else "")
        text = f"<b>{literal(str(series))}</b>  {parts} of {whole}" if series else f"{parts} of {whole}"
        y = positions.bars[str(heading), str(series)] - SIZES.bar_px / 2 - 9
        figure.add_annotation(label(text, x=0, xref="paper", y=y, font={"size": 12, "color": colors.text}))


def share_text(bar: pd.DataFrame) -> str:
    """`useful 65 %, padding 10 %, dead 25 %`; of more than three parts only those above 0."""
    shown = bar if len(bar) <= 3 else bar[bar["share"] > 0]
    return ", ".join(
        f"{PART_LABELS[part]} {percent(share)}" for part, share in zip(shown["part"], shown["share"], strict=True)
    )


def waste_caption(runs: pd.DataFrame, groups: BreakdownGroups = ALL_BREAKDOWNS) -> str:
    """The wasted shares of each breakdown, run by run.

    Seconds are the same waste weighted by time: they are left out where the positions are shown too.
    """
    shares = breakdown_shares(runs, groups)
    if shares.empty:
        return NO_WASTE
    wasted = shares[~shares["part"].isin(GOOD)]
    texts = []
    for heading, group in wasted.groupby("heading", sort=False):
        if heading == SECONDS.heading and groups is ALL_BREAKDOWNS:
            continue
        by_run = [_wasted_text(str(series), bar) for series, bar in group.groupby("series", sort=False)]
        texts.append(f"{str(heading).split(',')[0]}: {', '.join(by_run)}")
    return "; ".join(texts) + "."


def _wasted_text(series: str, bar: pd.DataFrame) -> str:
    """`static 20.4 % padding and 43.9 % dead`; of more than two kinds of waste only those above 0."""
    shown = bar if len(bar) <= 2 else bar[bar["share"] > 0]
    parts = [f"{percent(s)} {PART_LABELS[part]}" for part, s in zip(shown["part"], shown["share"], strict=True)]
    text = " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]])) or "no waste"
    return f"{series} {text}".strip()


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sample import sample_run

    both = pd.concat([sample_run(name).totals.assign(series=name) for name in ("static", "continuous")])
    show([waste_breakdown(both, dark=dark) for dark in (False, True)])
