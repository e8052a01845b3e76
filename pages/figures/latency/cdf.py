"""Latencies as cumulative distributions: for each value, the share of samples at or below it. One step line per run.

p50 and p95 interpolate linearly between samples, so a mark may lie beside its step. On a logarithmic axis, values under
LOG_FLOOR_S are drawn at the left edge, where the line then begins above 0. Unbounded samples are right of every axis:
their line ends below 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import count, duration, exact
from engine.metrics.distribution import least_samples
from pages.figures.colors import SeriesStyle, palette, series_styles
from pages.figures.comparison import compared
from pages.figures.latency.curves import MARKED, Curve, curves_of
from pages.figures.layout import axis, label, literal, new_figure, note_figure, set_layout

LOG_DECADES = 2.0
LOG_FLOOR_S = 1e-4
SECONDS_FROM_S = 2.0
PLOT_PX = 230
ROW_PX = 19
MARK_TEXT_WIDTH = 0.27  # the text at a mark, as a share of a narrow phone's plot


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyAxis:
    """The value axis: its range in seconds, whether it is logarithmic, and the unit of its labels."""

    low_s: float
    high_s: float
    is_log: bool
    unit: Literal["ms", "s"]

    @property
    def scale(self) -> float:
        """Axis units per second."""
        return 1000.0 if self.unit == "ms" else 1.0

    def place(self, value_s: float) -> float:
        """The place of a value between the left edge (0) and the right edge (1)."""
        if self.is_log:
            value_s = max(value_s, self.low_s)
            return float(np.log(value_s / self.low_s) / np.log(self.high_s / self.low_s))
        return (value_s - self.low_s) / (self.high_s - self.low_s)

    def position(self, value_s: float) -> float:
        """A value in Plotly's coordinates for annotations: its logarithm on a logarithmic axis."""
        value = max(value_s, self.low_s) * self.scale if self.is_log else value_s * self.scale
        return float(np.log10(value)) if self.is_log else value


