"""The head of an experiment: what was asked, on what, what failed, and the button that brings its form back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from engine.core.config import RunConfig
from pages.parts.badges import RANDOM_WEIGHTS
from pages.parts.bench_fields import Field
from pages.parts.experiment_data import busy_line_of
from pages.parts.experiment_form import SHARED
from pages.parts.experiment_start import fill_form
from pages.parts.markdown import plain
from pages.parts.run_words import machine_line


def draw_experiment_head(line: str, info: Mapping[str, Any], points: pd.DataFrame, failures: Sequence[str]) -> None:
    """`line` says what was asked; `info` is the run.json of one of its runs, or empty; `failures` are list items.

    `points` are the store's, a row a repeat.
    """
    st.markdown(f"**{plain(line)}**" + (f"  \n{machine_line(info)}" if info else ""))
    if (info.get("model") or {}).get("random_weights"):
        st.badge(RANDOM_WEIGHTS.label, icon=RANDOM_WEIGHTS.icon, color=RANDOM_WEIGHTS.colour, help=RANDOM_WEIGHTS.help)
    if busy := busy_line_of(points):
        st.caption(f":material/speed: {busy}")
    if failures:
        st.warning("\n".join(failures), icon=":material/error:")


def draw_again(kind: str, noun: str, values: Mapping[str, Any], fields: Mapping[str, Field]) -> None:
    """The button that fills the form with an experiment's settings; `kind` tells its key."""
    st.button(
        "Set up the same again",
        icon=":material/replay:",
        help=f"Fill the form with this {noun}'s settings",
        key=f"{kind}_again",
        on_click=fill_form,
        args=(values, fields),
    )


def shared_values(config: RunConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What every form of an experiment has of one point's config and of the plan's settings."""
    own = {name: getattr(config, name) for name in SHARED if name not in ("seed", "block_size")}
    return own | {
        "block_size": str(config.block_size),
        "budget": config.workload.budget,
        "seed": config.workload.seed,
        "repeats": settings.get("repeats") or 1,
    }
