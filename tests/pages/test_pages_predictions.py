"""Predictions on the pages: added on Bench, shown with a run and a pair, listed, not lost silently."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.hardware.model_catalog import models_folder
from engine.predictions.prediction import Expectation, Question
from engine.runlog.experiment_log import ExperimentLog
from pages.parts.predictions.text import range_text, tally_text
from pages.parts.shared.lab import lab
from pages.parts.shared.metric_text import value_text
from store import Store
from store.predictions.predictions import Subject
from tests.store.predictions.test_store_predictions import row_of
from tests.support.no_break import nb
from tests.support.page_app import links, open_page, words
from tests.support.patience import PATIENCE_S
from tests.support.runs.experiments import run_point, sweep_plan
from tests.support.runs.sample_runs import write_sample_run

RUN = Subject(kind="run", subject_id="run1")
PAIR = {"id": "pair1", "kind": "pair", "label": "static and continuous"}


@pytest.fixture
def home(lab_home: Path) -> Iterator[Path]:
    """A LAB_HOME whose app is closed after the test, so that the next test can open its own."""
    yield lab_home
    if (lab_home / "lab.duckdb").exists():
        lab().close()


def predict(store: Store, metric: str, low: float | None, high: float | None, subject: Subject = RUN) -> str:
    question = Question(measure="metric", metric=metric)
    return store.predictions.add(subject, question, Expectation(low=low, high=high, why="it *always* does `so`"))


def graded_home(home: Path) -> dict[str, str]:
    """One held, one missed, one without a grade, one open."""
    with Store(home) as store:
        ids = {
            "held": predict(store, "output_tokens_per_s", 100.0, 200.0),
            "missed": predict(store, "output_tokens_per_s", None, 150.0),
            "ungraded": predict(store, "ttft_p99_s", None, 1.0),
            "open": predict(store, "itl_max_s", 0.1, 0.2, Subject(kind="run", subject_id="later")),
        }
        store.ingest.run(write_sample_run(store.runs_folder, "static", run_id="run1"))
    return ids


def drawn(function: str, *values: object) -> AppTest:
    """One function of the pages drawn on its own: the harness closes a dialog as soon as something in it is used."""
    module, _, name = function.rpartition(".")
    return AppTest.from_string(f"from {module} import {name}\n{name}(*{values!r})", default_timeout=PATIENCE_S).run()


def draw_one(function: str, prediction_id: str) -> AppTest:
    """The same for a function that takes a row of the store's predictions."""
    code = (
        "from pages.parts.shared.lab import lab\n"
        f"from pages.parts.predictions.section import {function}\n"
        "rows = lab().store.predictions.list().set_index('prediction_id', drop=False)\n"
        f"{function}(rows.loc[{prediction_id!r}].to_dict())"
    )
    return AppTest.from_string(code, default_timeout=PATIENCE_S).run()


def button(app: AppTest, label: str) -> Any:
    return next(b for b in app.button if b.label == label)


def test_without_any_the_page_leads_to_bench_and_shows_the_texts(home: Path) -> None:
    app = open_page("predictions")
    said = words(app)
    assert "No predictions yet." in said
    assert "Predict a run on Bench" in [label for label, _ in links(app)]
    assert "capacity of paged over that of continuous, 2.00x to 2.80x" in said
    assert "55.5 over 46.4 requests/s in graph execution, 1.20x: missed" in said
    assert said.count("not measured by any experiment in this store yet") == 8
    asked = [address for label, address in links(app) if label == "Measure it on Load"]
    assert len(asked) == 5
    assert "engines=continuous,paged" in asked[-1]


def test_the_list_has_a_hit_rate_filters_and_by_how_much(home: Path) -> None:
    graded_home(home)
    app = open_page("predictions")
    said = words(app)
    assert "Of 2 graded predictions, 1 held: 50.0 %. Median distance of a miss: 29.5 % outside its range." in said
    assert "Measured: 194 tokens/s, within 100 to 200 tokens/s, 5.72 tokens/s below its highest value." in said
    assert "Measured: 194 tokens/s, 44.3 tokens/s (29.5 %) above the highest value expected." in said
    assert "No grade: a 99th percentile needs 100 samples; there are 8." in said
    assert "Of run later, which has not begun" in said
    assert "Of run run1: static, tiny-random" in said
    assert "it *always* does so" in said
    for shown, there, gone in (
        ("missed", "above the highest", "below its highest"),
        ("held", "below its highest", "above the highest"),
        ("open", "has not begun", "Measured:"),
        ("closed", "No grade:", "Measured:"),
    ):
        said = words(open_page("predictions", show=shown))
        assert there in said, shown
        assert gone not in said, shown
    said = words(open_page("predictions", show="lucky"))
    assert "Unknown filter lucky in this link: use one of all, open, closed, held, missed" in said


