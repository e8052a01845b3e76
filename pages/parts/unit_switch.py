"""The switch between steps and seconds of a timeline's axis; it is kept in the address."""

from __future__ import annotations

import streamlit as st

from pages.figures.spans import Unit

NAMES: dict[Unit, str] = {"step": "by step", "second": "by second"}


def unit_switch() -> Unit:
    """What the reader chose, steps at first."""
    options: list[Unit] = ["step", "second"]
    chosen = st.segmented_control(
        "Axis",
        options,
        default="step",
        required=True,
        format_func=lambda unit: NAMES[unit],
        key="unit",
        bind="query-params",
        label_visibility="collapsed",
    )
    return chosen or "step"
