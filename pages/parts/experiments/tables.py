"""The tables of an experiment: links to runs, how each attempt ended, a table that sorts and scrolls, and the CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st

from engine.core.format import MISSING
from pages.parts.experiments.description import status_text
from pages.parts.shared.links import run_link
from pages.parts.shared.page_state import page_key

TABLE_ROWS = 14
SHORT_STATUS = 12  # letters; a column is as wide as its first rows, and failures come late


class Attempts(NamedTuple):
    """Every point and repeat by itself, in the order of running: a way to its run, and how it ended."""

    run: list[str | None]
    repeat: pd.Series
    status: list[str]
    error: pd.Series


def attempts_of(points: pd.DataFrame) -> Attempts:
    """The columns that every kind's table of attempts has. `points` are the store's, a row a repeat."""
    rows = points.to_dict("records")
    return Attempts(
        run=run_links([_open_run(row) for row in rows]),
        repeat=points["repeat"].astype(int) + 1,
        status=[status_text(row) for row in rows],
        error=points["error"],
    )


def _open_run(row: Mapping[str, Any]) -> str | None:
    """The run of a point that can be opened: that of its record, or the one that is going now."""
    live = row.get("live_run_id")
    return str(row["run_id"]) if row["has_run"] else live if isinstance(live, str) else None


def run_links(run_ids: Sequence[str | None]) -> list[str | None]:
    """The addresses of runs; None where there is no run."""
    return [None if run_id is None else run_link(run_id) for run_id in run_ids]


def first_run_links(run_ids: Iterable[Sequence[str | None]]) -> list[str | None]:
    """Of each row's runs the address of the first; None where a row has none."""
    return run_links([next(filter(None, ids), None) for ids in run_ids])


def joined_ids(run_ids: Iterable[Sequence[str | None]]) -> list[str]:
    """Each row's runs in one cell of a CSV."""
    return [" ".join(filter(None, ids)) for ids in run_ids]


def table_height(rows: int) -> int | str:
    """As high as its rows; a long table scrolls."""
    return "content" if rows <= TABLE_ROWS else 35 * (TABLE_ROWS + 1)


def show_table(frame: pd.DataFrame, key: str, *, figures: Iterable[str], whole: str) -> None:
    """A table: `figures` are columns with few digits, `whole` one of whole numbers, runs are links."""
    number_column, link = st.column_config.NumberColumn, st.column_config.LinkColumn
    config: dict[str, Any] = {name: number_column(format="%.4g") for name in figures}
    config |= {whole: number_column(format="localized"), "run": link("run", display_text="open", width="small")}
    if "status" in frame and frame["status"].str.len().max() > SHORT_STATUS:
        config["status"] = st.column_config.Column("status", width="medium")
    height = table_height(len(frame))
    st.dataframe(frame, hide_index=True, height=height, column_config=config, placeholder=MISSING, key=page_key(key))


def draw_csv(csv: str, kind: str, experiment_id: str) -> None:
    """The table to take along."""
    st.download_button(
        "Download as CSV",
        csv,
        file_name=f"{kind}_{experiment_id}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=page_key("csv"),
    )
