"""Repeats on Bench: the field, its text, the plan of each button, and an experiment that is stopped and resumed."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.launcher.run_queue import RunQueue
from engine.runlog.experiment_log import ExperimentLog
from pages.parts.bench.repeats import runs_text
from pages.parts.bench.settings import BenchSettings, read_settings
from pages.parts.experiments.estimate import OVERHEAD_S, PassTimes, basis_text
from pages.parts.shared import lab as services
from pages.parts.shared.fields import FIELDS
from pages.parts.shared.lab import lab
from tests.support.no_break import nb
from tests.support.page_app import open_page, words
from tests.support.patience import PATIENCE_S
from tests.support.processes import FAKE_WORKER, wait_for
from tests.support.runs.sweeps import good_records

LINK = {"prompts": "lengths", "mix": "p16", "requests": "2", "budget": "4"}


@pytest.fixture
def fake_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that take no time."""
    monkeypatch.setattr(services, "RunQueue", functools.partial(RunQueue, command=FAKE_WORKER))


def press(app: AppTest, label: str) -> AppTest:
    return next(button for button in app.button if button.label == label).click().run()


def settings(**changed: object) -> BenchSettings:
    values = {name: field.default for name, field in FIELDS.items()} | changed
    return read_settings(values, ())


def test_one_repeat_is_the_default_and_a_link_sets_more(home: Path) -> None:
    app = open_page("bench", **LINK)
    assert app.number_input(key="bench.repeats").value == 1
    assert "interleaved: " not in words(app)
    app = open_page("bench", repeats="3", **LINK)
    said = words(app)
    assert "3 repeats, interleaved: 3 runs for continuous, 6 for the two engines and 12 for" in said
    assert "No time estimate: smollm2-135m has not run here with these settings yet." in said
    assert "so that drift affects all equally" in said


@pytest.mark.parametrize("text", ["0", "51", "two"])
def test_an_invalid_number_is_reported_and_one_is_used(home: Path, text: str) -> None:
    app = open_page("bench", repeats=text, **LINK)
    assert f"repeats '{text}': use a whole number from 1 to 50; 1 is used instead" in words(app)


def test_the_time_is_estimated_from_earlier_runs_of_the_model() -> None:
    """A prefill of 1 s, a decode pass of 0.1 s: 8 requests in 4 slots of up to 11 tokens, without warm-up."""
    known = PassTimes(decode_s=0.1, row_s=0, position_s=0, prefill_s=1, prompt_token_s=0, most_rows=4, runs=2)
    read = settings(repeats=5, budget="11", warmups=0)
    run_s = OVERHEAD_S + 2 * 1 + 2 * 10 * 0.1
    assert run_s == pytest.approx(4.4)
    assert runs_text(read, known) == (
        nb(
            "5 repeats, interleaved: 5 runs for continuous (about 20 s), 10 for the two engines (about 40 s) and 20 "
            "for the four engines (about 90 s)."
        )
    )
    assert read.config is not None
    assert basis_text([read.config], known, "Estimated").startswith("Estimated from 2 earlier runs of this model here.")
    wide = settings(slots=32, requests=16).config
    assert wide is not None
    assert "; none had more than 4 rows, so 16 rows are a guess." in basis_text([wide], known, "Estimated")
    late = settings(repeats=2, requests=2, arrival="constant:0.01", first="paged", second="paged")
    assert nb("2 runs for continuous (about 3 min) and 8 for the four engines") in runs_text(late, known)  # 2 x 100 s


@pytest.mark.parametrize(
    ("button", "engines"),
    [
        ("Run continuous", ("continuous",)),
        ("Compare two engines", ("static", "continuous")),
        ("Compare four engines", ("static", "continuous", "paged", "chunked")),
    ],
)
def test_each_button_runs_its_engines_in_turn(
    button: str, engines: tuple[str, ...], home: Path, fake_worker: None
) -> None:
    app = press(open_page("bench", model="tiny-random", repeats="2", **LINK), button)
    job = lab().queue.jobs()[0]
    assert (job.kind, job.all_points) == ("repeats", 2 * len(engines))
    lab().queue.wait(job.job_id)
    plan = ExperimentLog.read(home / "runs" / str(job.experiment_id)).plan
    assert [point.key for point in plan.points] == [*engines, *engines]
    assert [point.repeat for point in plan.points] == [0] * len(engines) + [1] * len(engines)
    assert [run.config.engine for run in lab().queue.jobs()[0].runs] == [*engines, *engines]
    assert app.title[0].value == "Repeats"
    assert app.query_params["experiment"] in (plan.experiment_id, [plan.experiment_id])


def test_one_repeat_stays_a_pair(home: Path, fake_worker: None) -> None:
    app = press(open_page("bench", model="tiny-random", **LINK), "Compare two engines")
    assert app.title[0].value == "Bench"
    assert lab().queue.jobs()[0].kind == "pair"


def test_half_a_prediction_stops_repeats_too(home: Path, fake_worker: None) -> None:
    app = open_page("bench", model="tiny-random", repeats="2", **LINK)
    app.number_input(key="bench.expect_low").set_value(1.0)
    assert "The prediction is incomplete" in words(press(app, "Compare two engines"))
    assert lab().queue.jobs() == []


def test_repeats_are_canceled_resumed_and_graded(home: Path, own_locks: None) -> None:
    """On the real engine: predicted, started on Bench, canceled in the middle, resumed from the page, graded."""
    app = open_page("bench", model="tiny-random", repeats="2", **LINK | {"budget": "300"})
    app.number_input(key="bench.expect_high").set_value(1e9)
    app.text_area(key="bench.expect_why").set_value("nothing is that fast").run()
    app.selectbox(key="bench.expect_what").set_value("continuous over static: a metric's ratio").run()
    press(app, "Compare two engines")
    queue, store = lab().queue, lab().store
    job = queue.jobs()[0]
    folder = home / "runs" / str(job.experiment_id)
    queue.wait(job.job_id, lambda job: job.done_points >= 1, timeout_s=PATIENCE_S)
    queue.cancel(job.job_id)
    stopped = queue.wait(job.job_id, timeout_s=PATIENCE_S)
    assert 1 <= stopped.done_points < 4
    experiments = store.experiments
    wait_for(lambda: len(experiments.points(folder.name)) > 0 and not experiments.list()["is_open"].any(), PATIENCE_S)
    app = open_page("repeats", experiment=folder.name)
    assert "This experiment was canceled" in words(app)
    press(app, "Resume")
    again = queue.jobs()[-1]
    assert again.job_id != job.job_id
    assert queue.wait(again.job_id, timeout_s=PATIENCE_S).outcome == "completed"
    assert set(good_records(folder).values()) == {1}
    assert len(good_records(folder)) == 4
    wait_for(lambda: bool(store.experiments.points(folder.name)["has_run"].all()), PATIENCE_S)
    wait_for(lambda: bool(store.predictions.list()["outcome"].eq("held").all()), PATIENCE_S)
    said = words(open_page("repeats", experiment=folder.name))
    assert "static's output tokens/s" in said
    assert " repeats; " in said
    assert "Throughput: continuous over static" in said.replace("**", "")
