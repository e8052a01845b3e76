"""Links with empty parameters: each means its default."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.predictions.prediction import Expectation, Question
from store import Store
from store.predictions.predictions import Subject
from tests.support.page_app import open_page, take_in, words
from tests.support.runs.load_experiments import load_plan_of, write_load
from tests.support.runs.repeats_experiments import repeats_plan, write_repeats


@pytest.mark.parametrize(
    ("page", "names", "said"),
    [
        ("bench", "engine mix prompts first second device dtype form return execution timing", "continuous is used"),
        ("sweep", "engine model device dtype", "Sweep"),
        ("load", "engine model confirm", "Load"),
        ("what_if", "card model weights execution", "Table by batch size"),
        ("memory", "card model dtype weights engine block_size logits", "a10 is used"),
        ("roofline", "run experiment engine card", "Roofline"),
        ("history", "engine badges since until page", "History"),
        ("glossary", "term", "Glossary"),
    ],
)
def test_empty_parameters_mean_the_default(page: str, names: str, said: str, home: Path) -> None:
    app = open_page(page, **dict.fromkeys(names.split(), ""))
    assert said in words(app)


def test_an_empty_filter_of_predictions_shows_all(home: Path) -> None:
    with Store(home) as store:
        question, expected = Question(measure="metric", metric="itl_max_s"), Expectation(low=0.1, high=0.2, why="so")
        store.predictions.add(Subject(kind="run", subject_id="r"), question, expected)
    assert "expected 100 ms to 200 ms" in words(open_page("predictions", show="", page="")).replace("**", "")


def test_an_empty_metric_of_repeats_is_the_first(home: Path) -> None:
    write_repeats(home / "runs", repeats_plan())
    take_in(home)
    assert "repeats" in words(open_page("repeats", experiment="rep1", metric=""))


def test_an_empty_rate_of_a_load_test_is_the_first_whose_queue_grows(home: Path) -> None:
    write_load(home / "runs", load_plan_of(engines="static", rates="5,80"))
    take_in(home)
    assert "Queue over time" in words(open_page("load", experiment="load1", at=""))
