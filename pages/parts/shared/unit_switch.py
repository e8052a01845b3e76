"""The switch between steps and seconds of a timeline's axis. It is kept in the address, as `?unit=seconds`."""

from __future__ import annotations

import streamlit as st

from pages.figures.timeline.spans import Unit
from pages.parts.shared.page_state import linked, one_of, setting

UNIT = "unit"
UNITS: dict[str, Unit] = {"steps": "step", "seconds": "second"}


def unit_switch() -> Unit:
    """What the reader chose, steps at first."""
    with linked(UNIT, "steps", one_of(list(UNITS))) as key:
        chosen = st.segmented_control(
            "Axis", list(UNITS), required=True, key=key, persist_state="page", label_visibility="collapsed"
        )
    return UNITS.get(chosen or "steps", "step")


def chosen_unit() -> Unit:
    """The same for a figure further down the page."""
    return UNITS.get(setting(UNIT) or "steps", "step")
