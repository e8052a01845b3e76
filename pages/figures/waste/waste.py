"""The waste ledger: of all that a run computed, spent and held, how much served a request that still waited for tokens.

One group of bars a measure (see measures), one bar a run, each bar the whole of its measure.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import percent
from pages.figures.colors import palette
from pages.figures.layout import label, note_figure
from pages.figures.waste.measures import MEASURES, PART_WORDS, Measures, amount_text, ledger_shares
from pages.figures.waste.part_bars import BarSizes, Places, part_bars, places_of

SIZES = BarSizes(bar_px=20, row_px=46, heading_px=24, gap_px=6)


def waste_ledger(
    ledger: pd.DataFrame, *, measures: Measures = MEASURES, title: str = "", dark: bool = False
) -> go.Figure:
    """Draw one row a run (`series` and the run metrics' names, see measures) as bars of shares, a group a measure."""
    shares = ledger_shares(ledger, measures)
    if shares.empty:
        return note_figure("Nothing has been computed yet.", dark=dark, title=title)
    places = places_of(shares, SIZES)
    figure = part_bars(
        shares.assign(scale=shares["whole"], hover=_hover(shares)),
        places,
        SIZES,
        words=PART_WORDS,
        unlisted="used",  # it looks as useful does
        zero=percent(0),
        axis_title="share of the whole",
        top_px=28,
        title=title,
        dark=dark,
    )
    _add_text(figure, shares, places, dark)
    return figure


def _hover(shares: pd.DataFrame) -> list[str]:
    rows = shares[["series", "part", "share", "amount", "whole", "noun"]].to_numpy()
    return [
        f"<b>{series}</b>, {PART_WORDS[part]}: {percent(share)}<br>"
        f"{amount_text(amount, noun)} of {amount_text(whole, noun)}"
        for series, part, share, amount, whole, noun in rows
    ]


def _add_text(figure: go.Figure, shares: pd.DataFrame, places: Places, dark: bool) -> None:
    """Over each bar the run's name and every share, so that no part is too thin to read."""
    colors = palette(dark)
    for (heading, series), bar in shares.groupby(["heading", "series"], sort=False):
        parts = share_text(bar)
        whole = amount_text(bar["whole"].iloc[0], bar["noun"].iloc[0] if bar["noun"].iloc[0] == "s" else "")
        words = f"<b>{series}</b>  {parts} of {whole}" if series else f"{parts} of {whole}"
        y = places.bars[heading, series] - SIZES.bar_px / 2 - 9
        figure.add_annotation(label(words, x=0, xref="paper", y=y, font={"size": 12, "color": colors.text}))


def share_text(bar: pd.DataFrame) -> str:
    """Every part with its share, `useful 65 %, padding 10 %, dead 25 %`; of many parts only those that there are."""
    shown = bar if len(bar) <= 3 else bar[bar["share"] > 0]
    return ", ".join(
        f"{PART_WORDS[part]} {percent(share)}" for part, share in zip(shown["part"], shown["share"], strict=True)
    )


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sample import sample_run

    both = pd.concat([sample_run(name).ledger.assign(series=name) for name in ("static", "continuous")])
    show([waste_ledger(both, dark=dark) for dark in (False, True)])
