"""Where each KV position went, layout by layout: what held real tokens, and what was held or computed for nothing.

Two groups of bars. Positions held in memory, each for as long as it was held (position-seconds), and positions computed
by the passes (a count). In a group all bars share one axis, so that their lengths can be compared; the words over each
bar give its shares. On the same requests every layout generates the same tokens.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from pages.figures.colours import palette
from pages.figures.layout import axis, label, legend_above, legend_name, new_figure, note_figure, set_layout
from pages.figures.measures import COMPUTED, GOOD, HELD, HELD_AS_A_WHOLE, PART_WORDS, ledger_shares, part_marker
from pages.figures.readable import share_text, three_digits

BAR_PX = 20
ROW_PX = 62
HEADING_PX = 26
GROUPS = ((HELD, HELD_AS_A_WHOLE), (COMPUTED,))
WORDS = PART_WORDS | {"useful": "real tokens", "used": "real tokens"}
NOTHING = "Nothing has been held or computed yet."


def kv_parts(ledger: pd.DataFrame) -> pd.DataFrame:
    """One row a group, run and part (see measures.ledger_shares), and `scale`, the largest whole of its group."""
    parts = ledger_shares(ledger, GROUPS)
    return parts.assign(scale=parts.groupby("heading")["whole"].transform("max"))


def kv_layouts(ledger: pd.DataFrame, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw one row a run (`series` and the run metrics' names): a bar a run in each of the two groups."""
    parts = kv_parts(ledger)
    if parts.empty:
        return note_figure(NOTHING, dark=dark, title=title)
    places, headings, plot_px = _places(parts)
    figure = new_figure(plot_px=plot_px, dark=dark, title=title, top=46, left=14, right=18)
    for part in PART_WORDS:
        _add_part(figure, parts[(parts["part"] == part) & (parts["amount"] > 0)], part, places, dark)
    _add_words(figure, parts, places, headings, dark)
    set_layout(
        figure,
        barmode="overlay",
        showlegend=True,
        legend=legend_above(gap_px=4, plot_px=plot_px),
        xaxis=axis(
            dark,
            range=[0, 1],
            tickvals=[0, 0.25, 0.5, 0.75, 1],
            ticktext=["0", "25 %", "50 %", "75 %", "100 %"],
            fixedrange=True,
            title="of the longest bar in its group",
        ),
        yaxis=axis(dark, range=[plot_px, 0], visible=False, fixedrange=True),
    )
    return figure


def _places(parts: pd.DataFrame) -> tuple[dict[tuple[str, str], float], dict[str, float], int]:
    """Pixels from the top: the middle of each bar and of each heading; and the height of all."""
    bars: dict[tuple[str, str], float] = {}
    headings: dict[str, float] = {}
    y = 0.0
    for heading, group in parts.groupby("heading", sort=False):
        headings[str(heading)] = y + HEADING_PX / 2
        y += HEADING_PX
        for series in dict.fromkeys(group["series"]):
            bars[str(heading), str(series)] = y + ROW_PX - BAR_PX / 2 - 4
            y += ROW_PX
        y += 8
    return bars, headings, round(y) + 2


def _add_part(
    figure: go.Figure, mine: pd.DataFrame, part: str, places: dict[tuple[str, str], float], dark: bool
) -> None:
    if mine.empty:
        return
    figure.add_bar(
        name=legend_name(WORDS[part]),
        showlegend=part != GOOD[1],  # it looks as the other good part does
        orientation="h",
        base=(mine["before"] * mine["whole"] / mine["scale"]).to_numpy(),
        x=(mine["amount"] / mine["scale"]).to_numpy(),
        y=[places[key] for key in zip(mine["heading"], mine["series"], strict=True)],
        width=BAR_PX,
        marker=part_marker(part, dark),
        hovertext=[
            f"<b>{series}</b>, {WORDS[part]}: {share_text(share)}<br>"
            f"{three_digits(amount)} of {three_digits(whole)} {noun}"
            for series, share, amount, whole, noun in mine[["series", "share", "amount", "whole", "noun"]].to_numpy()
        ],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _add_words(
    figure: go.Figure,
    parts: pd.DataFrame,
    places: dict[tuple[str, str], float],
    headings: dict[str, float],
    dark: bool,
) -> None:
    """A heading over each group; over each bar the run's name, its whole, and the share of every part that it has."""
    for heading, y in headings.items():
        figure.add_annotation(label(f"<b>{heading}</b>", x=0, xref="paper", y=y, font={"size": 13}))
    ink = {"size": 12, "color": palette(dark).text}
    for (heading, series), bar in parts.groupby(["heading", "series"], sort=False):
        top = places[heading, series] - BAR_PX / 2
        whole = f"<b>{series}</b>  {three_digits(float(bar['whole'].iloc[0]))}"
        figure.add_annotation(label(whole, x=0, xref="paper", y=top - 25, font=ink))
        figure.add_annotation(label(part_words(bar), x=0, xref="paper", y=top - 9, font=ink))


def part_words(bar: pd.DataFrame) -> str:
    """`real tokens 92 %, block ends 8 %`: the parts that there are. A line of its own, so that it fits a phone."""
    there = bar[bar["amount"] > 0]
    shares = zip(there["part"], there["share"], strict=True)
    return ", ".join(f"{WORDS[part]} {share_text(share)}" for part, share in shares)


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sample import sample_run

    engines = ("static", "continuous", "paged", "chunked")
    four = pd.concat([sample_run(name).ledger.assign(series=name) for name in engines])
    show([kv_layouts(four, dark=dark) for dark in (False, True)])
