"""The answer to a query: a chart where the columns suit one, the table, the files; or the error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
import streamlit as st

from engine.core.format import duration, plural
from pages.figures.query.answer import (
    KINDS,
    Drawing,
    answer_caption,
    answer_chart,
    axis_columns,
    can_draw,
    label_columns,
    numeric_columns,
    suggested,
)
from pages.parts.query.asking import AskedQuery
from pages.parts.query.link import QUESTION, link_to, params_of, prepared_as
from pages.parts.query.saved import draw_save
from pages.parts.runs.run_text import when
from pages.parts.shared.lab import is_dark, lab
from pages.parts.shared.links import run_link
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from pages.parts.shared.tables import TABLE_FORMAT
from store.sandbox import Refusal
from store.sandbox.answer_files import to_arrow, to_csv, to_parquet
from store.snapshot.snapshot import Snapshot

FORMATS: tuple[tuple[str, str, str, Callable[[pa.Table], bytes]], ...] = (
    ("CSV", "csv", "text/csv", to_csv),
    ("Parquet", "parquet", "application/vnd.apache.parquet", to_parquet),
    ("Arrow", "arrow", "application/vnd.apache.arrow.file", to_arrow),
)
NO_CHART, NO_COLOR = "none", "none"
CHART = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}


def draw_refusal(refusal: Refusal) -> None:
    """The error and its place in the query."""
    if refusal.reason == "canceled":
        st.info("Canceled.", icon=":material/cancel:")
        return
    place = refusal.place
    where = f"  \nLine {place.line}, column {place.column}:" if place is not None else ""
    message = "  \n".join(plain(line) for line in str(refusal).splitlines() if line.strip())
    st.error(f"{message}{where}", icon=":material/error:")
    if place is not None:
        st.code(place.drawn(), language=None)


def draw_answer(asked: AskedQuery) -> None:
    """The number of rows, the chart, the table and the downloads."""
    assert asked.answer is not None
    assert asked.frame is not None
    frame, answer = asked.frame, asked.answer
    prepared = prepared_as(asked.sql)
    if prepared is not None:
        st.subheader(plain(prepared.title), anchor=False)
        st.markdown(plain(prepared.shows))
    st.caption(f"{plural(len(frame), 'row')} in {duration(answer.seconds)}. {snapshot_line(asked.snapshot)}")
    if answer.more is not None:
        st.warning(cut_text(answer.more, len(frame)), icon=":material/content_cut:")
    drawing = _draw_controls(asked, frame)
    if frame.empty:
        st.info(
            "No rows." if answer.more is None else "Not even one row fits the size limit.", icon=":material/table_rows:"
        )
        return
    if drawing is not None:
        figure = answer_chart(frame, drawing, dark=is_dark())
        key = page_key(f"chart_{asked.number}")
        st.plotly_chart(figure, key=key, theme=None, config=CHART, alt="The answer as a chart")
        st.caption(plain(answer_caption(frame, drawing)))
    shown, config = as_shown(frame)
    st.dataframe(shown, hide_index=True, column_config=config, alt="The answer")
    _draw_downloads(asked)


def cut_text(more: str, rows: int) -> str:
    """Why rows are missing, and what to do."""
    if more == "bytes":
        return f"The first {rows:,} rows: an answer is limited to 32\u00a0MiB. Select fewer columns to get more rows."
    return f"The first {rows:,} rows: there are more. Raise “Max rows”, or use LIMIT or GROUP BY."


def link_text(params: Mapping[str, str]) -> str:
    """What a link with these parameters does when it is opened."""
    does = "runs the query" if QUESTION in params else "fills the editor with the query"
    return f"This link {does} when opened, as does the page's address."


def snapshot_line(snapshot: Snapshot | None) -> str:
    """When the snapshot was taken, and whether the store has changed since."""
    if snapshot is None:
        return ""
    line = f"Snapshot of {when(snapshot.made_at)} ({ago(snapshot.age_s)}), {plural(snapshot.runs, 'run')}."
    return (
        f"{line} Runs have changed since: run the query again to see them."
        if lab().store.snapshots.is_stale()
        else line
    )


def ago(age_s: float) -> str:
    """`just now`, `12 seconds ago`, `2 days ago`."""
    if age_s < 2:
        return "just now"
    for length, noun in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if age_s >= length:
            return f"{plural(int(age_s // length), noun)} ago"
    return f"{plural(int(age_s), 'second')} ago"


def _draw_controls(asked: AskedQuery, frame: pd.DataFrame) -> Drawing | None:
    """The buttons for chart, link and saving. Returns the chosen chart; the default is one that suits the answer."""
    default = default_drawing(asked.sql, frame)
    with st.container(horizontal=True, vertical_alignment="center"):
        drawing = _draw_chart_choice(asked.number, frame, default) if numeric_columns(frame) else None
        params = params_of(asked.sql)
        with st.popover("Link", icon=":material/link:"):
            if params is None:
                st.caption("This query is too long for a link (4,000 characters). Save it instead.")
            else:
                st.caption(link_text(params))
                st.code(link_to(st.context.url or "/query", params), language=None, wrap_lines=True)
        draw_save(asked.sql)
    return drawing if drawing is not None and can_draw(frame, drawing) else None


def default_drawing(sql: str, frame: pd.DataFrame) -> Drawing | None:
    """The chart of a prepared query; for another query, one that suits the columns."""
    prepared = prepared_as(sql)
    if prepared is None:
        return suggested(frame)
    chart = prepared.chart
    if chart is None or len(frame) < 2:
        return None
    drawing = Drawing(kind=chart.kind, x=chart.x, y=chart.y, color=chart.color)
    return drawing if can_draw(frame, drawing) else suggested(frame)


def _draw_chart_choice(number: int, frame: pd.DataFrame, default: Drawing | None) -> Drawing | None:
    xs, ys, labels = axis_columns(frame), numeric_columns(frame), label_columns(frame)
    with st.popover("Chart", icon=":material/bar_chart:"):
        kinds = (NO_CHART, *KINDS)
        kind = st.selectbox("Kind", kinds, kinds.index(default.kind) if default else 0, key=page_key(f"kind_{number}"))
        x = st.selectbox("x", xs, xs.index(default.x) if default else 0, key=page_key(f"x_{number}"))
        y = st.selectbox("y", ys, ys.index(default.y) if default else 0, key=page_key(f"y_{number}"))
        colors = (NO_COLOR, *labels)
        place = colors.index(default.color) if default and default.color in labels else 0
        color = st.selectbox("Color", colors, place, key=page_key(f"color_{number}"))
    if kind == NO_CHART:
        return None
    return Drawing(kind=kind, x=x, y=y, color=None if color == NO_COLOR else color)


def as_shown(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table with runs as links to their pages and numbers with few digits."""
    config: dict[str, Any] = {}
    links = {}
    for name in map(str, frame.columns):
        column = frame[name]
        if name == "run_id" or name.endswith("_run_id"):
            links[name] = column.map(lambda value: value if pd.isna(value) else run_link(value))
            config[name] = st.column_config.LinkColumn(name, display_text=r"run_id=(.*)$")
        elif pd.api.types.is_float_dtype(column):
            config[name] = st.column_config.NumberColumn(name, format=TABLE_FORMAT)
        elif pd.api.types.is_integer_dtype(column):
            config[name] = st.column_config.NumberColumn(name, format="localized")
    return frame.assign(**links), config


def _draw_downloads(asked: AskedQuery) -> None:
    assert asked.answer is not None
    table = asked.answer.table
    with st.container(horizontal=True):
        for title, ending, mime, convert in FORMATS:
            st.download_button(
                title,
                data=partial(convert, table),
                file_name=f"answer.{ending}",
                mime=mime,
                key=page_key(f"{ending}_{asked.number}"),
                icon=":material/download:",
                on_click="ignore",
            )
