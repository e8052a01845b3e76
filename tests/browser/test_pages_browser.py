"""The pages of finished runs in a real browser: deep links, selecting, comparing and deleting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from engine.runlog.locks import hold
from engine.runlog.schema import LOCK_FILE
from tests.support.app_server import AppServer
from tests.support.menu import MENU
from tests.support.patience import PATIENCE_MS
from tests.support.runs.page_runs import write_crashed, write_run

pytestmark = pytest.mark.browser

ROW_PX, HEADER_PX, BOX_X = 35, 35, 16


def write_pair(home: Path) -> Path:
    """A pair of runs on disk before the app starts."""
    write_run(home / "runs", "r1", "static")
    write_run(home / "runs", "r2", "continuous")
    return home / "runs"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """One app for all tests that only read; it is asked for nothing before the first of them."""
    home = tmp_path_factory.mktemp("home")
    write_pair(home)
    with AppServer(home) as server:
        yield server


def select_rows(page: Page, *places: int) -> None:
    """Tick rows of the table of runs; it is drawn on a canvas."""
    canvas = page.get_by_test_id("stDataFrame").locator("canvas").first
    expect(canvas).to_be_visible(timeout=PATIENCE_MS)
    box = canvas.bounding_box()
    assert box is not None
    for place in places:
        page.mouse.click(box["x"] + BOX_X, box["y"] + HEADER_PX + ROW_PX * place + ROW_PX / 2)
    what = "1 run selected" if len(places) == 1 else f"{len(places)} runs selected"
    expect(page.get_by_text(what)).to_be_visible(timeout=PATIENCE_MS)


def test_a_deep_link_is_the_first_thing_that_a_fresh_app_is_asked(page: Page, served: AppServer) -> None:
    page.goto(f"{served.url}/compare?runs=r1,r2")
    expect(page.get_by_text("Continuous was 1.33 times as fast as static")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_test_id("stTopNavSection")).to_have_text(list(MENU))


def test_two_selected_runs_are_compared(page: Page, served: AppServer) -> None:
    page.goto(f"{served.url}/history")
    select_rows(page, 0, 1)
    page.get_by_role("button", name="Compare").click()
    expect(page).to_have_url(re.compile(r"/compare\?runs=r1(,|%2C)r2"), timeout=PATIENCE_MS)
    page.get_by_role("tab", name="Answers").click()
    expect(page.get_by_text("gave the same answers: all 6 tokens")).to_be_visible(timeout=PATIENCE_MS)


def test_a_selected_run_opens(page: Page, served: AppServer) -> None:
    page.goto(f"{served.url}/history")
    select_rows(page, 1)
    page.get_by_role("button", name="Open").click()
    expect(page).to_have_url(re.compile(r"/run\?run_id=r1"), timeout=PATIENCE_MS)
    expect(page.get_by_text("15.0 tokens/s").first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("figure", name="Slot timeline")).to_be_visible(timeout=PATIENCE_MS)
    for tab in ("Waste", "Latencies", "Passes", "Requests", "Details"):
        expect(page.get_by_role("tab", name=tab)).to_be_visible(timeout=PATIENCE_MS)


def test_a_deleted_run_comes_back_or_goes_for_good(page: Page, lab_home: Path) -> None:
    runs = write_pair(lab_home)
    with AppServer(lab_home) as app:
        page.goto(f"{app.url}/history")
        select_rows(page, 0)
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(page.get_by_text("1 run moved to the trash.")).to_be_visible(timeout=PATIENCE_MS)
        expect(page.get_by_text("1 run in")).to_be_visible(timeout=PATIENCE_MS)
        assert not (runs / "r2").exists()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_text("2 runs in")).to_be_visible(timeout=PATIENCE_MS)
        assert (runs / "r2").is_dir()
        select_rows(page, 0)
        page.get_by_role("button", name="Delete", exact=True).click()
        page.get_by_text("Trash: 1 run").click()
        page.get_by_role("button", name="Empty trash …").click()
        expect(page.get_by_text("This cannot be undone")).to_be_visible(timeout=PATIENCE_MS)
        page.get_by_role("button", name="Delete 1 run permanently").click()
        expect(page.get_by_text("Trash: 1 run")).to_have_count(0, timeout=PATIENCE_MS)
        assert list((lab_home / "trash").iterdir()) == []
        assert [path.name for path in runs.iterdir()] == ["r1"]


def test_a_run_is_noted_found_by_it_and_taken_to_another_lab(page: Page, lab_home: Path, tmp_path: Path) -> None:
    write_pair(lab_home)
    with AppServer(lab_home) as app:
        page.goto(f"{app.url}/history")
        select_rows(page, 1)
        page.get_by_role("button", name="Note and tags …").click()
        page.get_by_label("Note", exact=True).fill("the odd one")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("button", name="Save")).to_have_count(0, timeout=PATIENCE_MS)
        page.goto(f"{app.url}/history?text=odd")
        expect(page.get_by_text("1 of 2 runs in")).to_be_visible(timeout=PATIENCE_MS)
        select_rows(page, 0)
        with page.expect_download(timeout=PATIENCE_MS) as download:
            page.get_by_role("button", name="Export", exact=True).click()
        download.value.save_as(tmp_path / "taken.zip")
        assert download.value.suggested_filename == "r1.zip"
    other = tmp_path / "other"
    other.mkdir()
    with AppServer(other) as app:
        page.goto(f"{app.url}/history")
        page.get_by_text("Import runs").click()
        page.locator("input[type=file]").set_input_files(tmp_path / "taken.zip")
        page.get_by_role("button", name="Import", exact=True).click()
        expect(page.get_by_text("1 run in")).to_be_visible(timeout=PATIENCE_MS)
        page.goto(f"{app.url}/run?run_id=r1")
        expect(page.get_by_text("the odd one")).to_be_visible(timeout=PATIENCE_MS)
        expect(page.get_by_text("15.0 tokens/s").first).to_be_visible(timeout=PATIENCE_MS)


def test_a_page_that_is_open_tells_of_a_crash_by_itself(page: Page, lab_home: Path) -> None:
    folder = write_crashed(lab_home / "runs", "r1")
    with AppServer(lab_home) as app:
        with hold(folder / LOCK_FILE, purpose="run r1"):
            page.goto(f"{app.url}/run?run_id=r1")
            expect(page.get_by_text("Still running:")).to_be_visible(timeout=PATIENCE_MS)
        expect(page.get_by_text("The worker died during this run")).to_be_visible(timeout=PATIENCE_MS)
        expect(page.get_by_text("Still running:")).to_have_count(0)


def test_a_run_made_while_the_list_is_open_appears_by_itself(page: Page, lab_home: Path) -> None:
    runs = write_pair(lab_home)
    with AppServer(lab_home) as app:
        page.goto(f"{app.url}/history")
        expect(page.get_by_text("2 runs in")).to_be_visible(timeout=PATIENCE_MS)
        write_run(runs, "r3", "static")
        expect(page.get_by_text("3 runs in")).to_be_visible(timeout=PATIENCE_MS)
