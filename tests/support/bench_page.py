"""Bench in a browser: its folded settings."""

from __future__ import annotations

from playwright.sync_api import Locator, Page


def open_settings(page: Page) -> None:
    """Unfold the form with all settings."""
    page.get_by_text("All settings", exact=True).click()


def typed(page: Page, label: str) -> Locator:
    """A number field of the form, and not the slider that shows the same setting."""
    return page.get_by_role("spinbutton", name=label, exact=True)
