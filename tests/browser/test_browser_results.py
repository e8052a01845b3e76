"""Run and Compare in a real browser: the picture is on the first screen, few words before anything is opened, and only
the open tab is drawn. The runs are simulated, the same on every machine: 8 chat requests in 4 slots.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FloatRect, Locator, Page, expect

from tests.support.app_server import ROOT, AppServer
from tests.support.page_app import take_in
from tests.support.runs.page_runs import write_run

pytestmark = pytest.mark.browser

PATIENCE_MS = 60_000
LAPTOP, PHONE = (1440, 900), (390, 844)
FIRST_CHART_PX = 420  # the chart of the first lanes begins above this
MOST_WORDS = 400
# The words of the page that can be seen, without the names of icons, which are drawn as pictures.
WORDS = """() => {
    const main = document.querySelector('[data-testid=stMain]');
    const icons = [...main.querySelectorAll('[data-testid=stIconMaterial]')].filter(icon => icon.offsetParent);
    return main.innerText.split(/\\s+/).filter(Boolean).length - icons.length;
}"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    home = tmp_path_factory.mktemp("home")
    for engine in ("static", "continuous"):
        command = [sys.executable, "-m", "engine", "simulate", "--engine", engine, "--model", "qwen2.5-1.5b"]
        subprocess.run([*command, "--hardware", "h100", "--out", str(home / "runs")], cwd=ROOT, check=True)
    take_in(home)
    with AppServer(home) as server:
        yield server


@pytest.fixture
def screen(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of the size that the test asks for; a small one is a phone's."""
    width, height = request.param
    is_phone = width < 500
    context = browser.new_context(viewport={"width": width, "height": height}, is_mobile=is_phone, has_touch=is_phone)
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def run_ids(served: AppServer) -> list[str]:
    """Static first: it was made first."""
    return sorted(path.name for path in (served.home / "runs").iterdir())


def open_compare(page: Page, served: AppServer, more: str = "") -> None:
    page.goto(f"{served.url}/compare?runs={','.join(run_ids(served))}{more}")
    expect(page.get_by_role("heading", level=2)).to_contain_text("In simulation", timeout=PATIENCE_MS)
    expect(page.get_by_role("tabpanel").locator(".js-plotly-plot").first).to_be_visible()


def open_run(page: Page, served: AppServer, more: str = "") -> None:
    page.goto(f"{served.url}/run?run_id={run_ids(served)[0]}{more}")
    expect(page.get_by_role("heading", level=2)).to_contain_text("Simulated static", timeout=PATIENCE_MS)
    expect(page.get_by_role("tabpanel").locator(".js-plotly-plot").first).to_be_visible()


def box_of(place: Locator) -> FloatRect:
    found = place.bounding_box()
    assert found is not None
    return found


def timelines(page: Page) -> Locator:
    """The slot timelines, by what they say for those who cannot see them."""
    return page.get_by_role("figure", name=re.compile("^Slot timeline"))


@pytest.mark.parametrize("screen", [LAPTOP], indirect=True)
def test_both_timelines_and_the_tiles_are_on_a_laptops_first_screen(screen: Page, served: AppServer) -> None:
    open_compare(screen, served)
    expect(timelines(screen)).to_have_count(2)
    tiles = box_of(screen.locator(".tiles"))
    assert box_of(timelines(screen).first)["y"] < FIRST_CHART_PX
    assert box_of(timelines(screen).last)["y"] < tiles["y"]
    assert tiles["y"] + tiles["height"] <= LAPTOP[1]
    assert screen.locator(".tile").count() == 6
    assert screen.evaluate(WORDS) < MOST_WORDS


@pytest.mark.parametrize("screen", [LAPTOP], indirect=True)
def test_the_timeline_and_the_tiles_of_a_run_are_on_a_laptops_first_screen(screen: Page, served: AppServer) -> None:
    open_run(screen, served)
    tiles = box_of(screen.locator(".tiles"))
    assert box_of(timelines(screen).first)["y"] < FIRST_CHART_PX
    assert tiles["y"] + tiles["height"] <= LAPTOP[1]
    assert screen.evaluate(WORDS) < MOST_WORDS


@pytest.mark.parametrize("screen", [PHONE], indirect=True)
@pytest.mark.parametrize("opened", [open_compare, open_run])
def test_a_phones_first_screen_shows_lanes(screen: Page, served: AppServer, opened: object) -> None:
    assert callable(opened)
    opened(screen, served)
    chart = box_of(timelines(screen).first)
    assert chart["y"] + 120 < PHONE[1]  # the queue takes some 90 pixels above the lanes
    assert screen.locator(".modebar-container").first.is_hidden()  # its buttons would cover the legend
    assert screen.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0]


@pytest.mark.parametrize("screen", [LAPTOP], indirect=True)
def test_a_tab_is_drawn_when_it_is_opened_and_kept_in_the_address(screen: Page, served: AppServer) -> None:
    open_compare(screen, served)
    latency = screen.get_by_role("figure", name=re.compile("cumulative"))
    expect(latency).to_have_count(0)
    screen.get_by_role("tab", name="Latencies").click()
    expect(latency).to_have_count(5)
    expect(screen).to_have_url(re.compile("tab=latencies"))
    screen.reload()
    expect(latency).to_have_count(5)
    expect(screen.get_by_role("tab", name="Latencies")).to_have_attribute("aria-selected", "true")


@pytest.mark.usefixtures("own_locks")
def test_a_disturbed_run_is_run_again_and_one_back_leads_to_it(page: Page, lab_home: Path) -> None:
    busy = {"python": "3.11", "cpu_count": 2, "load_average_1min": 7.0}
    write_run(lab_home / "runs", "r1", "static", environment=busy)
    with AppServer(lab_home) as app:
        page.goto(f"{app.url}/run?run_id=r1")
        page.get_by_role("button", name="Run again").click(timeout=PATIENCE_MS)
        page.wait_for_url(re.compile(r"[?]job="), timeout=PATIENCE_MS)
        expect(page.get_by_role("heading", level=1, name="Bench")).to_be_visible(timeout=PATIENCE_MS)
        page.go_back()
        expect(page.get_by_role("heading", level=2)).to_contain_text("Static needed 4 forward passes")
        assert "run_id=r1" in page.url


@pytest.mark.parametrize("screen", [LAPTOP], indirect=True)
def test_cautions_open_from_one_line(screen: Page, served: AppServer) -> None:
    open_run(screen, served)
    said = "Step times come from a hardware model on a virtual clock."
    expect(screen.get_by_text(said)).to_have_count(0)
    screen.get_by_role("button", name=re.compile(r"\d cautions?")).click()
    expect(screen.get_by_text(said)).to_be_visible()
