"""A load test in a real browser over the real worker: points that are added, cancel, resume, the queue at a rate."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.app_server import AppServer
from tests.support.patience import PATIENCE_MS, PATIENCE_S
from tests.support.processes import wait_for
from tests.support.runs.sweeps import good_records, is_done

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("own_locks")]

LINK = "?model=tiny-random&prompts=p4,p9&budget=8&engines=static,continuous&rates=4&requests=24&slots=2"
FIGURES = "() => document.querySelectorAll('.js-plotly-plot').length"


def settled(page: Page) -> None:
    """Wait until the page's script has been at rest for a moment: a click into a page that is drawn anew is lost."""
    page.wait_for_timeout(1000)
    page.wait_for_selector("[data-testid='stApp'][data-test-script-state='notRunning']", timeout=PATIENCE_MS)


def test_a_load_test_from_the_click_through_cancel_and_resume_to_its_capacity(page: Page, app: AppServer) -> None:
    page.goto(f"{app.url}/load{LINK}")
    button = page.get_by_role("button", name="Run the load test")
    expect(button).to_be_enabled(timeout=PATIENCE_MS)
    expect(page.get_by_text("4 runs: static and continuous at 1 rate and all at once, then 4 more")).to_be_visible()
    button.click()
    page.wait_for_url(re.compile(r"experiment="), timeout=PATIENCE_MS)
    (plan,) = app.home.glob("runs/*/experiment.json")
    expect(page.get_by_text(re.compile(r"static, 4.*\srequests/s: [\d,]+ tokens? in"))).to_be_visible(
        timeout=PATIENCE_MS
    )
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text(re.compile(r"was canceled: \d of 4 points done"))).to_be_visible(timeout=PATIENCE_MS)

    settled(page)
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Resume")).to_have_count(0, timeout=PATIENCE_MS)
    wait_for(lambda: is_done(plan.parent), PATIENCE_S)
    assert list(good_records(plan.parent).values()) == [1] * 8  # with two around each capacity
    expect(page.get_by_role("progressbar")).to_have_count(0, timeout=PATIENCE_MS)
    expect(page.get_by_text(re.compile("continuous's capacity is .* times static's")).first).to_be_visible()
    page.wait_for_function(f"{FIGURES} >= 4", timeout=PATIENCE_MS)
    settled(page)
    page.get_by_role("radio", name="all at once").click()
    page.wait_for_url(re.compile(r"at=all"), timeout=PATIENCE_MS)
    expect(page.get_by_text("so the queue shrinks until the last is admitted")).to_be_visible(timeout=PATIENCE_MS)
    page.reload()
    expect(page.get_by_text("so the queue shrinks until the last is admitted")).to_be_visible(timeout=PATIENCE_MS)
