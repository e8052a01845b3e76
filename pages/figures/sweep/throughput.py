"""Decode throughput by batch size B, both axes logarithmic, with linear scaling as a dashed line.

Throughput is B / TPOT: the tokens/s of all rows together. Linear scaling is B times the rate of one row: the throughput
if a step took as long with B rows as with one. Where a series falls below it, more rows take more time. Without a point
at B = 1 the line goes through the series' smallest batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import percent, quantity
from engine.experiments.sweep_table import DISTURBED
from pages.figures.colors import palette
from pages.figures.frames import records
from pages.figures.layout import axis, legend_name, literal, note_figure, set_layout
from pages.figures.sweep.axes import (
    add_failed,
    add_line,
    add_note,
    batch_axis,
    empty_text,
    is_failed,
    line_styles,
    sweep_figure,
)

RATE = "decode_tokens_per_s"
LINEAR = "linear scaling"
SCALES_FROM = 0.8  # a point with at least this share of linear scaling is reported as scaling linearly


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearScaling:
    """How far a series scales linearly: the largest batch `last` that does, and the first, `below_at`, that does not.

    `base` is the batch that the line goes through. `share` is the share of linear scaling, and `rate` the throughput,
    at `below_at`, or at `last` if all scale linearly.
    """

    base: int
    last: int
    below_at: int | None
    share: float
    rate: float


def base_rate(mine: pd.DataFrame) -> tuple[int, float] | None:
    """The smallest measured batch of a series and its tokens/s per row; None without a measured point."""
    measured = mine.dropna(subset=[RATE]).sort_values("batch_size")
    if measured.empty:
        return None
    first = measured.iloc[0]
    return int(first["batch_size"]), float(first[RATE]) / int(first["batch_size"])


def linear_scaling(mine: pd.DataFrame) -> LinearScaling | None:
    """The linear scaling of a series; None without two measured points."""
    base = base_rate(mine)
    measured = mine.dropna(subset=[RATE]).sort_values("batch_size")
    if base is None or len(measured) < 2:
        return None
    shares = measured[RATE] / (measured["batch_size"] * base[1])
    is_below = (shares < SCALES_FROM).to_numpy()
    place = int(is_below.argmax()) if is_below.any() else len(measured) - 1
    sizes = measured["batch_size"].astype(int).tolist()
    return LinearScaling(
        base=base[0],
        last=sizes[place - 1] if is_below.any() else sizes[-1],
        below_at=sizes[place] if is_below.any() else None,
        share=float(shares.iloc[place]),
        rate=float(measured[RATE].iloc[place]),
    )


def throughput_over_batch(points: pd.DataFrame, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw points (series, batch_size, status, decode_tokens_per_s; of failed ones asked_bytes, free_bytes)."""
    note = empty_text(points)
    if note:
        return note_figure(note, dark=dark, title=title)
    figure, layout = sweep_figure(points, title=title, dark=dark, more=LINEAR)
    styles = line_styles(list(points["series"]), dark)
    for name, mine in points.groupby("series", sort=False):
        measured = mine.dropna(subset=[RATE]).sort_values("batch_size")
        if measured.empty:
            continue
        base = base_rate(measured)
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
            name=f"{name}: {LINEAR}",
            hoverinfo="skip",
        )
        hover = [_hover(str(name), row, base[1]) for row in records(measured)]
        add_line(figure, str(name), measured["batch_size"], measured[RATE], styles[str(name)], hover)
    if points[RATE].notna().any():
        _add_legend_entry(figure, dark)
    add_failed(figure, points, styles, layout, dark)
    y_axis = axis(dark, title="decode tokens/s, logarithmic", type="log", domain=[0, layout.plot_top], dtick="D2")
    y_axis |= {"tickformat": ",~r", "fixedrange": True}
    if points[RATE].isna().all():
        y_axis |= add_note(figure, points, "No batch size has a rate.", dark)
    set_layout(figure, xaxis=batch_axis(points, dark), yaxis=y_axis)
    return figure


