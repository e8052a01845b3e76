"""The switch between steps and seconds of a timeline's axis. It is kept in the address, as `?unit=seconds`."""

from __future__ import annotations

import streamlit as st

from pages.figures.spans import Unit

UNIT = "unit"
UNITS: dict[str, Unit] = {"steps": "step", "seconds": "second"}


def unit_switch() -> Unit:
    """What the reader chose, steps at first."""
    chosen = st.segmented_control(
        "Axis", list(UNITS), default="steps", required=True, key=UNIT, bind="query-params", label_visibility="collapsed"
    )
    return UNITS.get(chosen or "steps", "step")


def chosen_unit() -> Unit:
    """The same for a figure further down the page."""
    return UNITS.get(st.session_state.get(UNIT) or "steps", "step")
