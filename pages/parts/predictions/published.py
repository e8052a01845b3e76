"""The predictions of two published texts as examples: their range and reason, their grade, and the lab's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.predictions.prediction import grade
from engine.predictions.published_grades import GRADES, ask
from engine.predictions.published_predictions import PUBLISHED, PublishedPrediction, PublishedRatio
from pages.parts.predictions.text import BADGES, range_text, value_text
from pages.parts.runs.badges import Badge
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain

LOOKED_AT = 40  # experiments, the newest: an older one may have asked the same, but each costs a look
NOT_GRADED = Badge(
    label="not graded", icon=":material/hourglass_empty:", color="gray", help="The text ends before it measures this."
)
PAGES = {"pages/sweep.py": "Sweep", "pages/load.py": "Load", "pages/bench.py": "Bench"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabAnswer:
    """The same ratio as measured in this lab, and by which experiment; without a value, why that one has none."""

    value: float | None
    reason: str
    experiment_id: str
    kind: str


def draw_published() -> None:
    """Each as a card of its own."""
    answers = _lab_answers(str(lab().home), lab().recorder.version)
    for published in PUBLISHED:
        with st.container(border=True):
            _draw(published, answers)


def _draw(published: PublishedPrediction, answers: dict[str, LabAnswer]) -> None:
    badge = BADGES.get(published.grade, NOT_GRADED)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(badge.label, icon=badge.icon, color=badge.color, help=f"By the text itself: {published.found}")
        st.markdown(f"**{plain(published.expected)}**")
    lines = [f"*Why:* {plain(published.why)}", f"*What the text found:* {plain(published.found)}"]
    if published.ratio is not None:
        lines.append(plain(ratio_sentence(published.ratio)))
    if published.here:
        lines.append(f"*On one H200:* {plain(published.here)}")
    if published.ratio is not None:
        lines.append(f"*Here:* {plain(lab_text(published.ratio, answers.get(published.ratio.measure)))}")
    st.markdown("  \n".join(lines))
    label = f"Ask the same on {PAGES[published.page]}"
    st.page_link(published.page, label=label, icon=":material/science:", query_params=published.query)


def ratio_sentence(ratio: PublishedRatio) -> str:
    """`As a ratio: capacity of paged over that of continuous, 2x to 2.8x.`, and what the text measured of it."""
    words = f"As a ratio: {ratio.of}, {range_text(ratio.unit, ratio.low, ratio.high)}"
    if ratio.measured is None:
        return f"{words}."
    low, high = ratio.measured
    shown = value_text(ratio.unit, low) + (f" to {value_text(ratio.unit, high)}" if low != high else "")
    return f"{words}; the text measured {shown}."


def lab_text(ratio: PublishedRatio, found: LabAnswer | None) -> str:
    """The lab's own grade; or that nothing here has asked it yet, or why the newest of its kind gives none."""
    if found is None:
        return "no experiment in this store has asked it yet."
    if found.value is None:
        return f"no grade. Of the newest {found.kind}, {found.experiment_id}: {found.reason.removesuffix('.')}."
    outcome = "held" if grade(ratio.low, ratio.high, found.value).held else "missed"
    return f"{value_text(ratio.unit, found.value)}, {outcome}, by {found.kind} {found.experiment_id}."


@st.cache_data(max_entries=4, show_spinner=False)
def _lab_answers(home: str, version: int) -> dict[str, LabAnswer]:
    """By measure, each by the newest experiment that has one, else why the newest of its kind has none. Read anew when
    the store has changed."""
    store = lab().store
    experiments = store.experiments.list()
    measures = {published.ratio.measure for published in PUBLISHED if published.ratio is not None}
    found: dict[str, LabAnswer] = {}
    for row in experiments[experiments["completed"] > 0].head(LOOKED_AT).to_dict("records"):
        experiment_id, kind = str(row["experiment_id"]), str(row["kind"])
        rows: list[dict[str, Any]] | None = None
        for name in measures:
            known = found.get(name)
            if kind not in GRADES[name][0] or (known is not None and known.value is not None):
                continue
            rows = rows if rows is not None else store.experiments.measured_points(experiment_id)
            told = ask(name, rows, store.runs.completion_rate)
            if known is None or told.value is not None:
                found[name] = LabAnswer(value=told.value, reason=told.reason, experiment_id=experiment_id, kind=kind)
    return found
