"""A sweep in a real browser over the real worker: one bar, figures that grow, cancel, resume, a point's run."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.app_server import AppServer
from tests.support.patience import PATIENCE_MS, PATIENCE_S
from tests.support.processes import wait_for
from tests.support.runs.sweeps import good_records, is_done, statuses

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("own_locks")]

# Long enough that a click comes before the end; what is never run to its end may be as long as it likes.
LONG = "?model=tiny-random&prompts=p16&batch_size=1,2,4&budget=2500"
ENDLESS = "?model=tiny-random&prompts=p16&batch_size=1,2,4&budget=8000"
FIGURES = "() => document.querySelectorAll('.js-plotly-plot').length"


def test_a_sweep_from_the_click_through_cancel_and_resume_to_its_runs(page: Page, app: AppServer) -> None:
    page.goto(f"{app.url}/sweep{LONG}")
    button = page.get_by_role("button", name="Run the sweep")
    expect(button).to_be_enabled(timeout=PATIENCE_MS)
    expect(page.get_by_text("3 runs: 1 prompt length x 3 batch sizes.")).to_be_visible()
    button.click()
    page.wait_for_url(re.compile(r"experiment="), timeout=PATIENCE_MS)
    address = page.url
    (plan,) = app.home.glob("runs/*/experiment.json")
    expect(page.get_by_text(re.compile(r"static, p16, B = \d: [\d,]+ tokens in"))).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text(re.compile(r"was canceled: \d of 3 points done"))).to_be_visible(timeout=PATIENCE_MS)

    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Resume")).to_have_count(0, timeout=PATIENCE_MS)
    wait_for(lambda: is_done(plan.parent), PATIENCE_S)
    assert {status for _, status in statuses(plan.parent)} <= {"completed", "stopped"}
    assert list(good_records(plan.parent).values()) == [1, 1, 1]
    expect(page.get_by_role("progressbar")).to_have_count(0, timeout=PATIENCE_MS)
    page.wait_for_function(f"{FIGURES} >= 5", timeout=PATIENCE_MS)
    # Which of several sentences follows is for the measured times to say.
    expect(page.get_by_text(re.compile("^Scaling with batch size: p16 "))).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_test_id("stDataFrame").first).to_be_visible(timeout=PATIENCE_MS)
    assert page.url.startswith(address.split("&experiment=")[0])
    expect(page.get_by_text("The ceilings of").first).to_be_visible()

    page.goto(f"{app.url}/history")
    runs = len(list(app.home.glob("runs/*/run.json")))  # with the one that was cut off, unless the cancel fell between
    assert runs >= 3
    expect(page.get_by_text(f"{runs} runs in")).to_be_visible(timeout=PATIENCE_MS)


def test_an_app_that_died_leaves_a_sweep_to_be_resumed(page: Page, app: AppServer) -> None:
    page.goto(f"{app.url}/sweep{ENDLESS}")
    button = page.get_by_role("button", name="Run the sweep")
    expect(button).to_be_enabled(timeout=PATIENCE_MS)
    button.click()
    expect(page.get_by_text(re.compile(r"B = \d: [\d,]+ tokens in"))).to_be_visible(timeout=PATIENCE_MS)
    address = page.url
    page.goto(app.url)  # Bench tells what the machine is busy with, and leads back
    expect(page.get_by_text(re.compile(r"Now: static, p16, \d of 3 points"))).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("link", name="Watch").click()
    expect(page.get_by_text(re.compile(r"point \d of 3"))).to_be_visible(timeout=PATIENCE_MS)
    app.stop()
    app.start()
    page.goto(address.replace(address.split("/sweep")[0], app.url))
    expect(page.get_by_text(re.compile(r"was interrupted: \d of 3 points done"))).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("button", name="Resume")).to_be_enabled()
