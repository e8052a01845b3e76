"""The waste ledger: of all that a run computed, spent and held, how much served a request that still waited for tokens.

One group of bars a measure (see measures), one bar a run, each bar the whole of its measure.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from pages.figures.colours import palette
from pages.figures.layout import axis, label, legend_above, legend_name, new_figure, note_figure, set_layout
from pages.figures.measures import MEASURES, PART_WORDS, Measures, amount_text, ledger_shares, part_marker
from pages.figures.readable import share_text

BAR_PX = 20
ROW_PX = 46
HEADING_PX = 24


def waste_ledger(
    ledger: pd.DataFrame, *, measures: Measures = MEASURES, title: str = "", dark: bool = False
) -> go.Figure:
    """Draw one row a run (`series` and the run metrics' names, see measures) as bars of shares, a group a measure."""
    shares = ledger_shares(ledger, measures)
    if shares.empty:
        return note_figure("Nothing has been computed yet.", dark=dark, title=title)
    places, headings, plot_px = _places(shares)
    figure = new_figure(plot_px=plot_px, dark=dark, title=title, top=28, left=14, right=18)
    for part in PART_WORDS:
        _add_part(figure, shares[shares["part"] == part], part, places, dark)
    _add_words(figure, shares, places, headings, dark)
    set_layout(
        figure,
        barmode="overlay",
        showlegend=True,
        legend=legend_above(gap_px=4, plot_px=plot_px),
        xaxis=axis(
            dark,
            range=[0, 1],
            tickvals=[0, 0.25, 0.5, 0.75, 1],
            ticktext=["0 %", "25 %", "50 %", "75 %", "100 %"],
            fixedrange=True,
            title="share of the whole",
        ),
        yaxis=axis(dark, range=[plot_px, 0], visible=False, fixedrange=True),
    )
    return figure


def _places(shares: pd.DataFrame) -> tuple[dict[tuple[str, str], float], dict[str, float], int]:
    """Pixels from the top: the middle of each bar and of each heading; and the height of all."""
    bars: dict[tuple[str, str], float] = {}
    headings: dict[str, float] = {}
    y = 0.0
    for heading, group in shares.groupby("heading", sort=False):
        headings[str(heading)] = y + HEADING_PX / 2 + 2
        y += HEADING_PX
        for series in dict.fromkeys(group["series"]):
            bars[str(heading), str(series)] = y + ROW_PX - BAR_PX / 2 - 4
            y += ROW_PX
        y += 6
    return bars, headings, round(y) + 2


def _add_part(
    figure: go.Figure, mine: pd.DataFrame, part: str, places: dict[tuple[str, str], float], dark: bool
) -> None:
    if mine.empty:
        return
    figure.add_bar(
        name=legend_name(PART_WORDS[part]),
        showlegend=part != "used",  # it looks as useful does
        orientation="h",
        base=mine["before"].to_numpy(),
        x=mine["share"].to_numpy(),
        y=[places[key] for key in zip(mine["heading"], mine["series"], strict=True)],
        width=BAR_PX,
        marker=part_marker(part, dark),
        hovertext=[
            f"<b>{series}</b>, {PART_WORDS[part]}: {share_text(share)}<br>"
            f"{amount_text(amount, noun)} of {amount_text(whole, noun)}"
            for series, share, amount, whole, noun in mine[["series", "share", "amount", "whole", "noun"]].to_numpy()
        ],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _add_words(
    figure: go.Figure,
    shares: pd.DataFrame,
    places: dict[tuple[str, str], float],
    headings: dict[str, float],
    dark: bool,
) -> None:
    """A heading over each group; over each bar the run's name and every share, so that no part is too thin to read."""
    colours = palette(dark)
    for heading, y in headings.items():
        figure.add_annotation(label(f"<b>{heading}</b>", x=0, xref="paper", y=y, font={"size": 13}))
    for (heading, series), bar in shares.groupby(["heading", "series"], sort=False):
        parts = share_words(bar)
        whole = amount_text(bar["whole"].iloc[0], bar["noun"].iloc[0] if bar["noun"].iloc[0] == "s" else "")
        words = f"<b>{series}</b>  {parts} of {whole}" if series else f"{parts} of {whole}"
        y = places[heading, series] - BAR_PX / 2 - 9
        figure.add_annotation(label(words, x=0, xref="paper", y=y, font={"size": 12, "color": colours.text}))


def share_words(bar: pd.DataFrame) -> str:
    """Every part with its share, `useful 65 %, padding 10 %, dead 25 %`; of many parts only those that there are."""
    shown = bar if len(bar) <= 3 else bar[bar["share"] > 0]
    return ", ".join(
        f"{PART_WORDS[part]} {share_text(share)}" for part, share in zip(shown["part"], shown["share"], strict=True)
    )


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sample import sample_run

    both = pd.concat([sample_run(name).ledger.assign(series=name) for name in ("static", "continuous")])
    show([waste_ledger(both, dark=dark) for dark in (False, True)])
