"""How a load test's tables and sentences are drawn: tables sort and scroll, their runs are links; a line a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd
import streamlit as st

from pages.parts.format import MISSING, plain
from pages.parts.load_columns import FIGURES

TABLE_ROWS = 14


def show_table(frame: pd.DataFrame, key: str) -> None:
    """A frame of load_columns."""
    number_column, link = st.column_config.NumberColumn, st.column_config.LinkColumn
    digits = [name for name in frame if name in FIGURES or "requests/s" in name]
    config: dict[str, Any] = {name: number_column(format="%.4g") for name in digits}
    config |= {"n": number_column(format="localized"), "run": link("run", display_text="open", width="small")}
    height = "content" if len(frame) <= TABLE_ROWS else 35 * (TABLE_ROWS + 1)
    st.dataframe(frame, hide_index=True, height=height, column_config=config, placeholder=MISSING, key=key)


def lines(sentences: Iterable[str]) -> str:
    """Sentences as Markdown, each on a line of its own; empty ones are left out."""
    return "  \n".join(plain(sentence) for sentence in sentences if sentence)
