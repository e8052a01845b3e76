"""Visitors share the lab: canceling or deleting another visitor's work asks first, one's own is one click."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.core.config import RunConfig
from engine.launcher.job import Job
from engine.launcher.run_queue import Patience, RunQueue
from pages.parts.shared import lab as services
from pages.parts.shared.lab import lab
from tests.pages.test_pages_history import listed, select
from tests.support.app_server import ROOT
from tests.support.page_app import take_in, words
from tests.support.patience import PATIENCE_S
from tests.support.processes import FAKE_WORKER
from tests.support.runs.page_runs import write_run
from tests.support.runs.sweeps import a_sweep

ADA, BOB = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture(autouse=True)
def fake_worker(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs without an engine; a worker that hears no cancel is left alone for longer than a page takes to be drawn."""
    queue = functools.partial(RunQueue, command=FAKE_WORKER, patience=Patience(after_pass_s=600))
    monkeypatch.setattr(services, "RunQueue", queue)


def open_as(visitor: str, page: str, **query: str) -> AppTest:
    """A page in a visitor's browser."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S)
    app.session_state["lab.visitor"] = visitor
    app.switch_page(f"pages/{page}.py")
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


def labels(app: AppTest) -> list[str]:
    return [button.label for button in app.button if "ancel" in button.label or "Keep" in button.label]


def press(app: AppTest, label: str) -> AppTest:
    return next(button for button in app.button if button.label == label).click().run()


def confirmation(visitor: str, run_id: str) -> AppTest:
    """The question of the dialog, drawn on its own: the harness closes a dialog as soon as something in it is used."""
    code = f"from pages.parts.history.toolbar import draw_confirmation\ndraw_confirmation([{run_id!r}])"
    app = AppTest.from_string(code, default_timeout=PATIENCE_S)
    app.session_state["lab.visitor"] = visitor
    return app.run()


def started_by(visitor: str, model: str = "slow") -> Job:
    """A run that takes ten minutes."""
    queue = lab().queue
    job = queue.submit([RunConfig(model=model)], label="continuous", visitor=visitor)
    return queue.wait(job.job_id, lambda job: job.current is not None and job.current.output_tokens > 0)


def test_ones_own_run_is_canceled_by_one_click_and_the_button_says_so_at_once() -> None:
    job = started_by(ADA, "deaf")  # it hears no cancel
    app = open_as(ADA, "bench", job=job.job_id)
    assert labels(app) == ["Cancel"]
    app = press(app, "Cancel")
    assert lab().queue.job(job.job_id).canceled  # type: ignore[union-attr]
    assert labels(app) == ["Canceling …"]
    assert "Canceling: the pass that runs now ends, then the log is closed." in [p.text for p in app.get("progress")]


def test_another_visitors_run_is_canceled_by_a_second_click() -> None:
    job = started_by(ADA)
    app = open_as(BOB, "bench", job=job.job_id)
    assert labels(app) == ["Cancel …"]
    app = press(app, "Cancel …")
    assert "Another visitor started this." in words(app)
    assert labels(app) == ["Cancel it", "Keep running"]
    app = press(app, "Keep running")
    assert labels(app) == ["Cancel …"]
    assert not lab().queue.job(job.job_id).canceled  # type: ignore[union-attr]
    press(press(app, "Cancel …"), "Cancel it")
    assert lab().queue.wait(job.job_id).outcome == "stopped"


@pytest.mark.parametrize(("visitor", "asked"), [(ADA, ["Cancel"]), (BOB, ["Cancel …"])])
def test_an_experiment_too(visitor: str, asked: list[str]) -> None:
    job = lab().queue.submit_experiment(a_sweep("1,2", model="slow"), visitor=ADA)
    app = open_as(visitor, "sweep", experiment=str(job.experiment_id))
    assert labels(app) == asked
    lab().queue.cancel(job.job_id)


def test_another_visitors_runs_are_deleted_after_a_question(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ada's run asks Bob; a run that was not started in this app is deleted with Undo, as one's own."""
    monkeypatch.setattr(RunQueue, "owner", lambda queue, run_id: {"r1": ADA}.get(run_id))
    for run_id in ("r1", "r2"):
        write_run(home / "runs", run_id, "static")
    take_in(home)
    app = open_as(BOB, "history")
    app = press(select(app, listed(app).index("r1")), "Delete")
    assert "It was started by another visitor." in words(app)
    assert sorted(listed(app)) == ["r1", "r2"]
    press(confirmation(BOB, "r1"), "Delete 1 run")
    app = open_as(BOB, "history")
    assert listed(app) == ["r2"]
    app = press(select(app, 0), "Delete")
    assert "moved to the trash." in words(app)
    app = press(app, "Empty trash …")
    assert "1 of them was started by another visitor." in words(app)


def test_ones_own_runs_are_deleted_by_one_click(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunQueue, "owner", lambda queue, run_id: ADA)
    write_run(home / "runs", "r1", "static")
    take_in(home)
    app = press(select(open_as(ADA, "history"), 0), "Delete")
    assert "1 run moved to the trash." in words(app)


def test_a_cookie_keeps_the_visitors_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new session of a browser has the name of the one before; what is no such name is not taken."""
    known: dict[str, str] = {}
    monkeypatch.setattr(type(st.context), "cookies", property(lambda context: known))

    def name_of_new_session() -> str:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S).run()
        return str(app.session_state["lab.visitor"])

    first = name_of_new_session()
    assert name_of_new_session() != first
    known["lab_visitor"] = first
    assert name_of_new_session() == first
    known["lab_visitor"] = '"></script>'
    assert name_of_new_session() not in (first, known["lab_visitor"])