def test_a_filter_without_matches(home: Path) -> None:
    with Store(home) as store:
        predict(store, "duration_s", 1.0, None)
    assert "None of the 1 prediction is held." in words(open_page("predictions", show="held"))


def test_a_link_to_one_prediction(home: Path) -> None:
    ids = graded_home(home)
    said = words(open_page("predictions", prediction=ids["missed"]))
    assert "above the highest" in said
    assert "below its highest" not in said
    assert "There is no prediction none here: it may have been withdrawn." in words(
        open_page("predictions", prediction="none")
    )


def test_sixty_predictions_are_paged(home: Path) -> None:
    with Store(home) as store:
        for number in range(60):
            predict(store, "duration_s", float(number), None)
    first, last = open_page("predictions"), open_page("predictions", page="3")
    assert "at least 59.0 s" in words(first)
    assert "at least 19.0 s" not in words(first)
    assert "at least 0 s" in words(last)
    assert "at least 59.0 s" not in words(last)
    assert "at least 0 s" in words(open_page("predictions", page="99"))
    assert "at least 59.0 s" in words(open_page("predictions", page="none"))


def test_a_run_shows_what_was_predicted_of_it(home: Path) -> None:
    graded_home(home)
    said = words(open_page("run", run_id="run1"))
    assert "Predictions" in said
    assert "above the highest value expected" in said
    assert "itl" not in said.partition("Predictions")[2].partition("Validity")[0]


def test_a_pair_shows_it_on_compare(home: Path) -> None:
    with Store(home) as store:
        ratio = Question(measure="ratio", metric="output_tokens_per_s", key="continuous", base="static")
        pair = Subject(kind="experiment", subject_id="pair1", run_ids=("one", "two"))
        store.predictions.add(pair, ratio, Expectation(low=1.2, high=None, why="no dead rows"))
        for run_id, engine in (("one", "static"), ("two", "continuous")):
            store.ingest.run(write_sample_run(store.runs_folder, engine, run_id=run_id, experiment=PAIR))
    said = words(open_page("compare", runs="one,two"))
    assert "Throughput: continuous over static: expected at least 1.20x" in said.replace("**", "")
    assert "Measured: 1.22x" in said


def test_an_open_prediction_is_edited_and_withdrawn(home: Path) -> None:
    ids = graded_home(home)
    app = open_page("predictions", prediction=ids["open"])
    button(app, "Edit …").click().run()
    assert [number.label for number in app.number_input] == ["From, s", "To, s"]
    app = draw_one("draw_edit", ids["open"])
    app.number_input[0].set_value(0.3)
    button(app, "Save").click().run()
    assert "0.3 to 0.2 is empty; enter the lowest value first" in words(app)
    app.number_input[0].set_value(0.15)
    button(app, "Save").click().run()
    assert row_of(lab().store, ids["open"])["low"] == 0.15
    app = open_page("predictions", prediction=ids["open"])
    button(app, "Withdraw …").click().run()
    assert "This cannot be undone." in words(app)
    assert len(lab().store.predictions.list()) == 4
    button(draw_one("draw_withdraw", ids["open"]), "Withdraw").click().run()
    assert len(lab().store.predictions.list()) == 3


def test_a_run_that_starts_while_the_form_is_open_closes_it(home: Path) -> None:
    ids = graded_home(home)
    edit, withdraw = draw_one("draw_edit", ids["open"]), draw_one("draw_withdraw", ids["open"])
    write_sample_run(home / "runs", "static", run_id="later", status=None)
    edit.number_input[0].set_value(0.15)
    for app, label in ((edit, "Save"), (withdraw, "Withdraw")):
        button(app, label).click().run()
        assert "run later has started; its predictions are closed and can no longer be changed" in words(app)
    assert row_of(lab().store, ids["open"])["low"] == 0.1


BENCH = {"model": "tiny-random", "prompts": "lengths", "mix": "p16", "requests": "2", "budget": "4"}


