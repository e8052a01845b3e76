"""Where each KV position went, layout by layout: what held real tokens, and what was held or computed for nothing.

Two groups of bars. Positions held in memory, each for as long as it was held (position-seconds), and positions computed
by the passes (a count). In a group all bars share one axis, so that their lengths can be compared; the words over each
bar give its shares. On the same requests every layout generates the same tokens.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import counted, percent
from pages.figures.colors import palette
from pages.figures.layout import label, note_figure
from pages.figures.waste.measures import COMPUTED, GOOD, HELD, HELD_AS_A_WHOLE, PART_WORDS, ledger_shares
from pages.figures.waste.part_bars import BarSizes, Places, part_bars, places_of

SIZES = BarSizes(bar_px=20, row_px=62, heading_px=26, gap_px=8)
GROUPS = ((HELD, HELD_AS_A_WHOLE), (COMPUTED,))
WORDS = PART_WORDS | {"useful": "real tokens", "used": "real tokens"}
NOTHING = "Nothing has been held or computed yet."


def kv_shares(ledger: pd.DataFrame) -> pd.DataFrame:
    """One row a group, run and part (see measures.ledger_shares), and `scale`, the largest whole of its group."""
    parts = ledger_shares(ledger, GROUPS)
    return parts.assign(scale=parts.groupby("heading")["whole"].transform("max"))


def kv_layouts(ledger: pd.DataFrame, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw one row a run (`series` and the run metrics' names): a bar a run in each of the two groups."""
    parts = kv_shares(ledger)
    if parts.empty:
        return note_figure(NOTHING, dark=dark, title=title)
    places = places_of(parts, SIZES)
    figure = part_bars(
        parts.assign(hover=_hover(parts))[parts["amount"] > 0],
        places,
        SIZES,
        words=WORDS,
        unlisted=GOOD[1],  # it looks as the other good part does
        zero="0",
        axis_title="of the longest bar in its group",
        top_px=46,
        title=title,
        dark=dark,
    )
    _add_text(figure, parts, places, dark)
    return figure


def _hover(parts: pd.DataFrame) -> list[str]:
    rows = parts[["series", "part", "share", "amount", "whole", "noun"]].to_numpy()
    return [
        f"<b>{series}</b>, {WORDS[part]}: {percent(share)}<br>{counted(amount)} of {counted(whole)} {noun}"
        for series, part, share, amount, whole, noun in rows
    ]


def _add_text(figure: go.Figure, parts: pd.DataFrame, places: Places, dark: bool) -> None:
    """Over each bar the run's name, its whole, and the share of every part that it has."""
    ink = {"size": 12, "color": palette(dark).text}
    for (heading, series), bar in parts.groupby(["heading", "series"], sort=False):
        top = places.bars[heading, series] - SIZES.bar_px / 2
        whole = f"<b>{series}</b>  {counted(float(bar['whole'].iloc[0]))}"
        figure.add_annotation(label(whole, x=0, xref="paper", y=top - 25, font=ink))
        figure.add_annotation(label(part_text(bar), x=0, xref="paper", y=top - 9, font=ink))


def part_text(bar: pd.DataFrame) -> str:
    """`real tokens 92 %, block ends 8 %`: the parts that there are. A line of its own, so that it fits a phone."""
    there = bar[bar["amount"] > 0]
    shares = zip(there["part"], there["share"], strict=True)
    return ", ".join(f"{WORDS[part]} {percent(share)}" for part, share in shares)


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sample import sample_run

    engines = ("static", "continuous", "paged", "chunked")
    four = pd.concat([sample_run(name).ledger.assign(series=name) for name in engines])
    show([kv_layouts(four, dark=dark) for dark in (False, True)])
