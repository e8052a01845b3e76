"""The form for predictions of a job, on the pages that start one.

Predictions are drafts in the visitor's session until a job that can grade them starts; they are stored before it is
queued. A typed prediction counts without being added: if it is incomplete, the page shows an error and starts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from engine.core.format import plural
from engine.predictions.prediction import MAX_WHY, MEASURES, RUN_METRICS, Expectation, Question
from engine.predictions.questions import USUAL, Choice
from pages.parts.predictions.text import entry_of, range_text
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from store.predictions.predictions import Subject

METRICS = (*USUAL, *(name for name in RUN_METRICS if name not in USUAL))
DRAFTS = "lab.prediction_drafts"
EMPTY = {"low": None, "high": None, "why": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A prediction whose job has not started."""

    choice: Choice
    metric: str
    expected: Expectation

    @property
    def question(self) -> Question:
        return self.choice.question(self.metric)

    @property
    def text(self) -> str:
        label, unit = self.question.label, self.question.unit
        return f"{label}: {range_text(unit, self.expected.low, self.expected.high)}"


class PredictionForm:
    """The form of one page. `name` is the prefix of its fields and drafts."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._drafts = f"{DRAFTS}.{name}"

    @property
    def drafts(self) -> tuple[Draft, ...]:
        """The added predictions whose job has not started."""
        return tuple(st.session_state.get(self._drafts, ()))

    def draw(self, choices: Sequence[Choice]) -> None:
        """Draw the form and the drafts, collapsed while there are none."""
        drafts = self.drafts
        title = "Predictions" + (f" ({len(drafts)} added)" if drafts else "")
        with st.expander(title, icon=":material/psychology:", expanded=bool(drafts)):
            st.caption(
                "Predict a range, with a reason, before you run. The prediction closes when the job's first run starts "
                "and is graded after that run: held or missed, and by how much."
            )
            if not choices:
                st.caption("Fix the settings above first.")
            else:
                self._draw_fields(choices)
            for place, draft in enumerate(drafts):
                self._draw_draft(place, draft, choices)

    def problem(self, choices: Sequence[Choice]) -> str | None:
        """Why the job must not start: a typed prediction is incomplete. None where there is no problem."""
        if not choices or not self._is_touched():
            return None
        try:
            self._typed(choices)
        except ValueError as error:
            return f"The prediction is incomplete: {error}. Complete it, or clear its fields."
        return None

    def collect(self, choices: Sequence[Choice], engines: Sequence[str] | None = None) -> list[Draft]:
        """The predictions that the job can grade: the added ones, and a complete one that is typed but not added.

        With `engines`, those that need no other engine; else those whose choice is among `choices`.
        """
        drafts = list(self.drafts)
        if choices and self._is_touched():
            drafts.append(self._typed(choices))
        if engines is not None:
            return [draft for draft in drafts if set(draft.choice.engines) <= set(engines)]
        return [draft for draft in drafts if draft.choice in choices]

    def forget(self, drafts: Sequence[Draft]) -> None:
        """Remove drafts that belong to a started job. Clears the fields if one of them was only typed."""
        if any(draft not in self.drafts for draft in drafts):
            st.session_state[self._key("clear")] = True
        st.session_state[self._drafts] = tuple(draft for draft in self.drafts if draft not in drafts)

    def _draw_fields(self, choices: Sequence[Choice]) -> None:
        if st.session_state.pop(self._key("clear"), False):
            for field, empty in EMPTY.items():
                st.session_state[self._key(field)] = empty
        labels = {choice.label: choice for choice in choices}
        if st.session_state.get(self._key("what")) not in labels:
            st.session_state.pop(self._key("what"), None)
        left, right = st.columns(2)
        with left:
            choice = labels[str(st.selectbox("Subject", list(labels), key=self._key("what")))]
        with right:
            metric = str(
                st.selectbox(
                    "Metric",
                    METRICS,
                    format_func=lambda name: RUN_METRICS[name].label,
                    key=self._key("metric"),
                    disabled=not choice.needs_metric,
                    help="The glossary explains each metric",
                )
            )
        question = choice.question(metric)
        st.caption(MEASURES[question.measure].meaning if not choice.needs_metric else RUN_METRICS[metric].meaning)
        unit = entry_of(question.unit).unit
        low, high = st.columns(2)
        low.number_input(f"From, {unit}", value=None, key=self._key("low"), placeholder="open", format="%g")
        high.number_input(f"To, {unit}", value=None, key=self._key("high"), placeholder="open", format="%g")
        st.text_area(
            "Reason (required)", key=self._key("why"), max_chars=MAX_WHY, height=68, placeholder="Why you expect this"
        )
        st.button(
            "Add prediction", icon=":material/edit_note:", key=self._key("add"), on_click=self._add, args=(choices,)
        )
        if problem := st.session_state.pop(self._key("problem"), None):
            st.error(plain(problem), icon=":material/error:")

    def _draw_draft(self, place: int, draft: Draft, choices: Sequence[Choice]) -> None:
        with st.container(horizontal=True, vertical_alignment="center"):
            missing = "" if draft.choice in choices else "  \n:orange[No job of the current settings can grade it.]"
            st.markdown(f"**{plain(draft.text)}**, because {plain(draft.expected.why)}{missing}")
            st.button(
                "Remove",
                icon=":material/close:",
                key=f"{self._key('remove')}_{place}",
                on_click=self._remove,
                args=(place,),
            )

    def _add(self, choices: Sequence[Choice]) -> None:
        try:
            draft = self._typed(choices)
        except ValueError as error:
            st.session_state[self._key("problem")] = f"Not added: {error}."
            return
        st.session_state[self._drafts] = (*self.drafts, draft)
        st.session_state[self._key("clear")] = True

    def _remove(self, place: int) -> None:
        st.session_state[self._drafts] = tuple(d for i, d in enumerate(self.drafts) if i != place)

    def _is_touched(self) -> bool:
        low, high, why = (st.session_state.get(self._key(name)) for name in ("low", "high", "why"))
        is_cleared = st.session_state.get(self._key("clear"), False)
        return not is_cleared and (low is not None or high is not None or bool((why or "").strip()))

    def _typed(self, choices: Sequence[Choice]) -> Draft:
        """The prediction in the fields. ValueError, in one line, if it is incomplete."""
        state = st.session_state
        choice = next((c for c in choices if c.label == state.get(self._key("what"))), choices[0])
        metric = str(state.get(self._key("metric")) or METRICS[0])
        factor = entry_of(choice.question(metric).unit).factor
        low, high = (None if (end := state.get(self._key(name))) is None else end * factor for name in ("low", "high"))
        why = str(state.get(self._key("why")) or "")
        if not why.strip() and (low is not None or high is not None):
            raise ValueError("fill in the reason; a missed range without one teaches nothing")
        expected = Expectation(low=low, high=high, why=why)
        return Draft(choice=choice, metric=metric, expected=expected)

    def _key(self, field: str) -> str:
        return f"{self._name}.expect_{field}"


def add_predictions(subject: Subject, drafts: Sequence[Draft]) -> None:
    """Store predictions of a subject that has not begun. ValueError if it has."""
    for draft in drafts:
        lab().store.predictions.add(subject, _question_for(subject, draft), draft.expected)
    if drafts:
        st.toast(f"{plural(len(drafts), 'prediction')} stored.", icon=":material/edit_note:")


def _question_for(subject: Subject, draft: Draft) -> Question:
    """The question without the name of a point for a single run."""
    if subject.kind == "run":
        return Question(measure="metric", metric=draft.metric)
    return draft.question
