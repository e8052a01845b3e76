"""The predictions of two published texts as examples: range, reason, the text's grade and this lab's grade."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from engine.predictions.prediction import grade
from engine.predictions.published_grades import GRADES, ask
from engine.predictions.published_predictions import PUBLISHED, PublishedPrediction, PublishedRatio
from pages.figures.frames import records
from pages.parts.predictions.text import BADGES, range_text
from pages.parts.runs.badges import Badge
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.metric_text import value_text

LOOKED_AT = 40  # the newest experiments, which are searched for the same question
NOT_GRADED = Badge(
    label="not graded", icon=":material/hourglass_empty:", color="gray", help="The text does not measure this."
)
NOUNS = {"load": "load test", "repeats": "repeats experiment"}  # by kind of experiment
PAGES = {"pages/sweep.py": "Sweep", "pages/load.py": "Load", "pages/bench.py": "Bench"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabAnswer:
    """The same ratio as an experiment of this lab measured it; `reason` says why there is no `value`."""

    value: float | None
    reason: str
    experiment_id: str
    kind: str


def draw_published() -> None:
    """A card for each."""
    answers = _lab_answers(str(lab().home), lab().recorder.version)
    for published in PUBLISHED:
        with st.container(border=True):
            _draw(published, answers)


def _draw(published: PublishedPrediction, answers: dict[str, LabAnswer]) -> None:
    badge = BADGES.get(published.grade, NOT_GRADED)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(
            f"{badge.label} in the text",
            icon=badge.icon,
            color=badge.color,
            help=f"According to the text: {published.found}",
        )
        st.markdown(f"**{plain(published.expected)}**")
    lines = [f"*Why:* {plain(published.why)}", f"*Result in the text:* {plain(published.found)}"]
    if published.ratio is not None:
        lines.append(plain(ratio_sentence(published.ratio)))
    if published.here:
        lines.append(f"*On one H200:* {plain(published.here)}")
    if published.ratio is not None:
        lines.append(f"*Here:* {plain(lab_text(published.ratio, answers.get(published.ratio.measure)))}")
    st.markdown("  \n".join(lines))
    label = f"Measure it on {PAGES[published.page]}"
    st.page_link(published.page, label=label, icon=":material/science:", query_params=published.query)


def ratio_sentence(ratio: PublishedRatio) -> str:
    """`As a ratio: capacity of paged over that of continuous, 2x to 2.8x.`, and the ratio that the text measured."""
    text = f"As a ratio: {ratio.of}, {range_text(ratio.unit, ratio.low, ratio.high)}"
    if ratio.measured is None:
        return f"{text}."
    low, high = ratio.measured
    shown = value_text(ratio.unit, low) + (f" to {value_text(ratio.unit, high)}" if low != high else "")
    return f"{text}; the text measured {shown}."


def lab_text(ratio: PublishedRatio, found: LabAnswer | None) -> str:
    """This lab's grade; or that no experiment has measured it, or why the newest of its kind gives no grade."""
    if found is None:
        return "not measured by any experiment in this store yet."
    noun = NOUNS.get(found.kind, found.kind)
    if found.value is None:
        return f"no grade. Of the newest {noun}: {found.reason.removesuffix('.')}."
    outcome = "held" if grade(ratio.low, ratio.high, found.value).held else "missed"
    return f"{value_text(ratio.unit, found.value)}, {outcome}, by {noun} {found.experiment_id}."


@st.cache_data(max_entries=4, show_spinner=False)
def _lab_answers(home: str, version: int) -> dict[str, LabAnswer]:
    """The newest experiment's answer by measure, or why the newest of its kind has none. Cached until the store
    changes."""
    store = lab().store
    experiments = store.experiments.list()
    measures = {published.ratio.measure for published in PUBLISHED if published.ratio is not None}
    found: dict[str, LabAnswer] = {}
    for row in records(experiments[experiments["completed"] > 0].head(LOOKED_AT)):
        experiment_id, kind = str(row["experiment_id"]), str(row["kind"])
        open_measures = [
            name for name in measures if kind in GRADES[name][0] and (name not in found or found[name].value is None)
        ]
        points = store.experiments.measured_points(experiment_id) if open_measures else []
        for name in open_measures:
            answer = ask(name, points, store.runs.completion_rate)
            if name not in found or answer.value is not None:
                found[name] = LabAnswer(
                    value=answer.value, reason=answer.reason, experiment_id=experiment_id, kind=kind
                )
    return found
