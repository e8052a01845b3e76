"""How the results of an experiment are drawn: still figures, tables that sort and scroll, a CSV, a line a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from engine.core.format import MISSING
from pages.parts.markdown import plain
from pages.parts.run_sections import STILL
from pages.parts.run_sections import show as show_figure

TABLE_ROWS = 14
SHORT_STATUS = 12  # letters; a column is as wide as its first rows, and failures come late


def draw_unreadable(error: ValueError) -> None:
    """Instead of an experiment's results, when its plan makes no sense."""
    st.error(f"This experiment cannot be shown: its plan is damaged: {plain(str(error))}", icon=":material/error:")


def show(figure: go.Figure, alt: str, key: str) -> None:
    """A figure that is looked at and not dragged about."""
    show_figure(figure, key=key, alt=alt, config=STILL)


def show_table(frame: pd.DataFrame, key: str, *, figures: Iterable[str], whole: str) -> None:
    """A table: `figures` are columns with few digits, `whole` one of whole numbers, runs are links."""
    number_column, link = st.column_config.NumberColumn, st.column_config.LinkColumn
    config: dict[str, Any] = {name: number_column(format="%.4g") for name in figures}
    config |= {whole: number_column(format="localized"), "run": link("run", display_text="open", width="small")}
    if "status" in frame and frame["status"].str.len().max() > SHORT_STATUS:
        config["status"] = st.column_config.Column("status", width="medium")
    height = "content" if len(frame) <= TABLE_ROWS else 35 * (TABLE_ROWS + 1)
    st.dataframe(frame, hide_index=True, height=height, column_config=config, placeholder=MISSING, key=key)


def draw_csv(csv: str, kind: str, experiment_id: str) -> None:
    """The table to take along."""
    st.download_button(
        "Download as CSV",
        csv,
        file_name=f"{kind}_{experiment_id}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=f"{kind}_csv",
    )


def lines(sentences: Iterable[str]) -> str:
    """Sentences as Markdown, each on a line of its own; empty ones are left out."""
    return "  \n".join(plain(sentence) for sentence in sentences if sentence)
