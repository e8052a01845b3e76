"""Run and Compare in a real browser: from a click to the last change of what is in view, for runs of 64,000 tokens.

    python -m benchmarks.app.result_pages [--repeats 5] [--against CHECKOUT] [--home FOLDER] [--json]

A synthetic pair of 400 requests x 160 tokens each. The clicks are: Run in the menu of the Glossary page; on Run, the
link to the comparison with the other engine. `first` reads the store, `again` is the median of the repeats. With
--against, another checkout of the lab is measured in turns with this one, in the same session (ABAB).
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, sync_playwright

from benchmarks.synthetic_logs import SyntheticRun, write_synthetic_run
from tests.conftest import CHROMIUM_FLAGS
from tests.support.app_server import ROOT, AppServer

CHROMIUM = "/usr/bin/chromium"
BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
QUIET_MS = 1500  # without a change in view, the page is drawn
TIMEOUT_S = 120.0
# The time of the last change of an element that is in view, and whether a script runs. The status of the app is no part
# of the page.
WATCH = """() => {
    const isInView = element => {
        const box = element.getBoundingClientRect();
        return box.bottom > 0 && box.top < innerHeight && box.width > 0 && box.height > 0;
    };
    window.lastChange = null;
    new MutationObserver(changes => {
        for (const change of changes) {
            const node = change.target, element = node.nodeType === 1 ? node : node.parentElement;
            if (element && !element.closest('[data-testid=stToolbar], header') && isInView(element)) {
                window.lastChange = performance.now();
                return;
            }
        }
    }).observe(document.body, {childList: true, characterData: true, subtree: true});
    document.addEventListener('click', () => { window.clicked = performance.now(); }, {capture: true});
}"""
STATE = """() => ({now: performance.now(), clicked: window.clicked ?? null, changed: window.lastChange,
    running: !!document.querySelector('[data-testid=stStatusWidgetRunningIcon]')})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--against", type=Path, help="another checkout to measure in turns")
    parser.add_argument("--home", type=Path, help="the folder to create or reuse; each checkout gets its own store")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    checkouts = {"this": ROOT} | ({"against": options.against.resolve()} if options.against else {})
    with tempfile.TemporaryDirectory() as folder:
        report = measure(options.home or Path(folder), checkouts, options.repeats)
    if options.json:
        print(json.dumps(report))
        return
    for name, pages in report.items():
        for page, seconds in pages.items():
            print(f"{name:<8} {page:<8} first {seconds['first_s']:.2f} s, again {seconds['again_s']:.2f} s")


def measure(home: Path, checkouts: dict[str, Path], repeats: int) -> dict[str, dict[str, Any]]:
    """Seconds by checkout and page."""
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    with ExitStack() as stack:
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        apps = {}
        for name, root in checkouts.items():
            write_pair(home / name / "runs")
            apps[name] = stack.enter_context(AppServer(home / name, root=root))
        for _ in range(repeats + 1):
            for name, app in apps.items():
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                page.set_default_timeout(1000 * TIMEOUT_S)
                turns[name].append(one_turn(page, app.url))
                page.close()
        browser.close()
    return {
        name: {
            page: {
                "first_s": mine[0][page],
                "again_s": statistics.median(turn[page] for turn in mine[1:]),
                "turns_s": [turn[page] for turn in mine],
            }
            for page in mine[0]
        }
        for name, mine in turns.items()
    }


def write_pair(runs: Path) -> None:
    """A static and a continuous run of one job; nothing where the folder has runs."""
    if runs.exists():
        return
    for place, engine in enumerate(("static", "continuous")):
        run = SyntheticRun(
            engine=engine,
            requests=400,
            tokens_a_request=160,
            slots=16,
            seed=0,
            created_at=BEGAN + timedelta(minutes=place),
            experiment="pair0",
        )
        write_synthetic_run(runs, run)


def one_turn(page: Page, url: str) -> dict[str, float]:
    page.goto(f"{url}/glossary")
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_timeout(QUIET_MS)
    page.evaluate(WATCH)
    menu = page.get_by_test_id("stTopNavLinkContainer")
    run_s = seconds_of_click(page, menu.get_by_role("link", name="Run", exact=True))
    compare_s = seconds_of_click(page, page.get_by_role("link", name="Compare with the other engine").first)
    return {"run": run_s, "compare": compare_s}


def seconds_of_click(page: Page, link: Locator) -> float:
    """From the click to the last change in view. TimeoutError if the page does not come to rest."""
    link.click()
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        state = page.evaluate(STATE)
        since = state["now"] - max(state["changed"] or 0.0, state["clicked"])
        if not state["running"] and since > QUIET_MS and (state["changed"] or 0.0) > state["clicked"]:
            return float(state["changed"] - state["clicked"]) / 1000
        page.wait_for_timeout(200)
    raise TimeoutError(f"{page.url} was not at rest after {TIMEOUT_S:.0f} s")


if __name__ == "__main__":
    main()
