"""Paged and chunked in a real browser, on the tiny model: from Bench with too small a pool to the picture of blocks."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Page, expect

from tests.support.app_server import AppServer
from tests.support.bench_page import open_comparison
from tests.support.patience import PATIENCE_MS

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("own_locks")]

# A position of the tiny model takes 512 bytes in fp32 (2 layers x 2 heads x 16 x key and value x 4), a block of 16
# 8 KiB. Eight requests of 40 to 70 positions take 3 to 5 blocks; 0.0001 GiB are 13 of them, for four at once.
SETTINGS = "prompts=lengths&mix=p40&requests=8&budget=10-40&slots=4&block_size=16&pool_gib=0.0001&seed=3"
LINK = f"/?model=tiny-random&{SETTINGS}&first=paged&second=chunked&max_num_batched_tokens=32"

# Of every chart: what it says for those who cannot see it, and its traces' types and names.
CHARTS = """() => [...document.querySelectorAll('.js-plotly-plot')].map(plot => ({
    axis: plot._fullLayout.yaxis.title?.text ?? '',
    traces: plot._fullData.map(trace => trace.type + ' ' + (trace.name ?? '')),
    range: plot._fullLayout.xaxis.range.map(Number),
}))"""


def test_paged_and_chunked_from_bench_to_the_picture_of_blocks(page: Page, app: AppServer) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{app.url}{LINK}")
    button = page.get_by_role("button", name="Compare two engines")
    expect(button).to_be_enabled(timeout=PATIENCE_MS)
    expect(page.get_by_text("graph (CUDA graphs) needs an NVIDIA GPU and is unavailable")).to_have_count(1)
    button.click()
    open_comparison(page, PATIENCE_MS)
    run_ids = parse_qs(urlparse(page.url).query)["runs"][0].split(",")
    told = page.get_by_text(re.compile(r"Preemptions \(triangles\): paged \d+, chunked \d+"))
    expect(told).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("tab", name="KV memory").click()
    expect(page.get_by_role("figure", name="KV positions by use, all runs")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("tab", name="Answers").click()
    expect(page.get_by_text("paged and chunked gave the same answers: all")).to_be_visible(timeout=PATIENCE_MS)
    timelines = [chart for chart in page.evaluate(CHARTS) if chart["axis"] == "lane"]
    assert len(timelines) == 2
    assert timelines[0]["range"] == timelines[1]["range"]
    assert all(any(name.startswith("scatter preempted") for name in chart["traces"]) for chart in timelines)

    page.go_back()  # one step leads to Bench, and not to an address that nobody has seen
    expect(page.get_by_role("heading", name="Bench")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("figure", name="Measured slot timeline of paged")).to_be_visible(timeout=PATIENCE_MS)

    page.goto(f"{app.url}/run?run_id={run_ids[1]}&tab=kv-blocks")
    expect(page.get_by_role("figure", name="KV blocks over time")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text(re.compile("At most 1[23] of 13 blocks of 16 positions were held at once"))).to_be_visible()
    expect(page.get_by_text(re.compile(r"During pass \d+ .* of 13 blocks"))).to_be_visible()
    page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot').length >= 3", timeout=PATIENCE_MS)
    pictures = [chart for chart in page.evaluate(CHARTS) if sum(t.startswith("heatmap") for t in chart["traces"]) >= 2]
    assert len(pictures) == 2  # over time, and at one moment
    page.get_by_role("slider", name="Pass").press("Home")
    expect(page.get_by_text(re.compile(r"During pass 0 \(step 0, from"))).to_be_visible(timeout=PATIENCE_MS)
    assert errors == []
