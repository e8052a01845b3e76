"""Decoded tokens a second against batch size, both logarithmic, beside the straight line of B times the rate of one.

The rate is B / TPOT: what all rows of a batch decode together. The straight line is what they would decode if a step
took as long with B rows as with one; where a series leaves it, rows have begun to cost time. Without a point at B = 1
the line goes through the series' smallest batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import percent, quantity
from engine.experiments.sweep_table import DISTURBED
from pages.figures.colors import palette
from pages.figures.layout import axis, legend_name, note_figure, set_layout
from pages.figures.sweep.axes import (
    add_failed,
    add_line,
    batch_axis,
    empty_text,
    hold_open,
    is_failed,
    line_styles,
    sweep_figure,
)

RATE = "decode_tokens_per_s"
KEY = "B x the rate of one row"
ON_THE_LINE = 0.8  # a point that reaches at least this share of the straight line is said to follow it


@dataclass(frozen=True, slots=True, kw_only=True)
class Bend:
    """Where a series stands to its straight line: the largest batch that follows it, and the first that does not.

    `base` is the batch that the line goes through; `share` is of the line at `left_at`, or at `last` if none left it.
    """

    base: int
    last: int
    left_at: int | None
    share: float
    rate: float


def straight_rate(mine: pd.DataFrame) -> tuple[int, float] | None:
    """The smallest measured batch of a series and the rate a row there, tokens/s; None without a measured point."""
    measured = mine.dropna(subset=[RATE]).sort_values("batch_size")
    if measured.empty:
        return None
    first = measured.iloc[0]
    return int(first["batch_size"]), float(first[RATE]) / int(first["batch_size"])


def bend_of(mine: pd.DataFrame) -> Bend | None:
    """How one series keeps to its line; None without two measured points."""
    base = straight_rate(mine)
    measured = mine.dropna(subset=[RATE]).sort_values("batch_size")
    if base is None or len(measured) < 2:
        return None
    shares = measured[RATE] / (measured["batch_size"] * base[1])
    off = measured[shares < ON_THE_LINE]
    at = off.iloc[0] if len(off) else measured.iloc[-1]
    on = measured[measured["batch_size"] < at["batch_size"]] if len(off) else measured
    return Bend(
        base=base[0],
        last=int(on["batch_size"].max()),
        left_at=int(at["batch_size"]) if len(off) else None,
        share=float(shares.loc[at.name]),
        rate=float(at[RATE]),
    )


def throughput_over_batch(points: pd.DataFrame, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw points (series, batch_size, status, decode_tokens_per_s; of failed ones asked_bytes, free_bytes)."""
    words = empty_text(points)
    if words:
        return note_figure(words, dark=dark, title=title)
    figure, room = sweep_figure(points, title=title, dark=dark, more=KEY)
    styles = line_styles(list(points["series"]), dark)
    for name, mine in points.groupby("series", sort=False):
        measured = mine.dropna(subset=[RATE]).sort_values("batch_size")
        if measured.empty:
            continue
        base = straight_rate(measured)
        assert base is not None
        sizes = [int(measured["batch_size"].min()), int(mine["batch_size"].max())]
        figure.add_scatter(
            x=sizes,
            y=[size * base[1] for size in sizes],
            mode="lines",
            line={"width": 1.4, "dash": "dash", "color": styles[str(name)].color},
            opacity=0.75,
            legendgroup=str(name),
            showlegend=False,
            name=f"{name}: B x the rate of one row",
            hoverinfo="skip",
        )
        hover = [_hover(str(name), row, base[1]) for row in measured.to_dict("records")]
        add_line(figure, str(name), measured["batch_size"], measured[RATE], styles[str(name)], hover)
    if points[RATE].notna().any():
        _add_key(figure, dark)
    add_failed(figure, points, styles, room, dark)
    y_axis = axis(dark, title="decoded tokens/s, logarithmic", type="log", domain=[0, room.plot_top], dtick="D2")
    y_axis |= {"tickformat": ",~r", "fixedrange": True}
    if points[RATE].isna().all():
        y_axis |= hold_open(figure, points, "No batch size gave a rate.", dark)
    set_layout(figure, xaxis=batch_axis(points, dark), yaxis=y_axis)
    return figure


def _add_key(figure: go.Figure, dark: bool) -> None:
    """What the dashed lines are, in the legend."""
    figure.add_scatter(
        x=[None],
        y=[None],
        mode="lines",
        line={"width": 1.4, "dash": "dash", "color": palette(dark).faint_text},
        name=legend_name(KEY),
        hoverinfo="skip",
    )


def throughput_caption(points: pd.DataFrame) -> str:
    """How far each series keeps to its straight line, where it leaves it, and what failed."""
    words = empty_text(points)
    if words:
        return words
    said = [_series_text(str(name), mine) for name, mine in points.groupby("series", sort=False)]
    known = "; ".join(filter(None, said))
    against = f"Against B times the rate of one row: {known}." if known else ""
    return " ".join(filter(None, [against, failed_caption(points)]))


def failed_caption(points: pd.DataFrame) -> str:
    """`Failed: p1024 from B = 256 on.`; empty where nothing failed."""
    failed = points[is_failed(points)]
    if failed.empty:
        return ""
    parts = []
    for name, mine in failed.groupby("series", sort=False):
        sizes = sorted(int(size) for size in mine["batch_size"])
        known = points.loc[(points["series"] == name) & (points["status"] == "completed"), "batch_size"]
        if len(sizes) > 1 and (known.empty or sizes[0] > known.max()):
            parts.append(f"{name} from B = {sizes[0]:,} on")
        else:
            parts.append(f"{name} at B = {', '.join(f'{size:,}' for size in sizes)}")
    return f"Failed: {'; '.join(parts)}."


def _series_text(name: str, mine: pd.DataFrame) -> str:
    """`p16 keeps to it up to B = 4 and leaves it at B = 16 (559 tokens/s, 46.2 % of it)`."""
    base, bend = straight_rate(mine), bend_of(mine)
    if base is None:
        return ""
    size, rate = base
    if bend is None:
        return f"{name} has one point, {quantity(size * rate, 'tokens/s')} at B = {size:,}"
    shares = mine[RATE] / (mine["batch_size"] * rate)
    if shares.max() > DISTURBED:
        top = int(mine.loc[shares.idxmax(), "batch_size"])
        return (
            f"{name} stands at {percent(float(shares.max()))} of it at B = {top:,}: more rows make no step that "
            f"much faster, so B = {size:,} was most likely disturbed; measure it again before reading this line"
        )
    where = f"({quantity(bend.rate, 'tokens/s')}, {percent(bend.share)} of it)"
    through = f" through B = {bend.base:,}" if bend.base > 1 else ""
    if bend.left_at is None:
        return f"{name} keeps to it{through} up to B = {bend.last:,} {where}"
    if bend.last == bend.base:
        return f"{name} leaves it{through} at once, at B = {bend.left_at:,} {where}"
    return f"{name} keeps to it{through} up to B = {bend.last:,} and leaves it at B = {bend.left_at:,} {where}"


def _hover(name: str, row: dict[object, object], rate: float) -> str:
    size, value = int(str(row["batch_size"])), float(str(row[RATE]))
    share = percent(value / (size * rate))
    return f"<b>{name}, B = {size:,}</b><br>{quantity(value, 'tokens/s')}<br>{share} of the straight line"


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sweep.sample import sample_sweep

    points = sample_sweep()
    show([throughput_over_batch(points, title="Throughput"), throughput_over_batch(points, dark=True)])
