"""What if in a real browser: a slider moves the figures and the address; what Bench has set is not taken over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.app_server import AppServer
from tests.support.menu import go
from tests.support.runs.page_runs import write_run
from tests.support.runs.roofline_runs import MODEL, calibration, timed_passes


@pytest.mark.browser
def test_a_slider_moves_the_figures_and_the_address(lab_home: Path, page: Page) -> None:
    write_run(lab_home / "runs", "r1", "static", model=MODEL)
    calibration(passes=timed_passes()).save(lab_home / "calibrations")
    with AppServer(lab_home) as app:
        page.goto(f"{app.url}/?model=tiny-random")
        expect(page.get_by_role("figure", name="Planned slot timeline of static")).to_be_visible()
        go(page, "What if")
        expect(page.get_by_text("Free until about 53.3")).to_be_visible()  # its own model, not Bench's
        page.get_by_role("slider", name="Largest batch").press("ArrowRight")
        expect(page.get_by_text("From batch 1 to 128 (the largest that fits)")).to_be_visible()
        expect(page).to_have_url(re.compile("largest=256"))