def _add_legend_entry(figure: go.Figure, dark: bool) -> None:
    """The legend entry of the dashed lines."""
    figure.add_scatter(
        x=[None],
        y=[None],
        mode="lines",
        line={"width": 1.4, "dash": "dash", "color": palette(dark).faint_text},
        name=legend_name(LINEAR),
        hoverinfo="skip",
    )


def throughput_caption(points: pd.DataFrame) -> str:
    """How far each series scales linearly, and the failed points."""
    note = empty_text(points)
    if note:
        return note
    texts = [_series_text(str(name), mine) for name, mine in points.groupby("series", sort=False)]
    known = "; ".join(filter(None, texts))
    scaling = f"Scaling with batch size: {known}." if known else ""
    return " ".join(filter(None, [scaling, failed_caption(points)]))


def failed_caption(points: pd.DataFrame) -> str:
    """`Failed: p1024 from B = 256 on.`; empty without failed points."""
    failed = points[is_failed(points)]
    if failed.empty:
        return ""
    parts = []
    for name, mine in failed.groupby("series", sort=False):
        sizes = sorted(int(size) for size in mine["batch_size"])
        known = points[(points["series"] == name) & (points["status"] == "completed")]["batch_size"]
        if len(sizes) > 1 and (known.empty or sizes[0] > known.max()):
            parts.append(f"{name} from B = {sizes[0]:,} on")
        else:
            parts.append(f"{name} at B = {', '.join(f'{size:,}' for size in sizes)}")
    return f"Failed: {'; '.join(parts)}."


def is_disturbed(mine: pd.DataFrame) -> bool:
    """Whether one series of a sweep exceeds linear scaling, which is not plausible: its smallest batch was slowed."""
    base = base_rate(mine)
    return base is not None and bool(_linear_shares(mine, *base).max() > DISTURBED)


def _linear_shares(mine: pd.DataFrame, size: int, rate: float) -> pd.Series:
    """Each rate as a share of linear scaling. `rate` is the tokens/s per row at the series' smallest batch."""
    return mine[RATE] / (mine["batch_size"] * rate)


def _series_text(name: str, mine: pd.DataFrame) -> str:
    """`p16 scales linearly up to B = 4; 46.2 % of linear at B = 16 (559 tokens/s)`."""
    base, scaling = base_rate(mine), linear_scaling(mine)
    if base is None:
        return ""
    size, rate = base
    if scaling is None:
        return f"{name} has one point, {quantity(size * rate, 'tokens/s')} at B = {size:,}"
    shares = _linear_shares(mine, size, rate)
    if is_disturbed(mine):
        top = int(mine["batch_size"].iloc[int(np.nanargmax(shares.to_numpy(dtype=float)))])
        return (
            f"{name} reaches {percent(float(shares.max()))} of linear scaling at B = {top:,}, which is not plausible: "
            f"B = {size:,} was probably disturbed, so measure it again"
        )
    share = f"{percent(scaling.share)} of linear scaling"
    from_base = f" from B = {scaling.base:,}" if scaling.base > 1 else ""
    if scaling.below_at is None:
        return f"{name} scales linearly{from_base} up to B = {scaling.last:,} ({_rate_text(scaling)}, {share})"
    below = f"{share} at B = {scaling.below_at:,} ({_rate_text(scaling)})"
    if scaling.last == scaling.base:
        return f"{name} does not scale linearly{from_base}: {below}"
    return f"{name} scales linearly{from_base} up to B = {scaling.last:,}, with {below}"


def _rate_text(scaling: LinearScaling) -> str:
    return quantity(scaling.rate, "tokens/s")


def _hover(name: str, row: dict[str, Any], rate: float) -> str:
    size, value = int(row["batch_size"]), float(row[RATE])
    share = percent(value / (size * rate))
    return f"<b>{literal(name)}, B = {size:,}</b><br>{quantity(value, 'tokens/s')}<br>{share} of linear scaling"


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sweep.sample import sample_sweep

    points = sample_sweep()
    show([throughput_over_batch(points, title="Throughput"), throughput_over_batch(points, dark=True)])
