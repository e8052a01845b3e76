"""Before you run: what do you expect? A form that collects predictions for a job that is about to be started.

They stay with the visitor until a job starts that answers them, and are written down before it is queued. What is typed
but not added counts too: whoever presses Run with a prediction half typed is told, and nothing runs.
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
    """A prediction that is written but whose job has not been started."""

    choice: Choice
    metric: str
    expected: Expectation

    @property
    def question(self) -> Question:
        return self.choice.question(self.metric)

    @property
    def words(self) -> str:
        label, unit = self.question.label, self.question.unit
        return f"{label}: {range_text(unit, self.expected.low, self.expected.high)}"


class PredictionForm:
    """The form of one page. `name` keeps its fields and its drafts apart from those of other pages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._drafts = f"{DRAFTS}.{name}"

    @property
    def drafts(self) -> tuple[Draft, ...]:
        """What was added and not yet attached to a job."""
        return tuple(st.session_state.get(self._drafts, ()))

    def draw(self, choices: Sequence[Choice]) -> None:
        """The form and what was added, folded away until somebody has something to predict."""
        drafts = self.drafts
        title = "Before you run: what do you expect?" + (f" ({len(drafts)} written)" if drafts else "")
        with st.expander(title, icon=":material/psychology:", expanded=bool(drafts)):
            st.caption(
                "Write down a range and a reason. It is stored before the job starts, closed when its first run "
                "starts, and graded when that is over: held or missed, and by how much."
            )
            if not choices:
                st.caption("Something has to be mended above before there is anything to predict.")
            else:
                self._draw_fields(choices)
            for place, draft in enumerate(drafts):
                self._draw_draft(place, draft, choices)

    def problem(self, choices: Sequence[Choice]) -> str | None:
        """Why a job should not start yet: a prediction is typed in half. None where all is well."""
        if not choices or not self._is_touched():
            return None
        try:
            self._typed(choices)
        except ValueError as error:
            return f"The prediction is not whole: {_trouble_text(error)} Finish it, or clear its fields."
        return None

    def collect(self, choices: Sequence[Choice], engines: Sequence[str] | None = None) -> list[Draft]:
        """Every prediction that a job answers: those added, and a whole one that was typed and not added.

        With `engines`, those that need no other engine. Of a plan, those whose choice it still has.
        """
        drafts = list(self.drafts)
        if choices and self._is_touched():
            drafts.append(self._typed(choices))
        if engines is not None:
            return [draft for draft in drafts if set(draft.choice.engines) <= set(engines)]
        return [draft for draft in drafts if draft.choice in choices]

    def forget(self, drafts: Sequence[Draft]) -> None:
        """These are attached to a job now. Where one of them was only typed, the fields are emptied."""
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
            choice = labels[str(st.selectbox("Of what", list(labels), key=self._key("what")))]
        with right:
            metric = str(
                st.selectbox(
                    "Which figure",
                    METRICS,
                    format_func=lambda name: RUN_METRICS[name].label,
                    key=self._key("metric"),
                    disabled=not choice.needs_metric,
                    help="What each means is in the glossary",
                )
            )
        question = choice.question(metric)
        st.caption(MEASURES[question.measure].meaning if not choice.needs_metric else RUN_METRICS[metric].meaning)
        unit = entry_of(question.unit).unit
        low, high = st.columns(2)
        low.number_input(f"From, {unit}", value=None, key=self._key("low"), placeholder="open", format="%g")
        high.number_input(f"To, {unit}", value=None, key=self._key("high"), placeholder="open", format="%g")
        st.text_area(
            "Why (needed)", key=self._key("why"), max_chars=MAX_WHY, height=68, placeholder="What makes you expect this"
        )
        st.button(
            "Write it down", icon=":material/edit_note:", key=self._key("add"), on_click=self._add, args=(choices,)
        )
        if trouble := st.session_state.pop(self._key("trouble"), None):
            st.error(plain(trouble), icon=":material/error:")

    def _draw_draft(self, place: int, draft: Draft, choices: Sequence[Choice]) -> None:
        with st.container(horizontal=True, vertical_alignment="center"):
            missing = "" if draft.choice in choices else "  \n:orange[No job that this page can start now answers it.]"
            st.markdown(f"**{plain(draft.words)}**, since {plain(draft.expected.why)}{missing}")
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
            st.session_state[self._key("trouble")] = f"This is not written down yet: {_trouble_text(error)}"
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
        """What stands in the fields. ValueError, one line, where that is no prediction."""
        state = st.session_state
        choice = next((c for c in choices if c.label == state.get(self._key("what"))), choices[0])
        metric = str(state.get(self._key("metric")) or METRICS[0])
        factor = entry_of(choice.question(metric).unit).factor
        low, high = (None if (end := state.get(self._key(name))) is None else end * factor for name in ("low", "high"))
        why = str(state.get(self._key("why")) or "")
        if not why.strip() and (low is not None or high is not None):
            raise ValueError("fill in Why; a range without a reason teaches nothing when it misses")
        expected = Expectation(low=low, high=high, why=why)
        return Draft(choice=choice, metric=metric, expected=expected)

    def _key(self, field: str) -> str:
        return f"{self._name}.expect_{field}"


def _trouble_text(error: ValueError) -> str:
    """What of a prediction is missing, as a sentence's end."""
    return f"{str(error).removeprefix('prediction: ')}."


def write_down(subject: Subject, drafts: Sequence[Draft]) -> None:
    """Store predictions of a subject that has not begun. ValueError where it has."""
    for draft in drafts:
        lab().store.predictions.add(subject, _question_for(subject, draft), draft.expected)
    if drafts:
        st.toast(f"{plural(len(drafts), 'prediction')} written down.", icon=":material/edit_note:")


def _question_for(subject: Subject, draft: Draft) -> Question:
    """A single run is its only point, so that its figures need no name of one."""
    if subject.kind == "run":
        return Question(measure="metric", metric=draft.metric)
    return draft.question
