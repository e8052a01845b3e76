"""Takes the screenshots of the documents from a real app and real runs: `make screens`. Needs Chromium.

The app uses a temporary LAB_HOME; the pictures go to docs/images.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

from tests.conftest import CHROMIUM_FLAGS
from tests.support.app_server import AppServer

IMAGES = Path(__file__).with_name("images")
WINDOW: ViewportSize = {"width": 1280, "height": 1000}
PAIR_TIMEOUT_MS = 600_000
FIGURE_TIMEOUT_MS = 60_000
SETTLE_MS = 2_000
SMALL_POOL = "engine=paged&pool_gib=0.0085"  # 12 blocks: too few for four default requests


@contextmanager
def open_page(app: AppServer) -> Iterator[Page]:
    """A light page at twice the pixels, so that small text is sharp."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("take_screenshots: no chromium on this machine; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        context = browser.new_context(viewport=WINDOW, device_scale_factor=2, color_scheme="light")
        page = context.new_page()
        page.goto(app.url)
        yield page
        browser.close()


def compare_two_engines(page: Page) -> None:
    """Press the button on Bench, take the live view, wait for the results, and open Compare."""
    page.get_by_role("button", name="Compare two engines").click()
    page.get_by_text("run 2 of 2").wait_for(timeout=PAIR_TIMEOUT_MS)
    save(page, "live")
    open_results(page, "Open the comparison", "**/compare**")


def open_results(page: Page, label: str, address: str) -> None:
    """Wait for a link beside the measured timelines, and follow it."""
    page.get_by_role("link", name=label).click(timeout=PAIR_TIMEOUT_MS)
    page.wait_for_url(address)


def wait_for_figures(page: Page) -> None:
    """Wait until the first figure of a results page is drawn."""
    page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=FIGURE_TIMEOUT_MS)


def save(page: Page, name: str) -> None:
    """Save what the window shows, once it has settled."""
    page.wait_for_timeout(SETTLE_MS)
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    print(f"{path.name}: {path.stat().st_size // 1024} KiB")


def take_blocks(page: Page, app: AppServer) -> None:
    """The KV pool of a run whose pool is too small."""
    page.goto(f"{app.url}/?{SMALL_POOL}")
    page.get_by_role("button", name="Run paged").click()
    open_results(page, "Open the paged run", "**/run**")
    wait_for_figures(page)
    page.get_by_role("heading", name="KV blocks").evaluate("heading => heading.scrollIntoView()")
    save(page, "blocks")


def take_all(app: AppServer) -> None:
    """Live, Compare, Run and the pool of blocks."""
    with open_page(app) as page:
        compare_two_engines(page)
        wait_for_figures(page)
        page.get_by_role("heading", name="Slot timelines").scroll_into_view_if_needed()
        page.mouse.wheel(0, 500)  # the finding above, both timelines below
        save(page, "compare")
        run_id = page.url.partition("runs=")[2].split("&")[0].replace("%2C", ",").split(",")[-1]
        page.goto(f"{app.url}/run?run_id={run_id}")
        wait_for_figures(page)
        save(page, "run")
        take_blocks(page, app)


def main() -> int:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home, AppServer(Path(home)) as app:
        take_all(app)
    return 0


if __name__ == "__main__":
    sys.exit(main())
