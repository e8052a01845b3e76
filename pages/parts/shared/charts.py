"""How pages show figures: the lab's colors, few buttons, pictures with title and source, at most two columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pages.parts.shared.page_state import page_key

CHART = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}
STILL = {"displaylogo": False, "modeBarButtons": [["toImage"]]}  # a picture, but no zoom
SUBJECTS = {"run_id": "Run", "runs": "Runs", "experiment": "Experiment"}  # in a page's address


def show(figure: go.Figure, *, key: str, alt: str, config: Mapping[str, Any] = CHART) -> None:
    """Draw a figure with the lab's colors and without a logo. `alt` is its text for screen readers, and the title of
    its picture."""
    figure.layout["meta"] = picture_text(alt)
    st.plotly_chart(figure, key=page_key(f"figure_{key}"), theme=None, config=dict(config), alt=alt)


def show_still(figure: go.Figure, *, key: str, alt: str) -> None:
    """Draw a figure that cannot be zoomed."""
    show(figure, key=key, alt=alt, config=STILL)


def picture_text(title: str) -> dict[str, str]:
    """What a figure's picture says besides its caption: title, source (the run ids in the address), file name."""
    ids = {noun: st.query_params[name] for name, noun in SUBJECTS.items() if name in st.query_params}
    source = "; ".join(f"{noun} {text.replace(',', ', ')}" for noun, text in ids.items())
    return {"title": title, "source": source or "The batching lab", "file": file_name(title, *ids.values())}


def file_name(*parts: str) -> str:
    """`slot-timeline-01kb…`: texts as a file's name, without an extension."""
    return "-".join(re.findall(r"\w+", " ".join(parts).lower()))[:80] or "figure"


def in_columns(drawings: Sequence[Callable[[], None]]) -> None:
    """Two columns, row by row, so that neighbors start at the same height; on a phone one column."""
    for row in range(0, len(drawings), 2):
        for column, draw in zip(st.columns(2, gap="medium"), drawings[row : row + 2], strict=False):
            with column:
                draw()
