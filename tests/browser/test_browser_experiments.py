"""Every page in a real browser with one point, with points that all failed, and with sixty.

One app and one open page for all of them. Each case asks for its figures or its words, at a desk's width and at a
phone's; on no page may a script raise, a browser's console report an error or anything reach beyond the screen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from engine.experiments.experiment import Point
from engine.predictions.prediction import Expectation, Question
from store import Store
from store.predictions.predictions import Subject
from tests.support.app_server import AppServer
from tests.support.patience import PATIENCE_MS
from tests.support.runs import load_experiments, repeats_experiments, sweep_experiments
from tests.support.runs.load_experiments import WORKLOAD, load_plan_of, write_load
from tests.support.runs.page_runs import write_run
from tests.support.runs.repeats_experiments import repeats_plan, write_repeats
from tests.support.runs.roofline_runs import calibration, timed_passes
from tests.support.runs.sweep_experiments import SHAPE, sweep_plan, write_sweep

pytestmark = pytest.mark.browser

AT_REST = "[data-testid='stApp'][data-test-script-state='notRunning']"
FIGURES = "(count) => document.querySelectorAll('.js-plotly-plot .main-svg').length >= count"
FITS = "() => innerWidth === 390 && document.querySelector('[data-testid=stMain]').scrollWidth <= 390"
RATES = ",".join(str(rate) for rate in range(2, 60, 2))
ASKED = Question(measure="metric", metric="output_tokens_per_s")


@dataclass(slots=True)
class Screen:
    """The open page, and what its console has complained of since it was last asked."""

    page: Page
    url: str
    errors: list[str] = field(default_factory=list)

    def hear(self, said: ConsoleMessage) -> None:
        """An error, but for Streamlit's own search for its server: below the page's address before that of the app."""
        if said.type == "error" and "_stcore" not in said.location["url"]:
            self.errors.append(f"{said.text} {said.location['url']}")


def write_home(home: Path) -> None:
    """Experiments and runs of one point, of points that all failed, and of sixty; what was predicted of them."""
    runs = home / "runs"
    predict(home)
    write_sweep(runs, sweep_plan("sweep_one", prompts="p16", batch_sizes="1"))
    write_sweep(runs, sweep_plan("sweep_failed"), sweep_experiments.out_of_memory)
    lengths = ",".join(f"p{2**power}" for power in range(12))
    write_sweep(runs, sweep_plan("sweep_sixty", prompts=lengths, batch_sizes="1,2,4,8,16"))
    small = replace(WORKLOAD, prompts="p4", requests=6, budget="3")
    one = load_plan_of("load_one", engines="continuous", rates="5", confirm=False)
    write_load(runs, one, only=[0])
    write_load(runs, load_plan_of("load_failed"), load_experiments.out_of_memory)
    many_rates = load_plan_of("load_sixty", rates=RATES, confirm=False, workload=small)
    write_load(runs, many_rates, out_of_memory_from_12_a_second)
    write_repeats(runs, repeats_plan("repeats_one"), only=range(2))
    write_repeats(runs, repeats_plan("repeats_failed"), repeats_experiments.out_of_memory)
    four = "static,continuous,paged,chunked"
    write_repeats(runs, repeats_plan("repeats_sixty", engines=four, repeats=15), with_runs=(0, 1))
    peak = {"totals": {"peak_memory_bytes": 10**6}}
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()  # than they were predicted
    write_run(runs, "one", "static", model=SHAPE | {"dtype": "bfloat16"}, result=peak, created_at=later)
    write_run(runs, "two", "continuous", model=SHAPE | {"dtype": "bfloat16"}, created_at=later)
    oom = {"status": "oom", "error": "out of memory"}
    write_run(runs, "dead", "static", result=oom, created_at=later, unfinished=True)
    for number in range(60):
        many = {"id": "many", "kind": "repeats", "label": "sixty runs", "key": "p16", "repeat": number}
        write_run(runs, f"many{number:02}", "static", model=SHAPE, experiment=many, result=peak)
    calibration(passes=timed_passes()).save(home / "calibrations")


def out_of_memory_from_12_a_second(point: Point) -> dict[str, Any] | None:
    """Higher rates fail, and all at once does too."""
    return load_experiments.out_of_memory(point) if (point.values["rate_per_s"] or 99) >= 12 else None


def predict(home: Path) -> None:
    """Sixty predictions of one run, one of another, one of a run that dies; before any of them is there."""
    with Store(home) as store:
        for run_id, count in (("one", 60), ("two", 1), ("dead", 1)):
            for number in range(count):
                expected = Expectation(low=float(number), high=None, why=f"of {run_id}")
                store.predictions.add(Subject(kind="run", subject_id=run_id), ASKED, expected)


@pytest.fixture(scope="module")
def screen(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    home = tmp_path_factory.mktemp("home")
    write_home(home)
    with Store(home) as store:
        store.ingest.all_in(home / "runs")
    with AppServer(home) as app, contextlib.closing(browser.new_context()) as context:
        screen = Screen(page=context.new_page(), url=app.url)
        screen.page.on("pageerror", lambda error: screen.errors.append(str(error)))
        screen.page.on("console", lambda said: screen.hear(said))
        yield screen


CASES = [
    ("Sweep", "sweep?experiment=sweep_one", 1, "p16 has one point"),
    ("Sweep", "sweep?experiment=sweep_failed", 1, "Failed: p16 from B = 1 on"),
    ("Sweep", "sweep?experiment=sweep_sixty", 5, "p2048"),
    ("Load", "load?experiment=load_one", 3, "the queue grew at no rate"),
    ("Load", "load?experiment=load_failed", 1, "and 2 more"),
    ("Load", "load?experiment=load_sixty", 3, "and 44 more"),
    ("Repeats", "repeats?experiment=repeats_one", 1, "which shows no spread"),
    ("Repeats", "repeats?experiment=repeats_failed", 1, "static, repeat 1 (and 2 more): out of memory"),
    ("Repeats", "repeats?experiment=repeats_sixty", 1, "lower in 15 of 15"),
    ("Memory", "memory?model=tiny-random&dtype=bf16&card=a10&largest=16", 2, "Estimated and measured"),
    ("Memory", "memory?model=llama-3.1-8b&dtype=fp32&card=rtx3060", 1, "Not even one request of p1024 fits"),
    ("Memory", "memory?model=tiny-random&dtype=fp32&card=a10&largest=16", 2, "Table of "),
    ("Roofline", "roofline?run=one", 1, "decode MBU"),
    ("Roofline", "roofline?experiment=sweep_failed", 0, "No run of this experiment has ended"),
    ("Roofline", "roofline?experiment=many", 1, "60 runs"),
    ("What if", "what_if?largest=8&card=h200", 1, "From batch 1 to 8"),
    ("What if", "what_if?card=rtx3060", 1, "not even one request fits"),
    ("What if", "what_if?largest=4096", 1, "From batch 1 to 128 (the largest that fits)"),
    ("Predictions", "predictions?show=held&page=1", 0, "of two"),
    ("Predictions", "predictions?show=closed", 0, "of dead"),
    ("Predictions", "predictions", 0, "62 predictions"),
    ("Run", "run?run_id=dead", 1, "out of memory"),
    ("Compare", "compare?runs=one,two", 1, "Continuous was 1.33 times as fast as static"),
    ("History", "history", 0, "runs in"),
    ("Glossary", "glossary", 0, "KV cache"),
    ("Query", "query?question=waste_by_engine", 1, "Waste by engine"),
]  # fmt: skip


@pytest.mark.parametrize(("title", "address", "figures", "words"), CASES, ids=[case[1] for case in CASES])
def test_a_page_stands(screen: Screen, title: str, address: str, figures: int, words: str) -> None:
    page = screen.page
    screen.errors.clear()
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"{screen.url}/{address}")
    expect(page.get_by_role("heading", level=1, name=title, exact=True)).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text(words).locator("visible=true").first).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_selector(AT_REST, timeout=PATIENCE_MS)
    page.wait_for_function(FIGURES, arg=figures, timeout=PATIENCE_MS)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.get_by_text("Traceback")).to_have_count(0)
    page.wait_for_function(FITS, timeout=PATIENCE_MS)
    assert screen.errors == []
