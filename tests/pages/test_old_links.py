"""Links of older versions open every page with the settings that they name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.predictions.prediction import Expectation, Question
from pages.parts.shared.lab import lab
from store import Store
from store.predictions.predictions import Subject
from tests.support.app_server import ROOT
from tests.support.page_app import take_in
from tests.support.page_links import LINKS, Values, held
from tests.support.patience import PATIENCE_S
from tests.support.runs.load_experiments import load_plan_of, write_load
from tests.support.runs.page_runs import write_run
from tests.support.runs.repeats_experiments import repeats_plan, write_repeats
from tests.support.runs.roofline_runs import MODEL
from tests.support.runs.sweep_experiments import sweep_plan, write_sweep


@pytest.fixture(scope="module", autouse=True)
def full_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A LAB_HOME with data for every page."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(home))
        with Store(home) as store:
            expected = Expectation(low=0.1, high=0.2, why="so")
            store.predictions.add(
                Subject(kind="run", subject_id="r"), Question(measure="metric", metric="itl_max_s"), expected
            )
        for run_id, engine in (("r1", "static"), ("r2", "continuous")):
            write_run(home / "runs", run_id, engine, model=MODEL)
        write_sweep(home / "runs", sweep_plan())
        write_load(home / "runs", load_plan_of(engines="static", rates="5,80"))
        write_repeats(home / "runs", repeats_plan())
        take_in(home)
        yield home
        lab().close()
        st.cache_resource.clear()
        st.cache_data.clear()


def open_link(link: str) -> AppTest:
    """Open the page of a relative address; with the tab that shows latency definitions, if it has one."""
    page, _, query = link.partition("?")
    if "ttft=" in query:
        query += "&tab=latencies"
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S)
    app.switch_page(f"pages/{page or 'bench'}.py")
    for name, values in parse_qs(query, keep_blank_values=True).items():
        app.query_params[name] = values
    return app.run()


@pytest.mark.parametrize(("link", "values"), LINKS, ids=[link for link, _ in LINKS])
def test_a_link_opens_with_its_settings(link: str, values: Values) -> None:
    app = open_link(link)
    assert not app.exception, app.exception[0].value
    found = held(app)
    assert {name: found.get(name, "missing") for name in values} == dict(values)
