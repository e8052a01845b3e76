"""The Query page in a real browser: asking, hostile statements, canceling."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import pytest
from playwright.sync_api import Page, expect

from tests.support.app_server import ROOT, AppServer
from tests.support.hostile_sql import REFUSED, STOPPED
from tests.support.patience import PATIENCE_MS
from tests.support.runs.page_runs import write_run

pytestmark = pytest.mark.browser

GROWTH_BYTES = 64 << 20
HOSTILE = ("delete", "copy out", "read_csv", "two statements", "insert inside a select")
BOMBS = ("a string of 2 GB", "recursion without end")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    home = tmp_path_factory.mktemp("home")
    write_run(home / "runs", "r1", "static")
    write_run(home / "runs", "r2", "continuous")
    with AppServer(home) as server:
        yield server


def ask(page: Page, sql: str) -> None:
    """Write a statement into the editor and ask it by the keyboard."""
    editor = page.get_by_role("textbox", name="SQL")
    expect(editor).to_be_visible(timeout=PATIENCE_MS)
    editor.fill(sql)
    editor.press("Control+Enter")


def allow_a_minute(page: Page) -> None:
    """Choose the longest time limit, so that a busy machine answers too."""
    page.get_by_role("combobox", name="Max seconds").click(timeout=PATIENCE_MS)
    page.get_by_role("option", name="60").click()


def resident_bytes(app: AppServer) -> int:
    assert app.process is not None
    return int(Path(f"/proc/{app.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def by_command(app: AppServer, sql: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "store", "query", sql, "--json"],
        cwd=ROOT,
        env=os.environ | {"LAB_HOME": str(app.home)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_link_is_answered_with_a_chart_and_a_table_and_asked_anew_by_hand(page: Page, served: AppServer) -> None:
    page.goto(f"{served.url}/query?question=waste_by_engine")
    expect(page.get_by_role("heading", name="Waste by engine")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator(".js-plotly-plot .bars path").first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_test_id("stDataFrame")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("highest 0.250 (engine static)")).to_be_visible()
    ask(page, "SELECT 41 + 1 AS answer")
    expect(page.get_by_text("1 row in")).to_be_visible(timeout=PATIENCE_MS)
    expect(page).to_have_url(re.compile(r"/query\?sql=SELECT"))
    with page.expect_download() as downloading:
        page.get_by_role("button", name="CSV", exact=True).click()
    assert downloading.value.path().read_text() == '"answer"\n42\n'


def test_hostile_statements_from_the_page_touch_nothing(page: Page, served: AppServer) -> None:
    counted = "SELECT (SELECT count(*) FROM runs) AS runs, (SELECT count(*) FROM tokens) AS tokens"
    before = by_command(served, counted)
    snapshot = served.home / "snapshot.duckdb"
    image = hashlib.sha256(snapshot.read_bytes()).hexdigest()
    page.goto(f"{served.url}/query?question=speed_by_month")  # so that all that the page needs is loaded
    expect(page.get_by_text("2 rows in")).to_be_visible(timeout=PATIENCE_MS)
    resident = resident_bytes(served)
    for case in HOSTILE:
        sql, words = REFUSED[case]
        ask(page, sql)
        expect(page.get_by_role("alert").filter(has_text=words)).to_be_visible(timeout=PATIENCE_MS)
    for case in BOMBS:
        ask(page, f"{STOPPED[case]} -- {case}")
        expect(page.get_by_role("alert").filter(has_text="Stopped")).to_be_visible(timeout=PATIENCE_MS)
        ask(page, "SELECT 1 AS one")
        expect(page.get_by_text("1 row in")).to_be_visible(timeout=PATIENCE_MS)
    assert by_command(served, counted) == before
    assert hashlib.sha256(snapshot.read_bytes()).hexdigest() == image
    assert resident_bytes(served) - resident < GROWTH_BYTES


def test_cancel_ends_a_question(page: Page, served: AppServer) -> None:
    page.goto(f"{served.url}/query")
    allow_a_minute(page)
    ask(page, "SELECT sleep_ms(60000)")
    expect(page.get_by_text("of at most 60 s")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Canceled.")).to_be_visible(timeout=PATIENCE_MS)  # and not "Stopped after 60 s."


def test_the_editor_completes_keywords_tables_and_columns(page: Page, served: AppServer) -> None:
    hosts = set()
    page.on("request", lambda request: hosts.add(urlparse(request.url).hostname))
    page.goto(f"{served.url}/query")
    allow_a_minute(page)
    editor = page.get_by_role("textbox", name="SQL")
    expect(page.locator(".cm-editor")).to_be_visible(timeout=PATIENCE_MS)
    editor.click()
    for typed, label, full in (
        ("sel", "SELECT", "SELECT"),
        (" max(dead_position_f", "dead_position_fraction", "SELECT max(dead_position_fraction"),
        (") AS n FROM run_me", "run_metrics", "SELECT max(dead_position_fraction) AS n FROM run_metrics"),
    ):
        page.keyboard.type(typed)
        option = page.locator(".cm-tooltip-autocomplete").get_by_role("option", name=re.compile(label)).first
        expect(option).to_have_attribute("aria-selected", "true", timeout=PATIENCE_MS)
        page.wait_for_timeout(150)  # CodeMirror takes no key for a moment, so that what is typed is not completed
        page.keyboard.press("Enter")
        expect(editor).to_have_text(re.compile(rf"^{re.escape(full)}\)?$"))
    expect(page.locator(".cm-editor .keyword").first).to_have_text("SELECT")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("1 row in")).to_be_visible(timeout=PATIENCE_MS)
    expect(page).to_have_url(re.compile(r"sql=SELECT\+max%28dead_position_fraction%29\+AS\+n\+FROM\+run_metrics"))
    assert hosts == {"127.0.0.1"}


def test_a_link_and_a_prepared_query_fill_the_editor(page: Page, served: AppServer) -> None:
    page.goto(f"{served.url}/query?sql=SELECT%2041%0A-- why")
    editor = page.get_by_role("textbox", name="SQL")
    expect(page.locator(".cm-editor .cm-line")).to_have_text(["SELECT 41", "-- why"], timeout=PATIENCE_MS)
    expect(page.get_by_text("This query comes from a link.")).to_be_visible()
    page.get_by_role("button", name="Waste by engine").click()
    expect(editor).to_contain_text("dead_fraction", timeout=PATIENCE_MS)


def test_without_the_editor_the_text_area_asks(page: Page, served: AppServer) -> None:
    page.route("**/codemirror.min.js", lambda route: route.abort())
    page.goto(f"{served.url}/query")
    area = page.locator("textarea")
    expect(area).to_be_visible(timeout=PATIENCE_MS)
    allow_a_minute(page)
    ask(page, "SELECT 41 + 1 AS answer")
    expect(page.get_by_text("1 row in")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator(".cm-editor")).to_have_count(0)
