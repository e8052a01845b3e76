"""Tables of experiments: links to runs, how each attempt ended, sortable tables, and the CSV download."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import pandas as pd
import streamlit as st

from engine.core.format import MISSING
from pages.figures.frames import records
from pages.parts.experiments.description import status_text
from pages.parts.shared.links import run_link
from pages.parts.shared.page_state import page_key
from pages.parts.shared.tables import TABLE_FORMAT

TABLE_ROWS = 14
SHORT_STATUS = 12  # characters; a longer status gets a wider column


class Attempts(NamedTuple):
    """Every repeat of every point in running order: the link to its run, and how it ended."""

    run: list[str | None]
    repeat: pd.Series
    status: list[str]
    error: pd.Series


def attempts_of(points: pd.DataFrame) -> Attempts:
    """The columns that the tables of attempts share. `points` are the store's, a row per repeat."""
    rows = records(points)
    return Attempts(
        run=run_links([_open_run(row) for row in rows]),
        repeat=points["repeat"].astype(int) + 1,
        status=[status_text(row) for row in rows],
        error=points["error"],
    )


def _open_run(row: Mapping[str, Any]) -> str | None:
    """The run of a point: the recorded one, or the one that is running."""
    live = row.get("live_run_id")
    return str(row["run_id"]) if row["has_run"] else live if isinstance(live, str) else None


def run_links(run_ids: Sequence[str | None]) -> list[str | None]:
    """The addresses of runs; None for no run."""
    return [None if run_id is None else run_link(run_id) for run_id in run_ids]


def first_run_links(run_ids: Iterable[Sequence[str | None]]) -> list[str | None]:
    """The address of each row's first run; None for a row without runs."""
    return run_links([next(filter(None, ids), None) for ids in run_ids])


def joined_ids(run_ids: Iterable[Sequence[str | None]]) -> list[str]:
    """The runs of each row as one CSV cell."""
    return [" ".join(filter(None, ids)) for ids in run_ids]


def table_height(rows: int) -> int | Literal["content"]:
    """The height of a table: that of its rows, with a limit beyond which it scrolls."""
    return "content" if rows <= TABLE_ROWS else 35 * (TABLE_ROWS + 1)


def show_table(frame: pd.DataFrame, key: str, *, figures: Iterable[str], whole: str) -> None:
    """Draw a table. `figures` are columns shown with four digits, `whole` is a column of whole numbers."""
    number_column, link = st.column_config.NumberColumn, st.column_config.LinkColumn
    config: dict[str, Any] = {name: number_column(format=TABLE_FORMAT) for name in figures}
    config |= {whole: number_column(format="localized"), "run": link("run", display_text="open", width="small")}
    if "status" in frame and frame["status"].str.len().max() > SHORT_STATUS:
        config["status"] = st.column_config.Column("status", width="medium")
    height = table_height(len(frame))
    st.dataframe(frame, hide_index=True, height=height, column_config=config, placeholder=MISSING, key=page_key(key))


def draw_csv(csv: str, kind: str, experiment_id: str) -> None:
    """The button that downloads a table as CSV."""
    st.download_button(
        "Download as CSV",
        csv,
        file_name=f"{kind}_{experiment_id}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=page_key("csv"),
    )
