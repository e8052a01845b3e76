"""Bench in a browser: its folded settings, and its results."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect


def open_settings(page: Page) -> None:
    """Unfold the form with all settings."""
    page.get_by_text("All settings", exact=True).click()


def open_comparison(page: Page, timeout_ms: float) -> None:
    """Wait until the runs are measured, and open Compare with them."""
    _open(page, "Open the comparison", r"/compare\?runs=", timeout_ms)


def open_run(page: Page, engine: str, timeout_ms: float) -> None:
    """Wait until the engine's run is measured, and open it."""
    _open(page, f"Open the {engine} run", r"/run\?run_id=", timeout_ms)


def _open(page: Page, label: str, address: str, timeout_ms: float) -> None:
    link = page.get_by_role("link", name=label)
    expect(link).to_be_visible(timeout=timeout_ms)
    link.click()
    page.wait_for_url(re.compile(address), timeout=timeout_ms)


def typed(page: Page, label: str) -> Locator:
    """A number field of the form, and not the slider that shows the same setting."""
    return page.get_by_role("spinbutton", name=label, exact=True)
