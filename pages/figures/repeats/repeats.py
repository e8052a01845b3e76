"""Every repeat as a dot, engines side by side; repeats run left to right and are joined, so drift shows as a slope.

A wide tick is an engine's median; its value is also under the engine's name. A run that did not complete is a cross at
the bottom, and the line has a gap there. The figure compares the distance between engines with the spread of repeats,
so the value axis begins at 0 only where values come near it; otherwise its title says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import pandas as pd
import plotly.graph_objects as go

from engine.core.format import number
from pages.figures.colors import engine_symbol, palette, series_styles
from pages.figures.frames import records
from pages.figures.layout import axis, legend_above, legend_name, literal, new_figure, note_figure, set_layout
from pages.figures.load.axes import failure_text
from pages.figures.repeats.measures import MEASURES, RepeatMeasure, times_text

PLOT_PX = 260
LEGEND_PX = 24
HALF_BAND = 0.36  # the dots of an engine, on either side of its middle; engines are 1 apart
HALF_TICK = 0.43
MANY = 15  # from this number of repeats on, dots are smaller
MIN_SPAN = 0.04  # of the values: a narrower axis would exaggerate small differences
EMPTY = "No run has completed."
NO_VALUES = "No completed run has this metric."


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRange:
    """The range of the value axis, as drawn."""

    low: float
    high: float


def repeat_dots(rows: pd.DataFrame, measure: RepeatMeasure, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw rows, one per run: series, repeat (from 0), status, error and the column `measure.name`."""
    done = rows[rows["status"] == "completed"]
    known = done[measure.name].astype(float).dropna() if len(done) else pd.Series(dtype=float)
    if known.empty:
        return note_figure(NO_VALUES if len(done) else EMPTY, dark=dark, title=title)
    failed = rows[rows["status"].isin(["oom", "failed", "crashed", "stopped"])]
    engines = [str(name) for name in dict.fromkeys(rows["series"])]
    repeats = int(rows["repeat"].max()) + 1
    factor, unit = measure.axis_scale(float(known.max()))
    drawn = _range_of(known * factor)
    top = 8 + LEGEND_PX * bool(len(failed))
    figure = new_figure(plot_px=PLOT_PX, dark=dark, title=title, top=top, left=62, right=14)
    styles = series_styles(engines, dark)
    ticks = []
    for place, engine in enumerate(engines):
        mine = rows[rows["series"] == engine]
        middle = _add_engine(figure, mine, measure, place, repeats, factor, styles[engine].color)
        ticks.append(f"<b>{literal(engine)}</b><br>" + ("none" if middle is None else number(middle * factor)))
    if len(failed):
        _add_failed(figure, failed, engines, repeats, drawn.low, dark)
        legend = legend_above(gap_px=4, plot_px=PLOT_PX, indent_px=-4)
        set_layout(figure, showlegend=True, legend=legend)
    value_title = f"{unit}, not from 0" if drawn.low > 0 else unit
    sides = {"range": [-0.5, len(engines) - 0.5], "fixedrange": True, "showgrid": False, "tickangle": 0}
    set_layout(
        figure,
        xaxis=axis(dark, tickvals=list(range(len(engines))), ticktext=ticks, **sides),
        yaxis=axis(dark, title=value_title, range=[drawn.low, drawn.high], fixedrange=True, tickformat=",~r"),
    )
    return figure


def place_of(engine: int, repeat: int, repeats: int) -> float:
    """The x position of a run: engines are 1 apart, repeats in order around the engine's middle."""
    return engine if repeats == 1 else engine + HALF_BAND * (2 * repeat / (repeats - 1) - 1)


def _range_of(values: pd.Series) -> ValueRange:
    low, high = float(values.min()), float(values.max())
    if high <= 0:
        return ValueRange(low=0.0, high=1.0)
    if low < high / 2:
        return ValueRange(low=0.0, high=1.08 * high)
    span = max(high - low, MIN_SPAN * high)
    middle = (low + high) / 2
    return ValueRange(low=max(0.0, middle - 0.65 * span), high=middle + 0.65 * span)


def _add_engine(
    figure: go.Figure, mine: pd.DataFrame, measure: RepeatMeasure, engine: int, repeats: int, factor: float, color: str
) -> float | None:
    """Add an engine's dots, joined from repeat to repeat, and the tick at its median; return the median."""
    done = mine[mine["status"] == "completed"]
    values = {int(row["repeat"]): row[measure.name] for row in records(done)}
    values = {repeat: float(value) for repeat, value in values.items() if value is not None and not pd.isna(value)}
    if not values:
        return None
    name, middle = str(mine["series"].iloc[0]), float(median(values.values()))
    figure.add_scatter(
        x=[engine - HALF_TICK, engine + HALF_TICK],
        y=[middle * factor] * 2,
        mode="lines",
        line={"width": 2.5, "color": color},
        opacity=0.45,
        name=f"{name}, median",
        showlegend=False,
        hoverinfo="skip",
    )
    order = range(repeats)
    figure.add_scatter(
        x=[place_of(engine, repeat, repeats) for repeat in order],
        y=[values[repeat] * factor if repeat in values else None for repeat in order],
        mode="lines+markers",
        connectgaps=False,
        line={"width": 1.2, "color": color},
        marker={"size": 9 if repeats < MANY else 6, "symbol": engine_symbol(name), "color": color},
        name=name,
        showlegend=False,
        text=[_hover(name, repeat, values[repeat], middle, measure) if repeat in values else "" for repeat in order],
        hovertemplate="%{text}<extra></extra>",
        cliponaxis=False,
    )
    return middle


def _hover(name: str, repeat: int, value: float, middle: float, measure: RepeatMeasure) -> str:
    of_median = f"<br>{times_text(value / middle)} the median" if middle and value != middle else ""
    return f"<b>{literal(name)}</b>, repeat {repeat + 1}<br>{measure.text(value)}{of_median}"


def _add_failed(
    figure: go.Figure, failed: pd.DataFrame, engines: list[str], repeats: int, foot: float, dark: bool
) -> None:
    rows = records(failed)
    figure.add_scatter(
        x=[place_of(engines.index(str(row["series"])), int(row["repeat"]), repeats) for row in rows],
        y=[foot] * len(rows),
        mode="markers",
        marker={"size": 11, "symbol": "x", "color": palette(dark).dead, "line": {"width": 0}},
        name=legend_name("did not complete"),
        showlegend=True,
        text=[
            f"<b>{literal(str(row['series']))}</b>, repeat {int(row['repeat']) + 1}<br>{literal(failure_text(row))}"
            for row in rows
        ],
        hovertemplate="%{text}<extra></extra>",
        cliponaxis=False,
    )


if __name__ == "__main__":
    from pages.figures.demo import show

    rates = {"static": (231.0, 226.0, 219.0), "continuous": (305.0, 309.0, None)}
    rows = pd.DataFrame([
        {"series": engine, "repeat": repeat, "status": "oom" if rate is None else "completed", "error": None,
         "output_tokens_per_s": rate}
        for engine, of_engine in rates.items() for repeat, rate in enumerate(of_engine)
    ])  # fmt: skip
    show([repeat_dots(rows, MEASURES[0], dark=dark) for dark in (False, True)])
