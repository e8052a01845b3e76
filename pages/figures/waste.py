"""The waste ledger: of all that a run computed, spent and held, how much served a request that still waited for tokens.

One group of bars a measure, one bar a run, each bar the whole of its measure. Seconds are an attribution (a pass's
seconds times the wasted share of its positions), not a measurement, and the figure calls them so.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from pages.figures.colours import palette
from pages.figures.layout import axis, hatch, label, legend_above, legend_name, new_figure, note_figure
from pages.figures.readable import seconds_text, share_text, three_digits

BAR_PX = 20
ROW_PX = 46
HEADING_PX = 24
PARTS = ("useful", "padding", "dead", "used", "unused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One way to count waste: what the whole and its good part are called, and which columns are the wasted parts."""

    heading: str
    noun: str
    good: str = "useful"
    whole: tuple[str, ...]
    wasted: tuple[tuple[str, str], ...]


MEASURES = (
    Measure(
        heading="Computed token positions",
        noun="positions",
        whole=("computed_positions",),
        wasted=(("padding", "padding_positions"), ("dead", "dead_positions")),
    ),
    Measure(
        heading="Seconds in passes, attributed by positions",
        noun="s",
        whole=("prefill_s", "decode_s"),
        wasted=(("padding", "padding_s"), ("dead", "dead_s")),
    ),
    Measure(
        heading="KV memory held over time, in position-seconds",
        noun="position-seconds",
        good="used",
        whole=("kv_reserved_position_s",),
        wasted=(("unused", "kv_unused_position_s"),),
    ),
)

COLUMNS = ("heading", "noun", "series", "part", "amount", "whole", "share", "before")


def ledger_shares(ledger: pd.DataFrame) -> pd.DataFrame:
    """The ledger as one row a measure, run and part, in COLUMNS: `share` of the whole, and the shares `before` it.

    Takes one row a run with the run metrics' names, and `series`. A measure that a run lacks, or whose whole is 0, is
    left out.
    """
    rows: list[dict[str, object]] = []
    for measure in MEASURES:
        needed = [*measure.whole, *(column for _, column in measure.wasted)]
        if not set(needed) <= set(ledger.columns):
            continue
        for record in ledger.dropna(subset=needed).to_dict("records"):
            rows += _parts(measure, record)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _parts(measure: Measure, record: dict[Hashable, Any]) -> list[dict[str, object]]:
    whole = sum(float(record[column]) for column in measure.whole)
    if whole <= 0:
        return []
    amounts = {part: float(record[column]) for part, column in measure.wasted}
    amounts = {measure.good: whole - sum(amounts.values())} | amounts
    before, rows = 0.0, []
    for part, amount in amounts.items():
        what = (measure.heading, measure.noun, str(record.get("series", "")), part)
        rows.append(dict(zip(COLUMNS, (*what, amount, whole, amount / whole, before), strict=True)))
        before += amount / whole
    return rows


def waste_ledger(ledger: pd.DataFrame, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw one row a run (`series` and the run metrics' names, see MEASURES) as bars of shares, a group a measure."""
    shares = ledger_shares(ledger)
    if shares.empty:
        return note_figure("Nothing has been computed yet.", dark=dark, title=title)
    places, headings, plot_px = _places(shares)
    figure = new_figure(plot_px=plot_px, dark=dark, title=title, top=28, left=14, right=18)
    for part in PARTS:
        _add_part(figure, shares[shares["part"] == part], part, places, dark)
    _add_words(figure, shares, places, headings, dark)
    figure.update_layout(
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
        name=legend_name(part),
        showlegend=part != "used",
        orientation="h",
        base=mine["before"].to_numpy(),
        x=mine["share"].to_numpy(),
        y=[places[key] for key in zip(mine["heading"], mine["series"], strict=True)],
        width=BAR_PX,
        marker=_marker(part, dark),
        hovertext=[
            f"<b>{series}</b>, {part}: {share_text(share)}<br>{amount_text(amount, noun)} of {amount_text(whole, noun)}"
            for series, share, amount, whole, noun in mine[["series", "share", "amount", "whole", "noun"]].to_numpy()
        ],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _marker(part: str, dark: bool) -> dict[str, object]:
    colours = palette(dark)
    fills = {"padding": colours.padding, "dead": colours.dead, "unused": colours.empty}
    marker: dict[str, object] = {
        "color": fills.get(part, colours.decode),
        "line": {"width": 1, "color": colours.surface},
    }
    if part == "dead":
        marker["pattern"] = dict(hatch(dark))
    if part == "padding":
        dots = {"shape": ".", "fillmode": "overlay", "bgcolor": colours.padding, "fgcolor": colours.padding_line}
        marker["pattern"] = dots | {"size": 6, "solidity": 0.28, "fgopacity": 1}
    if part == "unused":
        marker["line"] = {"width": 1, "color": colours.faint_text}
    return marker


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
        parts = ", ".join(f"{part} {share_text(share)}" for part, share in zip(bar["part"], bar["share"], strict=True))
        whole = amount_text(bar["whole"].iloc[0], bar["noun"].iloc[0] if bar["noun"].iloc[0] == "s" else "")
        words = f"<b>{series}</b>  {parts} of {whole}" if series else f"{parts} of {whole}"
        y = places[heading, series] - BAR_PX / 2 - 9
        figure.add_annotation(label(words, x=0, xref="paper", y=y, font={"size": 12, "color": colours.text}))


def amount_text(amount: float, noun: str) -> str:
    """An amount with its unit: 1.46 s, 21,100 positions."""
    return seconds_text(amount) if noun == "s" else f"{three_digits(amount)} {noun}".rstrip()


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sample import sample_run

    both = pd.concat([sample_run(name).ledger.assign(series=name) for name in ("static", "continuous")])
    show([waste_ledger(both, dark=dark) for dark in (False, True)])
