"""The answer to a query as a chart: two of its columns as bars, a line or points, a third one as colors.

The meaning of the columns is unknown: their names are the axis titles, and the caption gives the extremes. Many points
are thinned; the lowest and the highest of every stretch are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import counted, plural
from pages.figures.colors import DASHES, SeriesStyle, palette, series_styles
from pages.figures.layout import axis, legend_above, legend_name, literal, new_figure, note_figure

KINDS = ("bar", "line", "points")
PLOT_PX = 300
MAX_BARS = 60
MAX_POINTS = 4_000
MAX_COLORS = 6
LABEL_CHARACTERS = 28
DIGEST = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{12,64}")
NO_ROWS = "No row has both values."


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How to draw an answer: `kind` is one of KINDS, the others are column names."""

    kind: str
    x: str
    y: str
    color: str | None = None


def numeric_columns(frame: pd.DataFrame) -> list[str]:
    """Numeric columns, without booleans and ids."""
    return [str(name) for name in frame.columns if _is_number(frame[name]) and not is_id(str(name))]


def label_columns(frame: pd.DataFrame) -> list[str]:
    """Text columns, which can label points."""
    return [str(name) for name in frame.columns if _is_text(frame[name])]


def axis_columns(frame: pd.DataFrame) -> list[str]:
    """Columns for an x axis: numbers, times, text. Ids and digests order nothing and mean nothing to a reader."""
    drawn = (_is_number, _is_time, _is_text)
    return [str(n) for n in frame.columns if not holds_ids(frame[n]) and any(kind(frame[n]) for kind in drawn)]


def is_id(name: str) -> bool:
    """Whether a column holds ids or digests, by its name."""
    return name in ("id", "digest") or name.endswith(("_id", "_digest"))


def holds_ids(column: pd.Series) -> bool:
    """Whether a column holds ids or digests, by its name, or by its values where a query has renamed it."""
    if is_id(str(column.name)):
        return True
    return _is_text(column) and bool(column.dropna().map(lambda text: DIGEST.fullmatch(str(text)) is not None).all())


def suggested(frame: pd.DataFrame) -> Drawing | None:
    """A suitable drawing; None where a table is better: no numbers, or fewer than two rows."""
    values = [name for name in numeric_columns(frame) if not _is_identity(name)]
    if len(frame) < 2 or not values:
        return None
    times = [str(name) for name in frame.columns if _is_time(frame[name])]
    labels = [name for name in label_columns(frame) if not holds_ids(frame[name])]
    color = next((name for name in labels if 1 < frame[name].nunique() <= MAX_COLORS), None)
    if times:
        return Drawing(kind="line", x=times[0], y=values[0], color=color)
    first = next(iter(axis_columns(frame)))
    if first in label_columns(frame) and frame[first].is_unique and len(frame) <= MAX_BARS:
        return Drawing(kind="bar", x=first, y=values[0])
    if len(values) > 1:
        return Drawing(kind="points", x=values[0], y=values[1], color=color)
    return Drawing(kind="bar", x=first, y=values[0]) if first != values[0] and frame[first].is_unique else None


def can_draw(frame: pd.DataFrame, drawing: Drawing) -> bool:
    """True if the answer has the drawing's columns and rows to draw."""
    known = {drawing.x, drawing.y, drawing.color or drawing.x} <= set(map(str, frame.columns))
    is_drawable = drawing.x in axis_columns(frame) and drawing.y in numeric_columns(frame)
    return known and is_drawable and not _drawn_rows(frame, drawing).empty


