"""Badges: small labels for how a run ended and what it is (random weights, simulated, watched).

Each badge has text and an icon besides its color. `run` is any mapping with the columns of the store's `runs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from engine.core.format import is_missing

Color = Literal["red", "orange", "blue", "green", "violet", "gray"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """`icon` is a Material symbol, `help` the tooltip."""

    label: str
    icon: str
    color: Color
    help: str


STATUS = {
    "running": Badge(label="running", icon=":material/play_circle:", color="blue", help="The run is in progress."),
    "completed": Badge(
        label="completed", icon=":material/check_circle:", color="green", help="Every request got its full answer."
    ),
    "stopped": Badge(
        label="stopped", icon=":material/stop_circle:", color="orange", help="Canceled before it completed."
    ),
    "oom": Badge(
        label="out of memory",
        icon=":material/memory:",
        color="red",
        help="A memory allocation failed and ended the run.",
    ),
    "failed": Badge(label="failed", icon=":material/error:", color="red", help="The run ended with an error."),
    "crashed": Badge(
        label="crashed",
        icon=":material/heart_broken:",
        color="red",
        help="The worker died before it wrote a result. Everything it logged is kept.",
    ),
}
RANDOM_WEIGHTS = Badge(
    label="random weights",
    icon=":material/casino:",
    color="orange",
    help="Real model shape, random weights: speed and memory are meaningful, the text is not.",
)
SIMULATED = Badge(
    label="simulated",
    icon=":material/function:",
    color="violet",
    help="No engine ran: step times come from a hardware model, on a virtual clock.",
)
WATCHED = Badge(
    label="watched live",
    icon=":material/visibility:",
    color="gray",
    help="A live page was open during the run and shared the machine; times may be a few percent longer.",
)


def status_badge(status: str) -> Badge:
    """The badge of a status; an unknown status is shown by its name."""
    return STATUS.get(status, Badge(label=status, icon=":material/help:", color="gray", help="An unknown status."))


def badges_of(run: Mapping[str, Any], *, with_status: bool = True) -> list[Badge]:
    """Every badge of a run, the most important first."""
    badges = [status_badge(str(run["status"]))] if with_status and run.get("status") else []
    for column, badge in (("simulated", SIMULATED), ("random_weights", RANDOM_WEIGHTS), ("watched", WATCHED)):
        value = run.get(column)
        if not is_missing(value) and value:
            badges.append(badge)
    return badges


def show_badges(run: Mapping[str, Any], *, with_status: bool = True) -> None:
    """Draw a run's badges in one row."""
    with st.container(horizontal=True, gap="small"):
        for badge in badges_of(run, with_status=with_status):
            st.badge(badge.label, icon=badge.icon, color=badge.color, help=badge.help)


def badge_text(run: Mapping[str, Any]) -> str:
    """The labels of a run's badges, for a table cell."""
    return ", ".join(badge.label for badge in badges_of(run))