def test_bench_collects_predictions_before_a_run(home: Path) -> None:
    app = open_page("bench", **BENCH)
    assert any(e.label == "Predictions" for e in app.expander)
    button(app, "Add prediction").click().run()
    assert "Not added: give a lowest value, a highest, or both." in words(app)
    app.number_input(key="bench.expect_low").set_value(1.0)
    button(app, "Compare two engines").click().run()
    said = [error.value.replace("\\", "") for error in app.error]
    assert len(said) == 1
    assert said[0].startswith("The prediction is incomplete: fill in the reason; a missed range without one")
    assert app.text_area(key="bench.expect_why").label == "Reason (required)"
    drawn = [each for each in app.main if each.type in ("error", "button")]
    order = ["error" if each.type == "error" else each.label for each in drawn]
    assert order.index("error") < order.index("Compare two engines")
    assert lab().queue.jobs() == []
    app.text_area(key="bench.expect_why").set_value("it is small").run()
    button(app, "Add prediction").click().run()
    assert "Throughput of static: at least 1.00 tokens/s, because it is small" in words(app).replace("**", "")
    assert app.number_input(key="bench.expect_low").value is None
    button(app, "Remove").click().run()
    assert not [b for b in app.button if b.label == "Remove"]


def test_a_prediction_is_stored_before_the_job_and_closed_by_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"  # locks of its own: a lab that is in use is not waited for
    cache.mkdir()
    (cache / "models").symlink_to(models_folder())
    monkeypatch.setenv("LAB_CACHE", str(cache))
    app = open_page("bench", **BENCH)
    app.number_input(key="bench.expect_high").set_value(1e9)
    app.text_area(key="bench.expect_why").set_value("nothing is that fast").run()
    app.selectbox(key="bench.expect_what").set_value("continuous: a metric").run()
    button(app, "Run continuous").click().run()
    queue, store = lab().queue, lab().store
    job = queue.jobs()[0]
    row = store.predictions.list().iloc[0]
    assert (row["subject_kind"], row["subject_id"]) == ("run", job.runs[0].run_id)
    assert "Throughput: expected at most 1,000,000,000 tokens/s" in words(app).replace("**", "")
    done = queue.wait(job.job_id, timeout_s=120)
    assert done.outcome == "completed"
    deadline_s = time.monotonic() + 120
    while (row := row_of(store, str(row["prediction_id"])))["outcome"] in ("open", "pending"):
        assert time.monotonic() < deadline_s, "the recorder did not take the run in"
        time.sleep(0.1)
    assert row["outcome"] == "held"
    assert row["made_at"] < row["closed_at"] <= row["graded_at"]


def test_deleting_a_run_says_that_its_predictions_stay(home: Path) -> None:
    ids = graded_home(home)
    app = AppTest.from_string(
        "from pages.parts.history.toolbar import _draw_delete\n"
        "_draw_delete([{'run_id': 'run1', 'status': 'completed'}])",
        default_timeout=PATIENCE_S,
    ).run()
    button(app, "Delete").click().run()
    assert "3 predictions about it stay on Predictions, with their grades." in words(app)
    assert lab().store.runs.has("run1")
    button(drawn("pages.parts.history.toolbar.draw_confirmation", ["run1"]), "Delete 1 run").click().run()
    assert not lab().store.runs.has("run1")
    said = words(open_page("predictions", prediction=ids["held"]))
    assert "run run1, which was deleted" in said
    assert "below its highest" in said


def test_an_experiment_is_deleted_after_a_question(home: Path) -> None:
    with Store(home) as store:
        with ExperimentLog.create(store.runs_folder, sweep_plan((1,))) as log:
            run_point(log, log.plan.points[0])
        store.ingest.all_in(store.runs_folder)
    app = AppTest.from_string(
        "from pages.parts.experiments.page import draw_experiment_tools\ndraw_experiment_tools('sweep1')",
        default_timeout=PATIENCE_S,
    ).run()
    button(app, "Delete …").click().run()
    assert "The experiment and 1 run go into the trash" in words(app)
    assert len(lab().store.experiments.list()) == 1
    asked = drawn("pages.parts.experiments.page.draw_confirmation", "sweep1", [])
    button(asked, "Cancel").click().run()
    assert len(lab().store.experiments.list()) == 1


@pytest.mark.parametrize(
    ("unit", "low", "high", "text"),
    [
        ("s", None, 0.002, "at most 2.00 ms"),
        ("share", 0.1, 0.5, "10.0 % to 50.0 %"),
        ("bytes", 2.0**30, None, "at least 1.00 GiB"),
        ("times", 1.2, 1.6, "1.20x to 1.60x"),
        ("requests", 8.0, 8.0, "exactly 8 requests"),
        ("tokens/s", 1000.0, None, "at least 1,000 tokens/s"),
    ],
)
def test_ranges_in_their_units(unit: str, low: float | None, high: float | None, text: str) -> None:
    assert range_text(unit, low, high) == nb(text)
    assert value_text(unit, None) == "–"


def test_no_hit_rate_without_grades(home: Path) -> None:
    with Store(home) as store:
        predict(store, "duration_s", 1.0, None)
        assert tally_text(store.predictions.list()) == "No prediction is graded yet."
