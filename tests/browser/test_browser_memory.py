"""The Memory page in a real browser: a published case at a click, on a phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.app_server import AppServer
from tests.support.patience import PATIENCE_MS

pytestmark = pytest.mark.browser


def test_a_published_case_is_shown_at_a_click(page: Page, app: AppServer) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{app.url}/memory?model=llama-3.1-8b&dtype=fp32&card=rtx3060&largest=4096")
    expect(page.get_by_text("Not even one request of p1024 fits")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("button", name="A pool of 2 GiB").click()
    expect(page.get_by_text(re.compile("256 rows fail at the KV pool, asking for 3.50"))).to_be_visible()
    expect(page).to_have_url(re.compile("pool_gib=2"))
