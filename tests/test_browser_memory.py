"""The Memory page in a real browser: one run, sixty, a model that never fits, and a published case at a click."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app_server import AppServer
from tests.memory_runs import write_memory_run
from tests.page_app import take_in

pytestmark = pytest.mark.browser

PATIENCE_MS = 60_000
TINY = "model=tiny-random&prompt=16&budget=4&largest=16&card=a10"
# Of every chart: its traces' names, and how many points each has.
CHARTS = """() => [...document.querySelectorAll('.js-plotly-plot')].map(plot => plot._fullData.map(
    trace => (trace.name ?? '').trim() + ' ' + trace.x.length))"""
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def lab_home(lab_home: Path) -> Path:
    """One run in bf16 and sixty in fp32, in the store before the app opens."""
    narrow = {"model_dtype": "bfloat16"}
    write_memory_run(lab_home, "alone", ((16, 4),) * 2, slots=2, **narrow)
    for number in range(60):
        write_memory_run(lab_home, f"run{number:02}", ((16, 4),) * (number % 8 + 1), slots=number % 8 + 1)
    take_in(lab_home)
    return lab_home


def charts(page: Page, count: int) -> list[list[str]]:
    page.wait_for_function(f"() => document.querySelectorAll('.js-plotly-plot').length == {count}", timeout=PATIENCE_MS)
    found: list[list[str]] = page.evaluate(CHARTS)
    return found


def test_memory_with_one_run_with_sixty_and_where_nothing_fits(page: Page, app: AppServer) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{app.url}/memory?{TINY}&dtype=bf16")
    expect(page.get_by_role("heading", name="Estimated and measured")).to_be_visible(timeout=PATIENCE_MS)
    bars, runs = charts(page, 2)
    assert [name.rpartition(" ")[0] for name in bars[:5]] == [
        "weights", "KV cache", "MLP activation", "logits", "fp32 copy",
    ]  # fmt: skip
    assert "measured 1" in bars
    assert "static 1" in runs

    page.goto(f"{app.url}/memory?{TINY}&dtype=fp32")
    expect(page.get_by_text("The 24 runs in figures")).to_be_visible(timeout=PATIENCE_MS)
    bars, runs = charts(page, 2)
    assert "static 60" in runs
    assert "measured 31" in bars  # of 1, 2, 4 and 8 rows: 8, 8, 8 and 7 of them

    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{app.url}/memory?model=llama-3.1-8b&dtype=fp32&card=rtx3060&largest=4096")
    expect(page.get_by_text("Not even one request of p1024 fits")).to_be_visible(timeout=PATIENCE_MS)
    (bars,) = charts(page, 1)
    assert "does not fit 13" in bars
    assert page.evaluate(OVERFLOW) <= 0

    page.get_by_role("button", name="A pool of 2 GiB").click()
    expect(page.get_by_text(re.compile("256 fail at the KV pool: 3.50 GiB are asked for"))).to_be_visible()
    expect(page).to_have_url(re.compile("pool_gib=2"))
    assert errors == []