def latency_cdf(
    samples: pd.DataFrame,
    *,
    title: str,
    counted: str = "requests",
    log: bool | Literal["auto"] = "auto",
    x_range: tuple[float, float] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw samples (a frame as in `curves`; null values are left out) as one step line per series.

    `counted` names the samples, in the plural. `log` "auto" takes a logarithmic axis where values span more than two
    decades. `x_range`, in seconds, fixes the axis. No values give a figure with a note. A series with only unbounded
    samples has no line.
    """
    every = curves_of(samples)
    curves = {name: curve for name, curve in every.items() if len(curve.value_s)}
    if not curves:
        note = f"All {counted} are unbounded." if every else f"No {counted} with this value yet."
        return note_figure(note, dark=dark, title=title)
    x_axis = _x_axis([curve.value_s for curve in curves.values()], log, x_range)
    styles = series_styles(list(every), dark)
    figure = new_figure(plot_px=PLOT_PX, dark=dark, title=title, top=2 + ROW_PX * len(curves), left=50, right=16)
    for name, curve in curves.items():
        _add_line(figure, name, curve, x_axis, styles[name], counted)
    _add_end_labels(figure, curves, x_axis, styles)
    for share in MARKED:
        _add_marks(figure, curves, share, x_axis, styles, dark)
    y_axis = axis(
        dark,
        title=f"share of {counted}",
        range=[0, 1.02],
        tickvals=[0, 0.25, 0.5, 0.75, 0.95],
        ticktext=[exact(each, "%") for each in (0, 25, 50, 75, 95)],
        fixedrange=True,
    )
    # `meta` has no effect on the drawing: the timeline player marks a request's value in it.
    set_layout(figure, xaxis=_x_settings(x_axis, dark), yaxis=y_axis, meta={"scale": x_axis.scale})
    return figure


def _x_axis(
    values: Sequence[np.ndarray], log: bool | Literal["auto"], x_range: tuple[float, float] | None
) -> LatencyAxis:
    every = np.concatenate(values)
    measurable = every[every >= LOG_FLOOR_S]
    low, high = (float(measurable.min()), float(measurable.max())) if len(measurable) else (LOG_FLOOR_S, LOG_FLOOR_S)
    is_log = high / low > 10**LOG_DECADES if log == "auto" else log
    if x_range is not None:
        low, high = (max(x_range[0], LOG_FLOOR_S) if is_log else x_range[0]), x_range[1]
    elif is_log:
        low, high = low / 1.25, high * 1.25
    else:
        high = (float(every.max()) or LOG_FLOOR_S) * 1.04
        low = -0.02 * high if float(every.min()) < 0.01 * high else 0.0
    return LatencyAxis(low_s=low, high_s=high, is_log=bool(is_log), unit="s" if high >= SECONDS_FROM_S else "ms")


def _x_settings(x_axis: LatencyAxis, dark: bool) -> dict[str, object]:
    ends = [x_axis.position(x_axis.low_s), x_axis.position(x_axis.high_s)]
    settings: dict[str, object] = {"range": ends, "fixedrange": True}
    if x_axis.is_log:
        ticks = _log_ticks(10 ** ends[0], 10 ** ends[1])
        settings |= {"type": "log", "tickvals": ticks, "ticktext": [exact(tick) for tick in ticks]}
    else:
        settings |= {"tickformat": ",~r"}
    unit = "milliseconds" if x_axis.unit == "ms" else "seconds"
    return axis(dark, title=f"{unit}, logarithmic axis" if x_axis.is_log else unit, **settings)


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with 3 or 2 and 5 between them where decades are few; at least two ticks inside the range."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5)):
        ticks = [float(f"{step}e{power}") for power in powers for step in steps]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= 5:
            break
    return inside


def _add_line(
    figure: go.Figure, name: str, curve: Curve, x_axis: LatencyAxis, style: SeriesStyle, counted: str
) -> None:
    """The step line, from 0 at the smallest value to the share of the largest."""
    drawn = np.maximum(curve.value_s, x_axis.low_s) if x_axis.is_log else curve.value_s
    reached = np.concatenate([[0.0], curve.share])
    figure.add_scatter(
        x=np.concatenate([drawn[:1], drawn]) * x_axis.scale,
        y=reached,
        customdata=100 * reached,
        mode="lines",
        line={"shape": "hv", "width": 2.2, "color": style.color, "dash": style.dash},
        name=literal(name),
        hovertemplate=(
            f"<b>{literal(name)}</b><br>%{{customdata:,.3r}}\u00a0% of {counted}<br>"
            f"at most %{{x:,.3r}}\u00a0{x_axis.unit}<extra></extra>"
        ),
    )


def _add_end_labels(
    figure: go.Figure, curves: dict[str, Curve], x_axis: LatencyAxis, styles: dict[str, SeriesStyle]
) -> None:
    """Each line's name and n above its end, one row per line, joined to the end by a dotted line.

    Ends further right get higher rows and labels extend to the left, so nothing crosses.
    """
    by_end = sorted(curves, key=lambda name: curves[name].end_s)
    for row, name in enumerate(by_end):
        place = float(np.clip(x_axis.place(curves[name].end_s), 0.0, 1.0))
        color = styles[name].color
        rise_px = 8 + ROW_PX * row
        tie = {
            "x0": place,
            "x1": place,
            "xref": "x domain",
            "yref": "paper",
            "y0": float(curves[name].share[-1]) / 1.02,
            "y1": 1 + (rise_px - 7) / PLOT_PX,
        }
        figure.add_shape(type="line", line={"color": color, "width": 1, "dash": "dot"}, **tie)
        figure.add_annotation(
            label(
                f"<b>{literal(name)}</b>  {curves[name].count_text}",
                x=place,
                xref="x domain",
                y=1,
                yref="paper",
                yshift=rise_px + 2,
                xanchor="right" if place > 0.35 else "left",
                font={"size": 12, "color": color},
            )
        )


def _add_marks(
    figure: go.Figure,
    curves: dict[str, Curve],
    share: float,
    x_axis: LatencyAxis,
    styles: dict[str, SeriesStyle],
    dark: bool,
) -> None:
    """A mark at one percentile of each series; the outer two marks have their value as text.

    A percentile that is unbounded, or that too few samples support, has no mark.
    """
    marks = sorted(
        (c.marks[share], name)
        for name, c in curves.items()
        if np.isfinite(c.marks[share]) and (share == MARKED[0] or c.n >= least_samples(100 * share))
    )
    if not marks:
        return
    for value_s, name in marks:
        x = max(value_s, x_axis.low_s) if x_axis.is_log else value_s
        figure.add_scatter(
            x=[x * x_axis.scale],
            y=[share],
            mode="markers",
            marker={
                "size": 9,
                "color": styles[name].color,
                "symbol": "circle" if share == MARKED[0] else "diamond",
                "line": {"color": palette(dark).surface, "width": 1.5},
            },
            cliponaxis=False,
            hovertemplate=f"<b>{literal(name)}</b><br>p{share * 100:.0f} {duration(value_s)}<extra></extra>",
        )
    _add_mark_text(figure, marks, share, x_axis, styles, dark)


def _add_mark_text(
    figure: go.Figure,
    marks: Sequence[tuple[float, str]],
    share: float,
    x_axis: LatencyAxis,
    styles: dict[str, SeriesStyle],
    dark: bool,
) -> None:
    """Write the values of the outer two marks: the leftmost at its upper left, the rightmost at its lower right.

    No line runs there. At the plot's edges texts move inward; two on the same side are placed one below the other.
    """
    outer = [marks[0], marks[-1]] if len(marks) > 1 else marks
    left_of_mark = [
        x_axis.place(value_s) > edge for (value_s, _), edge in zip(outer, (MARK_TEXT_WIDTH, 0.8), strict=False)
    ]
    gap = x_axis.place(outer[-1][0]) - x_axis.place(outer[0][0])
    is_crowded = len(outer) > 1 and left_of_mark == [False, False] and gap < MARK_TEXT_WIDTH
    for i, (value_s, name) in enumerate(outer):
        to_left, is_first = left_of_mark[i], i == 0
        is_under = not is_first and gap < MARK_TEXT_WIDTH and (is_crowded or to_left)
        figure.add_annotation(
            label(
                f"p{share * 100:.0f} {duration(value_s)}",
                x=x_axis.position(value_s),
                y=share,
                xanchor="right" if to_left else "left",
                xshift=-8 if to_left else 8,
                yshift=9 if to_left and is_first else (-26 if is_under else -10),
                font={"size": 12, "color": styles[name].color},
                bgcolor=f"{palette(dark).surface}90",
                borderpad=0,
            )
        )


def latency_caption(samples: pd.DataFrame, name: str, *, counted: str = "requests") -> str:
    """Median and p95 of `name`, for example "queue wait"; of several runs, each against the first. The
    largest instead of a p95 that too few samples support."""
    curves = curves_of(samples)
    title = f"{name[0].upper()}{name[1:]}"
    if not curves:
        return f"No sample of the {name} yet."
    if len(curves) == 1:
        return f"{title}: {_curve_text(next(iter(curves.values())), counted)}."
    medians, tails = ({name: values[place] for name, values in _median_and_tail(curves).items()} for place in (0, 1))
    return f"{title}: median {compared(medians, duration)}; {_tail(curves)} {compared(tails, duration)}."


def _tail(curves: Mapping[str, Curve]) -> str:
    """`p95` where every curve has enough samples for it, else `largest`."""
    return "p95" if all(curve.n >= least_samples(95) for curve in curves.values()) else "largest"


def _median_and_tail(curves: Mapping[str, Curve]) -> dict[str, tuple[float, float]]:
    is_largest = _tail(curves) == "largest"
    return {
        name: (curve.marks[MARKED[0]], curve.largest_s if is_largest else curve.marks[MARKED[1]])
        for name, curve in curves.items()
    }


def _curve_text(curve: Curve, counted: str) -> str:
    if curve.num_unbounded == curve.n:
        return f"unbounded for all {count(curve.n)} {counted}"
    if curve.n == 1:
        return f"{duration(curve.end_s)}, a single sample"
    if curve.value_s[0] == curve.end_s and not curve.num_unbounded:
        return f"{duration(curve.end_s)} for all {count(curve.n)} {counted}"
    ((median, tail),) = _median_and_tail({"": curve}).values()
    unbounded = f"; {count(curve.num_unbounded)} unbounded" if curve.num_unbounded else ""
    which = _tail({"": curve})
    return f"median {duration(median)}, {which} {duration(tail)} over {count(curve.n)} {counted}{unbounded}"


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sample import sample_run

    waits = pd.concat(
        [
            sample_run(name).requests.assign(series=name, value_s=lambda frame: frame["ttft_s"])
            for name in ("static", "continuous")
        ]
    )
    show([latency_cdf(waits, title="Time to first token", dark=dark) for dark in (False, True)])
