"""Output tokens/s over time: tokens counted in equal bins by their delivery time.

A rate is a count divided by the bin's width; nothing is smoothed. Bin widths are round numbers that grow with the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import duration, number, plural, quantity
from pages.figures.colors import palette, series_styles
from pages.figures.comparison import compared
from pages.figures.layout import axis, legend_above, legend_name, literal, new_figure, note_figure

PLOT_PX = 170
BINS = 30
NO_TOKENS = "No token has been delivered yet."
ROUND_BINS = (1.0, 2.0, 2.5, 5.0, 10.0)


def bin_seconds(duration_s: float) -> float:
    """A round bin width that gives at most about BINS bins; at least 50 ms."""
    least = max(duration_s / BINS, 0.05)
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in ROUND_BINS if step * power >= least * (1 - 1e-9))


def token_rates(delivered_s: np.ndarray, *, bin_s: float, end_s: float) -> tuple[np.ndarray, np.ndarray]:
    """The left edges of the bins up to `end_s` and the tokens/s in each. Every token is in one bin.

    The last bin ends at `end_s`: it is up to half a bin shorter than the others, or less than half a bin longer.
    """
    bins = max(math.floor(end_s / bin_s + 0.5), 1)
    edges = np.arange(bins) * bin_s
    at = np.clip(np.floor(delivered_s / bin_s + 1e-9).astype(int), 0, bins - 1)
    widths_s = np.diff(np.append(edges, max(end_s, edges[-1] + 1e-9)))
    return edges, np.bincount(at, minlength=bins) / widths_s


def tokens_over_time(
    tokens: pd.DataFrame,
    *,
    end_s: float | None = None,
    x_range: tuple[float, float] | None = None,
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """Draw tokens (column delivered_s; with a column `series` one line per run, on the same axes and bins).

    `end_s` is the end of the run, where it is known to be after the last token. Tokens that are not delivered yet
    (null) are left out. No tokens give a figure with a note.
    """
    tokens = tokens.dropna(subset=["delivered_s"]) if not tokens.empty else tokens
    if tokens.empty:
        return note_figure(NO_TOKENS, dark=dark, title=title)
    last_s = max(float(tokens["delivered_s"].max()), end_s or 0.0, 1e-3)
    bin_s = bin_seconds(x_range[1] if x_range else last_s)
    is_overlay = "series" in tokens
    figure = new_figure(plot_px=PLOT_PX, dark=dark, title=title, top=28 if is_overlay else 10, left=52)
    if is_overlay:
        _add_lines(figure, tokens, bin_s, dark)
        figure.update_layout(showlegend=True, legend=legend_above(gap_px=4, plot_px=PLOT_PX, indent_px=-4))
    else:
        _add_area(figure, tokens["delivered_s"].to_numpy(dtype=float), bin_s, last_s, dark)
    figure.update_xaxes(axis(dark, title=f"seconds, in bins of {duration(bin_s)}", range=list(x_range or (0, last_s))))
    figure.update_yaxes(axis(dark, title="output tokens/s", rangemode="tozero", nticks=5, tickformat=",~r"))
    return figure


def _points(delivered_s: np.ndarray, bin_s: float, end_s: float) -> tuple[np.ndarray, np.ndarray]:
    """The points of the step line: each bin's left edge and rate, and the last rate again at the end."""
    edges, rates = token_rates(delivered_s, bin_s=bin_s, end_s=end_s)
    return np.append(edges, max(end_s, edges[-1])), np.append(rates, rates[-1])


def _add_area(figure: go.Figure, delivered_s: np.ndarray, bin_s: float, end_s: float, dark: bool) -> None:
    x, y = _points(delivered_s, bin_s, end_s)
    color = palette(dark).decode
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines",
        line={"shape": "hv", "width": 1.6, "color": color},
        fill="tozeroy",
        fillcolor=f"{color}40",
        name="tokens/s",
        hovertemplate="%{y:,.3r}\u00a0tokens/s<extra></extra>",
    )


def _add_lines(figure: go.Figure, tokens: pd.DataFrame, bin_s: float, dark: bool) -> None:
    names = [str(name) for name in dict.fromkeys(tokens["series"])]
    styles = series_styles(names, dark)
    for name, mine in tokens.groupby("series", sort=False):
        delivered_s = mine["delivered_s"].to_numpy(dtype=float)
        x, y = _points(delivered_s, bin_s, float(delivered_s.max()))
        style = styles[str(name)]
        figure.add_scatter(
            x=x,
            y=y,
            mode="lines",
            line={"shape": "hv", "width": 2, "color": style.color, "dash": style.dash},
            name=legend_name(str(name)),
            hovertemplate=f"{literal(str(name))}: %{{y:,.3r}}\u00a0tokens/s<extra></extra>",
        )


def tokens_caption(
    tokens: pd.DataFrame, *, output_tokens_per_s: Mapping[str, float] | float | None = None, end_s: float | None = None
) -> str:
    """Tokens, time and the peak rate; of several runs, the peak rate of each.

    `output_tokens_per_s` is the run metric of that name, by series where there are several; None leaves it out.
    """
    tokens = tokens.dropna(subset=["delivered_s"]) if not tokens.empty else tokens
    if tokens.empty:
        return NO_TOKENS
    last_s = max(float(tokens["delivered_s"].max()), end_s or 0.0, 1e-3)
    bin_s = bin_seconds(last_s)
    if "series" in tokens and tokens["series"].nunique() > 1:
        by_run = {str(name): mine["delivered_s"].to_numpy(dtype=float) for name, mine in tokens.groupby("series")}
        peaks = {name: _peak_rate(mine, bin_s, float(mine.max())) for name, mine in by_run.items()}
        overall = f"{compared(output_tokens_per_s, number)}; " if isinstance(output_tokens_per_s, Mapping) else ""
        return f"Output tokens/s: {overall}peak over {duration(bin_s)}: {compared(peaks, number)}."
    overall = f"{quantity(output_tokens_per_s, 'tokens/s')}; " if isinstance(output_tokens_per_s, float) else ""
    peak = _peak_rate(tokens["delivered_s"].to_numpy(dtype=float), bin_s, last_s)
    return (
        f"{plural(len(tokens), 'token')} in {duration(last_s)}: {overall}"
        f"peak {quantity(peak, 'tokens/s')} over {duration(bin_s)}."
    )


def _peak_rate(delivered_s: np.ndarray, bin_s: float, end_s: float) -> float:
    return float(token_rates(delivered_s, bin_s=bin_s, end_s=end_s)[1].max())


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sample import sample_run

    runs = {name: sample_run(name).tokens for name in ("static", "continuous")}
    together = pd.concat([frame.assign(series=name) for name, frame in runs.items()])
    show([tokens_over_time(runs["static"]), tokens_over_time(together), tokens_over_time(together, dark=True)])
