"""Latency definitions in a real browser: a click changes figures and address, links open as chosen, files are saved."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.pages.runs.test_pages_definitions import write_stopped
from tests.support.app_server import AppServer
from tests.support.patience import PATIENCE_MS

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    home = tmp_path_factory.mktemp("home")
    write_stopped(home / "runs")
    with AppServer(home) as server:
        yield server


def save(page: Page, name: str) -> tuple[str, list[dict[str, str]]]:
    """The file's name and its rows."""
    with page.expect_download(timeout=PATIENCE_MS) as download:
        page.get_by_role("button", name=name).click()
    with download.value.path().open(newline="") as file:
        return download.value.suggested_filename, list(csv.DictReader(file))


def test_a_choice_moves_figures_address_and_files(page: Page, served: AppServer) -> None:
    page.goto(f"{served.url}/run?run_id=r1")
    page.get_by_role("tab", name="Latencies").click(timeout=PATIENCE_MS)
    page.get_by_text("Latency definitions", exact=True).click()
    page.get_by_text("infinite", exact=True).click()
    expect(page).to_have_url(re.compile("failures=infinite"), timeout=PATIENCE_MS)
    expect(page.get_by_text("Latency definitions other than the default").first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator(".tile", has_text="E2E p50")).to_contain_text("∞")
    name, requests = save(page, "Requests as CSV")
    assert name == "r1-requests.csv"
    assert [row["e2e_s"] for row in requests] == ["5.0", "1.0", "inf", "inf"]
    name, metrics = save(page, "Metrics as CSV")
    assert name == "r1-metrics.csv"
    (median,) = [row for row in metrics if row["metric"] == "ttft_p50_s"]
    assert (median["value"], median["value_by_default"], median["difference"]) == ("1.5", "1.0", "0.5")


def test_a_link_opens_as_it_was_chosen(page: Page, served: AppServer) -> None:
    page.goto(f"{served.url}/run?run_id=r1&itl=mean&percentile=nearest&tab=latencies")
    expect(page.locator(".tile", has_text="E2E p50")).to_contain_text("1.00 s", timeout=PATIENCE_MS)
    expect(page.locator(".tile", has_text="ITL max")).to_contain_text("n = 2 requests")
    page.get_by_text("Latency definitions", exact=True).click()
    expect(page.get_by_text("figures change.")).to_be_visible()