def answer_chart(frame: pd.DataFrame, drawing: Drawing, *, dark: bool = False) -> go.Figure:
    """Draw the answer without the rows that have no x or no y; a note if no row is left.

    Bars that would cover each other, with several rows at one x, are drawn as points.
    """
    rows = _drawn_rows(frame, drawing)
    if rows.empty:
        return note_figure(NO_ROWS, dark=dark)
    styles = _styles(rows, dark)
    names = short_names(list(styles))
    figure = new_figure(plot_px=PLOT_PX, dark=dark, top=28 if len(styles) > 1 else 10, left=64)
    kind = drawn_kind(frame, drawing)
    if _is_text(rows["x"]):
        rows = rows.assign(x=rows["x"].astype(str).map(place_names(rows["x"].astype(str))))
    for series, style in styles.items():
        _add(figure, rows[rows["series"] == series], names[series], kind, style, drawing)
    if 1 < len(styles) <= MAX_COLORS:
        figure.update_layout(showlegend=True, legend=legend_above(gap_px=4, plot_px=PLOT_PX, indent_px=-4))
    places = rows["x"].nunique()
    figure.update_layout(barmode="group", bargap=0.3 if places > 6 else 1 - 0.1 * places)  # few bars stay narrow
    is_category = _is_text(rows["x"])
    kind_of_axis = "category" if is_category else "-"
    figure.update_xaxes(axis(dark, title=literal(drawing.x), automargin=is_category, type=kind_of_axis))
    figure.update_yaxes(
        axis(dark, title=literal(drawing.y), rangemode="tozero", nticks=6, tickformat=",~r", automargin=True)
    )
    return figure


def answer_caption(frame: pd.DataFrame, drawing: Drawing) -> str:
    """The lowest and the highest value with their places, and the rows that are not drawn."""
    rows = _rows(frame, drawing)
    if rows.empty:
        return NO_ROWS
    low, high = rows.iloc[int(rows["y"].argmin())], rows.iloc[int(rows["y"].argmax())]
    if low["y"] == high["y"]:
        text = f"{drawing.y} is {counted(float(low['y']))} in all rows"
    else:
        text = f"{drawing.y}: lowest {_point_text(low, drawing)}, highest {_point_text(high, drawing)}"
    drawn = len(_drawn_rows(frame, drawing))
    if drawn < len(rows):
        which = "the first" if drawing.kind == "bar" else "with the extremes of every stretch"
        text += f"; {drawn:,} of {len(rows):,} rows are drawn, {which}"
    if len(rows) < len(frame):
        missing = len(frame) - len(rows)
        text += f"; {plural(missing, 'row')} without one of the two values"
    return f"{text}."


def drawn_kind(frame: pd.DataFrame, drawing: Drawing) -> str:
    """The drawing's kind; points instead of bars where several rows share an x."""
    rows = _rows(frame, drawing)
    return "points" if drawing.kind == "bar" and rows.duplicated(["x", "series"]).any() else drawing.kind


def _rows(frame: pd.DataFrame, drawing: Drawing) -> pd.DataFrame:
    """The rows that have an x and a y, as columns x, y and series."""
    series = frame[drawing.color].astype(str) if drawing.color else pd.Series("", index=frame.index)
    rows = pd.DataFrame({"x": frame[drawing.x], "y": pd.to_numeric(frame[drawing.y]), "series": series})
    rows = rows.replace([np.inf, -np.inf], np.nan).dropna(subset=["x", "y"]).reset_index(drop=True)
    return rows.sort_values("x", kind="stable", ignore_index=True) if drawing.kind == "line" else rows


def _drawn_rows(frame: pd.DataFrame, drawing: Drawing) -> pd.DataFrame:
    rows = _rows(frame, drawing)
    if drawn_kind(frame, drawing) == "bar":
        return rows.head(MAX_BARS)
    return rows if len(rows) <= MAX_POINTS else _thinned(rows)


