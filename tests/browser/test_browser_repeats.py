"""Repeats in a real browser over the real worker: from Bench's button to the ratio, and to one repeat on Compare."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.app_server import AppServer
from tests.support.bench_page import open_settings, typed
from tests.support.patience import PATIENCE_MS

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("own_locks")]

LINK = "?model=tiny-random&prompts=lengths&mix=p16&requests=4&budget=40-200"


def test_two_repeats_of_the_pair_from_the_click_to_the_ratio(page: Page, app: AppServer) -> None:
    page.goto(f"{app.url}/{LINK}")
    open_settings(page)
    field = typed(page, "Repeats")
    expect(field).to_have_value("1", timeout=PATIENCE_MS)
    field.fill("2")
    page.get_by_role("button", name="Compare two engines").click()  # leaving the field and pressing are one movement
    page.wait_for_url(re.compile(r"/repeats\?experiment="), timeout=PATIENCE_MS)
    expect(page.get_by_role("heading", level=1, name="Repeats")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("static and continuous, 2 times each, interleaved")).to_be_visible(timeout=PATIENCE_MS)
    finding = page.get_by_role("heading", level=4, name=re.compile("output tokens.s.*repeats"))  # not the only repeat's
    expect(finding).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("progressbar")).to_have_count(0, timeout=PATIENCE_MS)
    expect(page.locator(".lab-table").get_by_text("continuous / static").first).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_function(
        "() => document.querySelectorAll('.js-plotly-plot .scatterlayer .point').length === 4", timeout=PATIENCE_MS
    )
    page.go_back()  # one step, and not one that no visitor has seen
    expect(page.get_by_role("heading", level=1, name="Bench")).to_be_visible(timeout=PATIENCE_MS)
