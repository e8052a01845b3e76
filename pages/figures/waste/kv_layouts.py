"""KV positions by layout: those with real tokens, and those held or computed for nothing.

Two groups of bars: positions held in memory, for as long as they are held (position-seconds), and positions computed by
the passes (a count). The bars of a group share one axis, so lengths are comparable; the text above each bar gives its
shares. On the same requests every layout generates the same tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import counted, percent, ratio
from pages.figures.colors import palette
from pages.figures.layout import label, literal, note_figure
from pages.figures.waste.breakdowns import COMPUTED, GOOD, HELD, HELD_UNUSED, PART_LABELS, breakdown_shares
from pages.figures.waste.stacked_bars import BarPositions, BarSizes, bar_positions, stacked_bars

SIZES = BarSizes(bar_px=20, row_px=62, heading_px=26, gap_px=8)
GROUPS = ((HELD, HELD_UNUSED), (COMPUTED,))
LABELS = PART_LABELS | {"useful": "real tokens"}
NO_POSITIONS = "Nothing has been held or computed yet."
SAME = 0.005  # a smaller relative difference is not reported


def kv_shares(runs: pd.DataFrame) -> pd.DataFrame:
    """A row per group, run and part (see breakdown_shares), and `scale`, the largest whole of its group."""
    parts = breakdown_shares(runs, GROUPS)
    return parts.assign(scale=parts.groupby("heading")["whole"].transform("max"))


def kv_layouts(runs: pd.DataFrame, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw a row per run (`series` and the run metrics' names): a bar per run in each of the two groups."""
    parts = kv_shares(runs)
    if parts.empty:
        return note_figure(NO_POSITIONS, dark=dark, title=title)
    positions = bar_positions(parts, SIZES)
    figure = stacked_bars(
        parts.assign(hover=_hover(parts))[parts["amount"] > 0],
        positions,
        SIZES,
        labels=LABELS,
        unlisted=GOOD[1],  # it looks like the other good part
        zero="0",
        axis_title="share of the longest bar in the group",
        top_px=46,
        title=title,
        dark=dark,
    )
    _add_text(figure, parts, positions, dark)
    return figure


def _hover(parts: pd.DataFrame) -> list[str]:
    rows = parts[["series", "part", "share", "amount", "whole", "noun"]].to_numpy()
    return [
        f"<b>{literal(series)}</b>, {LABELS[part]}: {percent(share)}<br>{counted(amount)} of {counted(whole)} {noun}"
        for series, part, share, amount, whole, noun in rows
    ]


def _add_text(figure: go.Figure, parts: pd.DataFrame, positions: BarPositions, dark: bool) -> None:
    """Above each bar the run's name, its whole, and the share of each of its parts."""
    font = {"size": 12, "color": palette(dark).text}
    for (heading, series), bar in parts.groupby(["heading", "series"], sort=False):
        top = positions.bars[str(heading), str(series)] - SIZES.bar_px / 2
        whole = f"<b>{literal(str(series))}</b>  {counted(float(bar['whole'].iloc[0]))}"
        figure.add_annotation(label(whole, x=0, xref="paper", y=top - 25, font=font))
        figure.add_annotation(label(part_text(bar), x=0, xref="paper", y=top - 9, font=font))


def part_text(bar: pd.DataFrame) -> str:
    """`real tokens 92 %, block ends 8 %`: the parts above 0. On a separate line, so it fits a phone."""
    shown = bar[bar["amount"] > 0]
    shares = zip(shown["part"], shown["share"], strict=True)
    return ", ".join(f"{LABELS[part]} {percent(share)}" for part, share in shares)


def kv_layouts_caption(runs: pd.DataFrame) -> str:
    """The share of real tokens in both groups, and how much each run held and computed against the first."""
    parts = kv_shares(runs)
    if parts.empty:
        return NO_POSITIONS
    sentences = []
    for heading, intro, verb in (
        (HELD.heading, "Real tokens, share of KV memory held over time", "held"),
        (COMPUTED.heading, "Real tokens, share of positions computed", "computed"),
    ):
        good = parts[(parts["heading"] == heading) & parts["part"].isin(GOOD)]
        if good.empty:
            continue
        shares = dict(zip(good["series"], good["share"], strict=True))
        wholes = dict(zip(good["series"], good["whole"], strict=True))
        sentences.append(f"{intro}: {_shares_text(shares)}{_wholes_text(wholes, verb)}.")
    return " ".join(sentences)


def _shares_text(shares: Mapping[str, float]) -> str:
    """`static 31 %, paged 91 %`; only the share of a run without a name."""
    return ", ".join(f"{name} {percent(share)}".strip() for name, share in shares.items())


def _wholes_text(wholes: Mapping[str, float], verb: str) -> str:
    """`; paged held 0.500x as much as static`; empty where no run differs from the first."""
    first, *others = wholes
    ratios = {name: wholes[name] / wholes[first] for name in others}
    texts = [f"{name} {verb} {ratio(found)}" for name, found in ratios.items() if abs(found - 1) > SAME]
    return f"; {', '.join(texts)} as much as {first}" if texts else ""


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sample import sample_run

    engines = ("static", "continuous", "paged", "chunked")
    four = pd.concat([sample_run(name).totals.assign(series=name) for name in engines])
    show([kv_layouts(four, dark=dark) for dark in (False, True)])