def _thinned(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the lowest and the highest y of each stretch along x; stretches are equally long."""
    order = np.argsort(rows["x"].to_numpy(), kind="stable")
    y = rows["y"].to_numpy(dtype=float)
    stretches = np.array_split(order, MAX_POINTS // 2)
    kept = {int(stretch[pick(y[stretch])]) for stretch in stretches if len(stretch) for pick in (np.argmin, np.argmax)}
    return rows.iloc[sorted(kept)].reset_index(drop=True)


def _styles(rows: pd.DataFrame, dark: bool) -> dict[str, SeriesStyle]:
    """A style per series; the same for all where there is one, or too many to distinguish."""
    names = [str(name) for name in dict.fromkeys(rows["series"])]
    if 1 < len(names) <= MAX_COLORS:
        return series_styles(names, dark)
    return dict.fromkeys(names, SeriesStyle(color=palette(dark).series[0], dash=DASHES[0]))


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Short names for the legend: without the parts at the end that all names share (`static, m, cpu`)."""
    parts = [name.split(", ") for name in names]
    shared = 0
    while len(names) > 1 and all(len(p) > shared + 1 and p[-1 - shared] == parts[0][-1 - shared] for p in parts):
        shared += 1
    kept = [", ".join(p[: len(p) - shared]) for p in parts]
    return {name: short[:LABEL_CHARACTERS] for name, short in zip(names, kept, strict=True)}


def place_names(texts: Iterable[str]) -> dict[str, str]:
    """A short name on the axis for each text, as Plotly shows it unchanged; no two texts share one."""
    names: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        name, place = text[:LABEL_CHARACTERS], 1
        while literal(name) in names.values():
            place += 1
            name = f"{text[:LABEL_CHARACTERS]} ({place})"
        names[text] = literal(name)
    return names


def _add(figure: go.Figure, rows: pd.DataFrame, name: str, kind: str, style: SeriesStyle, drawing: Drawing) -> None:
    """Add one series; `name` is its name in the legend."""
    hover = f"{literal(drawing.x)} %{{x}}<br>{literal(drawing.y)} %{{y:,.4~r}}<extra>{literal(name)}</extra>"
    shared = {"x": rows["x"], "y": rows["y"], "name": legend_name(name), "hovertemplate": hover}
    if kind == "bar":
        figure.add_bar(**shared, marker={"color": style.color})
    elif kind == "line":
        figure.add_scatter(
            **shared,
            mode="lines+markers" if len(rows) <= 200 else "lines",
            line={"width": 2, "color": style.color, "dash": style.dash},
            marker={"size": 6},
        )
    else:
        figure.add_scatter(**shared, mode="markers", marker={"size": 7, "color": style.color, "opacity": 0.75})


def _point_text(row: pd.Series, drawing: Drawing) -> str:
    x = row["x"]
    where = counted(float(x)) if isinstance(x, int | float | np.number) else str(x)[:LABEL_CHARACTERS]
    series = f", {row['series'][:LABEL_CHARACTERS]}" if drawing.color and drawing.color != drawing.x else ""
    return f"{counted(float(row['y']))} ({drawing.x} {where}{series})"


def _is_number(column: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def _is_time(column: pd.Series) -> bool:
    return bool(pd.api.types.is_datetime64_any_dtype(column))


def _is_text(column: pd.Series) -> bool:
    if pd.api.types.is_bool_dtype(column):
        return True
    is_text = pd.api.types.is_string_dtype(column) or pd.api.types.is_object_dtype(column)
    return bool(is_text and column.dropna().map(lambda value: isinstance(value, str)).all() and column.notna().any())


def _is_identity(name: str) -> bool:
    """True for a column whose numbers identify rows and measure nothing."""
    return name.endswith(("_id", "_index", "_pass")) or name in ("step", "lane", "slot", "chunk")


if __name__ == "__main__":
    from pages.figures.demo import show

    by_engine = pd.DataFrame({"engine": ["static", "continuous", "paged"], "dead_fraction": [0.39, 0.0, 0.0]})
    by_rows = pd.DataFrame(
        {
            "series": ["static"] * 4 + ["continuous"] * 4,
            "rows": [1, 2, 4, 8] * 2,
            "median_pass_s": [0.050, 0.052, 0.057, 0.066, 0.051, 0.053, 0.059, 0.069],
        }
    )
    line = Drawing(kind="line", x="rows", y="median_pass_s", color="series")
    bar = Drawing(kind="bar", x="engine", y="dead_fraction")
    show([answer_chart(by_engine, bar), answer_chart(by_rows, line), answer_chart(by_rows, line, dark=True)])
