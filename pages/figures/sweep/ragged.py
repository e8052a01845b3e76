"""A ragged batch and its control: a uniform batch with the same rows, all as long as the longest of the ragged batch.

Rates are output tokens of the whole run over its duration: rows of a ragged batch end at different times, so a rate per
row has no meaning. All positions of the control are real tokens, and its tensors have the same shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import exact, number, percent, quantity
from pages.figures.colors import palette
from pages.figures.frames import records
from pages.figures.layout import axis, legend_above, legend_name, new_figure, note_figure, set_layout
from pages.figures.sweep.axes import failed_text, is_failed

RATE = "output_tokens_per_s"
PLOT_PX = 210
MAX_VALUES = 3  # batch sizes with rates above the bars; more would overlap on a phone
SIDE = 0.19  # from the middle of a batch size to the middle of a bar
NO_RAGGED = "No ragged batch has been measured yet."
ROLES = ("control", "ragged")


@dataclass(frozen=True, slots=True, kw_only=True)
class RaggedPair:
    """Both rates at a batch size, tokens/s; None for a failed run. `unused` is the unused share of held KV memory."""

    batch_size: int
    control: float | None
    ragged: float | None
    control_prompts: str
    unused: float | None

    @property
    def ratio(self) -> float | None:
        """The ragged rate as a share of the control's."""
        return self.ragged / self.control if self.ragged is not None and self.control else None


def ragged_pairs(points: pd.DataFrame) -> list[RaggedPair]:
    """Pairs from points (batch_size, role, prompts, output_tokens_per_s, and if known kv_unused_fraction)."""
    pairs = []
    for size, mine in points[points["role"].isin(ROLES)].groupby("batch_size"):
        ragged, control = mine[mine["role"] == "ragged"], mine[mine["role"] == "control"]
        pairs.append(
            RaggedPair(
                batch_size=int(str(size)),
                control=_only(control, RATE),
                ragged=_only(ragged, RATE),
                control_prompts=str(control["prompts"].iloc[0]) if len(control) else "",
                unused=_only(ragged, "kv_unused_fraction"),
            )
        )
    return pairs


def ragged_bars(points: pd.DataFrame, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw two bars per batch size: the control, and the ragged batch with its share of the control. Failed runs are
    crosses."""
    points = points[points["role"].isin(ROLES)] if not points.empty else points
    known = points[is_failed(points) | points[RATE].notna()] if not points.empty else points
    if known.empty:
        return note_figure(NO_RAGGED, dark=dark, title=title)
    sizes = sorted({int(size) for size in points["batch_size"]})
    pairs = {pair.batch_size: pair for pair in ragged_pairs(points)}
    figure = new_figure(plot_px=PLOT_PX, dark=dark, title=title, top=44, left=66, right=12)
    for role, side in (("control", -SIDE), ("ragged", SIDE)):
        _add_bars(figure, role, side, sizes, pairs, dark)
    _add_crosses(figure, known[is_failed(known)], sizes, dark)
    x_axis = axis(
        dark,
        title="batch size B, and the control's prompts",
        range=[-0.5, len(sizes) - 0.5],
        tickvals=list(range(len(sizes))),
        ticktext=[_tick(pairs[size]) for size in sizes],
        showgrid=False,
        fixedrange=True,
    )
    y_axis = axis(dark, title="output tokens/s", rangemode="tozero", nticks=5, tickformat=",~r", fixedrange=True)
    legend = legend_above(gap_px=20, plot_px=PLOT_PX)
    set_layout(figure, xaxis=x_axis, yaxis=y_axis, showlegend=True, legend=legend, barmode="overlay")
    return figure


def ragged_caption(points: pd.DataFrame) -> str:
    """The ragged rate as a share of its control at each batch size, and its unused KV memory."""
    pairs = [pair for pair in ragged_pairs(points) if pair.ratio is not None] if not points.empty else []
    if not pairs:
        return "No ragged batch and its control have been measured yet."
    texts = [
        f"{number(pair.ragged or 0)} of {quantity(pair.control or 0, 'tokens/s')} at B = {pair.batch_size:,} "
        f"({percent(pair.ratio or 0)}{f', control {pair.control_prompts}' if pair.control_prompts else ''})"
        for pair in pairs
    ]
    return f"Ragged batch vs uniform rows of the same width: {', '.join(texts)}.{_unused_text(pairs)}"


def _unused_text(pairs: list[RaggedPair]) -> str:
    unused = sorted(pair.unused for pair in pairs if pair.unused is not None)
    if not unused:
        return ""
    low, high = percent(unused[0]), percent(unused[-1])
    return f" {low if low == high else f'{low} to {high}'} of its KV memory was unused."


def _only(rows: pd.DataFrame, column: str) -> float | None:
    """The value of the only row; None without a row, a column or a value."""
    if rows.empty or column not in rows or pd.isna(rows[column].iloc[0]):
        return None
    return float(rows[column].iloc[0])


def _add_bars(
    figure: go.Figure, role: str, side: float, sizes: list[int], pairs: dict[int, RaggedPair], dark: bool
) -> None:
    colors = palette(dark)
    marker: dict[str, Any] = {"color": colors.decode, "line": {"width": 1, "color": colors.surface}}
    if role == "ragged":
        pattern = {"shape": ".", "fillmode": "overlay", "fgcolor": colors.padding_line, "size": 6, "solidity": 0.3}
        marker |= {"color": colors.padding, "pattern": pattern}
    values = [getattr(pairs[size], role) for size in sizes]
    is_crowded = len(sizes) > MAX_VALUES  # then only shares are above the bars; hover texts have the rates
    texts = ["" if value is None or is_crowded else number(value) for value in values]
    if role == "ragged":
        shares = [_share_text(pairs[size].ratio) for size in sizes]
        texts = ["<br>".join(filter(None, pair)) for pair in zip(texts, shares, strict=True)]
    figure.add_bar(
        x=[place + side for place in range(len(sizes))],
        y=values,
        width=2 * SIDE - 0.04,
        marker=marker,
        text=texts,
        textposition="outside",
        textangle=0,
        cliponaxis=False,
        constraintext="none",
        textfont={"size": 12, "color": colors.text},
        name=legend_name(role),
        hovertemplate=f"<b>{role}</b><br>%{{y:,.3r}}\u00a0tokens/s<extra></extra>",
    )


def _share_text(ratio: float | None) -> str:
    return "" if ratio is None else exact(round(100 * ratio), "%") if ratio >= 0.1 else percent(ratio)


def _tick(pair: RaggedPair) -> str:
    return f"{pair.batch_size:,}" + (f"<br>{pair.control_prompts}" if pair.control_prompts else "")


def _add_crosses(figure: go.Figure, failed: pd.DataFrame, sizes: list[int], dark: bool) -> None:
    if failed.empty:
        return
    rows = records(failed)
    sides = {"control": -SIDE, "ragged": SIDE}
    figure.add_scatter(
        x=[sizes.index(int(row["batch_size"])) + sides[str(row["role"])] for row in rows],
        y=[0] * len(rows),
        mode="markers",
        marker={"size": 11, "symbol": "x", "color": palette(dark).dead},
        text=[failed_text(row | {"series": row["role"]}) for row in rows],
        hovertemplate="%{text}<extra></extra>",
        name=legend_name("failed"),
        cliponaxis=False,
    )


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sweep.sample import sample_ragged

    sample = sample_ragged()
    show([ragged_bars(sample, title="A ragged batch and its control"), ragged_bars(sample, dark=True)])
