"""How a load test's tables are drawn: they sort and scroll, three significant digits and more, runs as links."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from pages.parts.format import MISSING
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
