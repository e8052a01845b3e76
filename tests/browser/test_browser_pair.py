"""The default pair in a real browser, on the real model: from the click to the comparison, and still there tomorrow."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Page, expect

from engine.workload.prompts import QUESTIONS
from tests.support.app_server import AppServer
from tests.support.bench_page import open_comparison
from tests.support.patience import PATIENCE_MS

pytestmark = [pytest.mark.browser, pytest.mark.slow]


# Of each chart: its y axis' title, its traces' types, how many values each draws, and the range of its x axis.
CHARTS = """() => [...document.querySelectorAll('.js-plotly-plot')].map(plot => ({
    axis: plot._fullLayout.yaxis.title?.text ?? '',
    types: plot._fullData.map(trace => trace.type),
    values: plot.calcdata.map(points => points.length),
    range: plot._fullLayout.xaxis.range.map(Number),
}))"""


def charts(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(CHARTS)
    return found


def test_the_default_pair_from_the_click_to_the_comparison_and_after_a_restart(page: Page, app: AppServer) -> None:
    page.goto(app.url)
    button = page.get_by_role("button", name="Compare two engines")
    expect(button).to_be_enabled(timeout=PATIENCE_MS)
    button.click()
    expect(page.get_by_text("Static · run 1 of 2")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator(".slots .lane .decode").first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator(".answer.running .text").first).to_have_text(re.compile(r"[A-Za-z]{3,}"), timeout=PATIENCE_MS)
    open_comparison(page, PATIENCE_MS)
    run_ids = parse_qs(urlparse(page.url).query)["runs"][0].split(",")
    assert len(run_ids) == 2

    # The finding, in one sentence with both engines and a number.
    finding = page.get_by_role("heading", level=2).first
    expect(finding).to_have_text(re.compile(r"(?=.*\d)(?=.*[Cc]ontinuous)(?=.*[Ss]tatic)"), timeout=PATIENCE_MS)
    page.get_by_role("tab", name="Latencies").click()
    page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot').length >= 7", timeout=PATIENCE_MS)
    drawn = charts(page)
    timelines = [chart for chart in drawn if "bar" in chart["types"] and chart["axis"] == "lane"]
    assert len(timelines) == 2
    assert timelines[0]["range"] == timelines[1]["range"]
    assert all(sum(chart["values"]) >= 8 for chart in timelines)
    curves = [chart for chart in drawn if chart["axis"].startswith("share of")]
    assert len(curves) == 5  # queue wait, TTFT, ITL, TPOT, E2E
    assert all(min(chart["values"][:2]) >= 8 for chart in curves)
    page.get_by_role("tab", name="Answers").click()
    expect(page.locator(".answers-grid .answer").first).to_be_visible(timeout=PATIENCE_MS)
    said = page.get_by_test_id("stMain").inner_text()
    assert any(question in said for question in QUESTIONS)
    assert re.search(r"\n(both|static|continuous)\s+\S+( [\w',.:;-]+){3}", said)

    app.stop()
    app.start()
    page.goto(f"{app.url}/history")
    expect(page.get_by_text(f"2 runs in {app.home}")).to_be_visible(timeout=PATIENCE_MS)
    page.goto(f"{app.url}/run?run_id={run_ids[0]}")
    expect(page.get_by_text("completed").first).to_be_visible(timeout=PATIENCE_MS)
    page.goto(f"{app.url}/compare?runs={','.join(run_ids)}")
    expect(page.get_by_role("heading", level=2).first).to_have_text(
        re.compile("Continuous|Static"), timeout=PATIENCE_MS
    )
