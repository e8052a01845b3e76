"""Roofline and What if in a real browser: a slider moves the figures and the address, nothing spills on a phone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app_server import AppServer
from tests.page_runs import write_run
from tests.roofline_runs import MODEL, calibration, timed_passes


@pytest.mark.browser
def test_sliders_links_and_narrow_pages(lab_home: Path, page: Page) -> None:
    write_run(lab_home / "runs", "r1", "static", model=MODEL)
    calibration(passes=timed_passes()).save(lab_home / "calibrations")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    with AppServer(lab_home) as app:
        page.goto(f"{app.url}/?model=tiny-random")
        expect(page.get_by_text("What the simulator expects")).to_be_visible(timeout=30_000)
        page.get_by_role("link", name="What if").click()
        expect(page.get_by_text("Free until about 53.3")).to_be_visible(timeout=30_000)  # its own model, not Bench's
        page.get_by_role("slider", name="Largest batch").press("ArrowRight")
        expect(page.get_by_text(re.compile("From batch 1 to 128, the largest here that fits"))).to_be_visible()
        expect(page).to_have_url(re.compile("largest=256"))
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(f"{app.url}/roofline?run=r1")
            expect(page.get_by_text("decode MBU")).to_be_visible(timeout=30_000)
            expect(page.locator(".js-plotly-plot").first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert errors == []
