"""Two browsers on one open prediction: what the other has changed is seen, and not written over in silence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.predictions.prediction import Expectation, Question
from pages.parts.predictions.section import state_of_predictions
from pages.parts.shared.lab import lab
from store import Store
from store.predictions.predictions import Subject
from tests.pages.test_pages_predictions import button
from tests.store.predictions.test_store_predictions import row_of
from tests.support.page_app import words
from tests.support.patience import PATIENCE_S


@pytest.fixture
def asked(lab_home: Path) -> Iterator[str]:
    """An open prediction, 0.1 s to 0.2 s."""
    with Store(lab_home) as store:
        question = Question(measure="metric", metric="itl_max_s")
        subject = Subject(kind="run", subject_id="later")
        prediction_id = store.predictions.add(subject, question, Expectation(low=0.1, high=0.2, why="so"))
    yield prediction_id
    lab().close()


def opened(prediction_id: str) -> AppTest:
    """The edit dialog's content; like a dialog it keeps what it was opened with."""
    code = (
        "import streamlit as st\n"
        "from pages.parts.shared.lab import lab\n"
        "from pages.parts.predictions.section import draw_edit\n"
        "rows = lab().store.predictions.list().set_index('prediction_id', drop=False)\n"
        f"draw_edit(st.session_state.setdefault('row', rows.loc[{prediction_id!r}].to_dict()))"
    )
    return AppTest.from_string(code, default_timeout=PATIENCE_S).run()


def test_the_second_of_two_edits_is_refused_in_a_line(asked: str) -> None:
    one, other = opened(asked), opened(asked)
    one.number_input[0].set_value(0.15)
    button(one, "Save").click().run()
    other.number_input[1].set_value(0.9)
    app = button(other, "Save").click().run()
    row = row_of(lab().store, asked)
    assert (row["low"], row["high"]) == (0.15, 0.2)
    assert "this prediction was edited elsewhere" in words(app)


def test_what_is_shown_of_a_prediction_is_its_state(asked: str) -> None:
    row = lab().store.predictions.list().to_dict("records")[0]
    before = state_of_predictions([row])
    for change in ({"low": None}, {"high": 0.3}, {"why": "that"}, {"outcome": "pending"}, {"reason": "gone"}):
        assert state_of_predictions([{**row, **change}]) != before
    missing = {**row, "low": float("nan")}
    assert state_of_predictions([missing]) == state_of_predictions([dict(missing, low=float("nan"))])
