"""Sharing in a real browser: a report from a file without a network, pictures of figures, CSV of tables, Share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from pages.report.command import main
from tests.support.app_server import ROOT, AppServer
from tests.support.no_break import nb
from tests.support.runs.page_runs import write_run

pytestmark = pytest.mark.browser

PATIENCE_MS = 120_000
MOST_BYTES = 4_000_000
TIMELINE = "2 requests ran in 2 lanes for 3 steps (400 ms): 33.3 % of lane-steps"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    home = tmp_path_factory.mktemp("home")
    write_run(home / "runs", "r1", "static")
    write_run(home / "runs", "r2", "continuous")
    with AppServer(home) as server:
        yield server


def saved(page: Page, button: Locator, folder: Path) -> Path:
    """The file that a button downloads."""
    with page.expect_download(timeout=PATIENCE_MS) as download:
        button.click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def open_file(page: Page, report: Path) -> list[str]:
    """Open a report without a network. Returns what goes wrong from then on, and every request but the first."""
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
    page.on("request", lambda request: troubles.append(request.url) if request.url != report.as_uri() else None)
    page.context.set_offline(True)
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-drawn=yes]", timeout=PATIENCE_MS)
    return troubles


def assert_drawn(page: Page, titles: set[str]) -> None:
    """Every figure has marks and a caption, and those of `titles` are among them."""
    figures = page.locator("figure[data-place]").all()
    assert titles <= {figure.get_attribute("data-title") for figure in figures}
    for figure in figures:
        assert figure.locator(".main-svg").count() >= 1
        assert len(figure.locator("figcaption").inner_text()) > 20
        assert figure.locator(".cartesianlayer path, .cartesianlayer image, .gl-container canvas").count() >= 1


def test_a_report_of_64_thousand_tokens_opens_without_a_network(page: Page, lab_home: Path) -> None:
    workload = ["--requests", "640", "--budget", "100", "--prompts", "p16,p256", "--arrival", "poisson:40"]
    machine = ["--engine", "paged", "--hardware", "h100", "--model", "llama-3.1-8b", "--slots", "64"]
    command = [sys.executable, "-m", "engine", "simulate", *machine, *workload, "--json"]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"LAB_HOME": str(lab_home)}, check=True, capture_output=True)
    run_id = next(path.name for path in (lab_home / "runs").iterdir())
    report = lab_home / "report.html"
    assert main(["report", run_id, "--out", str(report)]) == 0
    assert report.stat().st_size < MOST_BYTES
    troubles = open_file(page, report)
    assert_drawn(page, {"Slot timeline", "KV blocks over time", "Waste", "Passes", "Time to first token (TTFT)"})
    expect(page.get_by_text(nb("64,000 new tokens"))).to_be_visible()
    expect(page.get_by_text("No engine ran: step times come from a hardware model")).to_be_visible()
    expect(page.locator("pre")).to_contain_text("engine simulate --hardware h100 --engine paged")
    assert troubles == []


def test_a_report_follows_the_theme_fits_a_phone_and_makes_pictures(page: Page, lab_home: Path, tmp_path: Path) -> None:
    for run_id, engine in (("r1", "static"), ("r2", "continuous")):
        write_run(lab_home / "runs", run_id, engine)
    report = lab_home / "report.html"
    assert main(["report", "r1", "r2", "--out", str(report)]) == 0
    page.set_viewport_size({"width": 390, "height": 800})
    troubles = open_file(page, report)
    assert_drawn(page, {"Slot timeline of static", "Slot timeline of continuous", "Waste in time"})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    color = "document.querySelector('figure .draw').layout.font.color"
    light = page.evaluate(color)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{color} !== '{light}'", timeout=PATIENCE_MS)
    figure = page.locator("figure[data-title='Slot timeline of static']")
    figure.hover()
    picture = saved(page, figure.locator("[data-title^='Download as SVG']"), tmp_path).read_text(encoding="utf-8")
    for text in ("Slot timeline of static", nb("33.3 % of lane-steps"), "Runs r1, r2"):
        assert text in picture
    assert troubles == []


def test_a_figure_of_the_app_is_saved_with_title_caption_and_run_id(
    page: Page, served: AppServer, tmp_path: Path
) -> None:
    page.goto(f"{served.url}/run?run_id=r1")
    expect(page.get_by_text(nb(TIMELINE))).to_be_visible(timeout=PATIENCE_MS)
    page.context.set_offline(True)
    graph = page.locator("[data-testid=stPlotlyChart]", has=page.locator(".legendtext", has_text="dead slot")).first
    graph.hover()
    height = graph.locator(".js-plotly-plot").evaluate("graph => graph.clientHeight")
    svg = saved(page, graph.locator(".lab-download", has_text="SVG"), tmp_path)
    png = saved(page, graph.locator(".lab-download", has_text="PNG"), tmp_path)
    page.context.set_offline(False)
    assert (svg.name, png.name) == ("slot-timeline-r1.svg", "slot-timeline-r1.png")
    text = svg.read_text(encoding="utf-8")
    assert ">Slot timeline<" in text
    assert nb(TIMELINE) in text
    assert ">Run r1<" in text
    content = png.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[20:24], "big") > 2 * height  # two pixels per point, title and caption added
    assert graph.locator(".js-plotly-plot").evaluate("graph => graph.clientHeight") == height
    assert graph.locator(".gtitle").count() == 0  # nothing of it is on screen


def test_a_small_table_is_saved_as_csv(page: Page, served: AppServer, tmp_path: Path) -> None:
    page.goto(f"{served.url}/compare?runs=r1,r2&tab=differences")
    table = page.locator(".lab-table", has_text="Throughput").first
    expect(table).to_be_visible(timeout=PATIENCE_MS)
    rows = saved(page, table.locator(".lab-csv"), tmp_path).read_text(encoding="utf-8-sig").splitlines()
    assert rows[0] == "metric,static,continuous,ratio"
    assert "Throughput,15.0 tokens/s,20.0 tokens/s,1.33x better" in rows


def test_text_in_a_csv_is_no_formula(page: Page, served: AppServer, tmp_path: Path) -> None:
    page.goto(f"{served.url}/compare?runs=r1,r2&tab=differences")
    table = page.locator(".lab-table", has_text="Throughput").first
    expect(table).to_be_visible(timeout=PATIENCE_MS)
    table.locator("tbody tr").nth(1).locator("td").first.evaluate("cell => { cell.textContent = '=1+1, \"x\"'; }")
    rows = saved(page, table.locator(".lab-csv"), tmp_path).read_text(encoding="utf-8-sig").splitlines()
    assert rows[2].startswith('"\'=1+1, ""x""",')


def test_share_has_the_report_and_its_markdown(page: Page, served: AppServer, tmp_path: Path) -> None:
    page.goto(f"{served.url}/run?run_id=r2")
    share = page.get_by_role("button", name="Share")
    expect(share).to_be_visible(timeout=PATIENCE_MS)
    share.click()
    markdown = page.locator("[data-testid=stCode]", has_text="key figure")
    expect(markdown).to_contain_text("engine run --model tiny-random --slots 2", timeout=PATIENCE_MS)
    expect(markdown).to_contain_text("Run r2, from the batching lab")
    expect(page.get_by_text("As vllm serve flags")).to_be_visible()
    report = saved(page, page.get_by_role("button", name="Report (HTML)"), tmp_path)
    assert report.name == "report-r2.html"
    troubles = open_file(page, report)
    assert_drawn(page, {"Slot timeline"})
    assert troubles == []
