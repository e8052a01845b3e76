"""How pages show figures: the lab's colors, few buttons, at most two columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pages.parts.shared.page_state import page_key

CHART = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}
STILL = {"displayModeBar": False}


def show(figure: go.Figure, *, key: str, alt: str, config: Mapping[str, Any] = CHART) -> None:
    """Draw a figure with the lab's colors and without a logo. `alt` is its text for screen readers."""
    st.plotly_chart(figure, key=page_key(f"figure_{key}"), theme=None, config=dict(config), alt=alt)


def show_still(figure: go.Figure, *, key: str, alt: str) -> None:
    """Draw a figure without buttons."""
    show(figure, key=key, alt=alt, config=STILL)


def in_columns(drawings: Sequence[Callable[[], None]]) -> None:
    """Two columns, row by row, so that neighbors start at the same height; on a phone one column."""
    for row in range(0, len(drawings), 2):
        for column, draw in zip(st.columns(2, gap="medium"), drawings[row : row + 2], strict=False):
            with column:
                draw()
