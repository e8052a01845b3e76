"""The answer to a question as a picture: two of its columns as bars, a line or points, a third one as colors.

It does not know what the columns mean: their names stand on the axes, and the caption tells extremes, not reasons.
Of many points only some are drawn, the least and the greatest of every stretch among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import counted, plural
from pages.figures.colors import DASHES, SeriesStyle, palette, series_styles
from pages.figures.layout import axis, legend_above, legend_name, new_figure, note_figure

KINDS = ("bar", "line", "points")
PLOT_PX = 300
MAX_BARS = 60
MAX_POINTS = 4_000
MAX_COLORS = 6
LABEL_CHARACTERS = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How to draw an answer: `kind` is one of KINDS, the others are names of columns."""

    kind: str
    x: str
    y: str
    color: str | None = None


def numeric_columns(frame: pd.DataFrame) -> list[str]:
    """Columns that can be measured: numbers, but not yes or no."""
    return [str(name) for name in frame.columns if _is_number(frame[name])]


def label_columns(frame: pd.DataFrame) -> list[str]:
    """Columns of words, which can tell points apart."""
    return [str(name) for name in frame.columns if _is_text(frame[name])]


def axis_columns(frame: pd.DataFrame) -> list[str]:
    """Columns that can be an x axis: numbers, times, words."""
    return [str(n) for n in frame.columns if _is_number(frame[n]) or _is_time(frame[n]) or _is_text(frame[n])]


def suggested(frame: pd.DataFrame) -> Drawing | None:
    """A drawing that suits the answer; None where a table says it better: no numbers, or fewer than two rows."""
    values = [name for name in numeric_columns(frame) if not _is_identity(name)]
    if len(frame) < 2 or not values:
        return None
    times = [str(name) for name in frame.columns if _is_time(frame[name])]
    color = next((name for name in label_columns(frame) if 1 < frame[name].nunique() <= MAX_COLORS), None)
    if times:
        return Drawing(kind="line", x=times[0], y=values[0], color=color)
    first = str(frame.columns[0])
    if first in label_columns(frame) and frame[first].is_unique and len(frame) <= MAX_BARS:
        return Drawing(kind="bar", x=first, y=values[0])
    if len(values) > 1:
        return Drawing(kind="points", x=values[0], y=values[1], color=color)
    return Drawing(kind="bar", x=first, y=values[0]) if first != values[0] and frame[first].is_unique else None


def can_draw(frame: pd.DataFrame, drawing: Drawing) -> bool:
    """Whether the answer has the columns that the drawing takes, and rows to draw."""
    known = {drawing.x, drawing.y, drawing.color or drawing.x} <= set(map(str, frame.columns))
    return known and drawing.y in numeric_columns(frame) and not _drawn_rows(frame, drawing).empty


def answer_chart(frame: pd.DataFrame, drawing: Drawing, *, dark: bool = False) -> go.Figure:
    """Draw the answer. Rows without an x or a y are left out; where none is left, a note stands in its place.

    Bars that would hide each other, since several rows share one place, are drawn as points.
    """
    rows = _drawn_rows(frame, drawing)
    if rows.empty:
        return note_figure("No row has both values.", dark=dark)
    styles = _styles(rows, dark)
    names = short_names(list(styles))
    figure = new_figure(plot_px=PLOT_PX, dark=dark, top=28 if len(styles) > 1 else 10, left=64)
    kind = drawn_kind(frame, drawing)
    for series, style in styles.items():
        _add(figure, rows[rows["series"] == series], names[series], kind, style, drawing)
    if 1 < len(styles) <= MAX_COLORS:
        figure.update_layout(showlegend=True, legend=legend_above(gap_px=4, plot_px=PLOT_PX, indent_px=-4))
    places = rows["x"].nunique()
    figure.update_layout(barmode="group", bargap=0.3 if places > 6 else 1 - 0.1 * places)  # few bars stay slim
    is_category = _is_text(rows["x"])
    figure.update_xaxes(axis(dark, title=drawing.x, automargin=is_category, type="category" if is_category else "-"))
    figure.update_yaxes(axis(dark, title=drawing.y, rangemode="tozero", nticks=6, tickformat=",~r", automargin=True))
    return figure


def answer_caption(frame: pd.DataFrame, drawing: Drawing) -> str:
    """The least and the greatest value, where they are, and what is not drawn."""
    rows = _rows(frame, drawing)
    if rows.empty:
        return "No row has both values."
    least, most = rows.loc[rows["y"].idxmin()], rows.loc[rows["y"].idxmax()]
    if least["y"] == most["y"]:
        said = f"{drawing.y} is {counted(float(least['y']))} everywhere"
    else:
        said = f"{drawing.y}: least {_told(least, drawing)}, most {_told(most, drawing)}"
    drawn = len(_drawn_rows(frame, drawing))
    if drawn < len(rows):
        which = "the first" if drawing.kind == "bar" else "the extremes of every stretch among them"
        said += f"; {drawn:,} of {len(rows):,} rows are drawn, {which}"
    if len(rows) < len(frame):
        lacking = len(frame) - len(rows)
        said += f"; {plural(lacking, 'row')} {'lacks' if lacking == 1 else 'lack'} one of the two values"
    return f"{said}."


def drawn_kind(frame: pd.DataFrame, drawing: Drawing) -> str:
    """The drawing's kind; points in place of bars where several rows share one place."""
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
    """The rows with the least and the greatest y of each of equally long stretches along x."""
    order = np.argsort(rows["x"].to_numpy(), kind="stable")
    y = rows["y"].to_numpy(dtype=float)
    stretches = np.array_split(order, MAX_POINTS // 2)
    kept = {int(stretch[pick(y[stretch])]) for stretch in stretches if len(stretch) for pick in (np.argmin, np.argmax)}
    return rows.iloc[sorted(kept)].reset_index(drop=True)


def _styles(rows: pd.DataFrame, dark: bool) -> dict[str, SeriesStyle]:
    """A style a series; where there is one alone, or too many to be told apart, the same for all."""
    names = [str(name) for name in dict.fromkeys(rows["series"])]
    if 1 < len(names) <= MAX_COLORS:
        return series_styles(names, dark)
    return dict.fromkeys(names, SeriesStyle(color=palette(dark).series[0], dash=DASHES[0]))


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Names for the legend: without the parts at their ends that all share (`static, m, cpu`), and not too long."""
    parts = [name.split(", ") for name in names]
    shared = 0
    while len(names) > 1 and all(len(p) > shared + 1 and p[-1 - shared] == parts[0][-1 - shared] for p in parts):
        shared += 1
    kept = [", ".join(p[: len(p) - shared]) for p in parts]
    return {name: short[:LABEL_CHARACTERS] for name, short in zip(names, kept, strict=True)}


def _add(figure: go.Figure, rows: pd.DataFrame, name: str, kind: str, style: SeriesStyle, drawing: Drawing) -> None:
    """Add one series; `name` is what the legend calls it."""
    x: Any = rows["x"].astype(str).str.slice(0, LABEL_CHARACTERS) if _is_text(rows["x"]) else rows["x"]
    hover = f"{drawing.x} %{{x}}<br>{drawing.y} %{{y:,.4~r}}<extra>{name}</extra>"
    shared = {"x": x, "y": rows["y"], "name": legend_name(name), "hovertemplate": hover}
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


def _told(row: pd.Series, drawing: Drawing) -> str:
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
    """Whether a number only names something: it is no quantity."""
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
