"""Static vs continuous in a real app and browser: from the click to the first token and to the finished comparison.

    python -m benchmarks.app.default_pair [--repeats 3] [--json]

The page stays open in one turn and closes after the click in the next (ABAB). The first pair only warms the worker.
Times come from the run logs on disk, so both cases are measured in the same way.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.conftest import CHROMIUM_FLAGS
from tests.support.app_server import AppServer

CHROMIUM = "/usr/bin/chromium"
TIMEOUT_S = 300.0


def click_the_pair(browser: Browser, url: str) -> tuple[Page, float]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(url)
    button = page.get_by_role("button", name="Compare two engines")
    button.wait_for(timeout=60_000)
    page.wait_for_timeout(1_000)
    clicked_s = time.time()
    button.click()
    return page, clicked_s


def wait_for(what: Callable[[], Any]) -> Any:
    """The first truthy answer. TimeoutError after TIMEOUT_S."""
    deadline = time.time() + TIMEOUT_S
    while time.time() < deadline:
        if found := what():
            return found
        time.sleep(0.01)
    raise TimeoutError(f"nothing after {TIMEOUT_S:.0f} s")


def one_pair(browser: Browser, url: str, runs: Path, *, stays_open: bool) -> dict[str, float]:
    """Seconds from the click to the first logged token and to the second run's result, and the median passes."""
    before = set(runs.glob("*")) if runs.exists() else set()
    page, clicked_s = click_the_pair(browser, url)
    wait_for(lambda: [f for f in runs.glob("*/tokens.arrows") if f.parent not in before and f.stat().st_size])
    first_token_s = time.time() - clicked_s
    if not stays_open:
        page.close()
    results = wait_for(lambda: _two_results(runs, before))
    figures = {"first_token_s": first_token_s, "finished_s": max(r.stat().st_mtime for r in results) - clicked_s}
    if stays_open:
        page.get_by_role("figure", name="Measured slot timeline of continuous").wait_for(timeout=60_000)
        figures["measured_drawn_s"] = time.time() - clicked_s
        page.close()
    for result in results:
        engine = json.loads((result.parent / "run.json").read_text())["engine"]
        figures[f"{engine}_decode_pass_s"] = json.loads(result.read_text())["totals"]["decode_pass_p50_s"]
    return figures


def _two_results(runs: Path, before: set[Path]) -> list[Path] | None:
    results = [f for f in runs.glob("*/result.json") if f.parent not in before]
    return results if len(results) == 2 else None


def medians(turns: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(t[name] for t in turns) for name in turns[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    opened: list[dict[str, float]] = []
    closed: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder, AppServer(Path(folder)) as app, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        runs = Path(folder) / "runs"
        one_pair(browser, app.url, runs, stays_open=True)
        for _ in range(args.repeats):
            opened.append(one_pair(browser, app.url, runs, stays_open=True))
            closed.append(one_pair(browser, app.url, runs, stays_open=False))
        browser.close()
    report = {"page_open": medians(opened), "page_closed": medians(closed)}
    if args.json:
        print(json.dumps({**report, "turns_open": opened, "turns_closed": closed}))
        return
    for name, figures in report.items():
        print(name)
        for key, value in figures.items():
            print(f"  {key:<28} {value:.3f}")


if __name__ == "__main__":
    main()
