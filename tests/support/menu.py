"""The app's menu as a visitor uses it in a browser: open a group, click a page."""

from __future__ import annotations

from playwright.sync_api import Page, expect

MENU = {
    "Measure": ("Bench", "Sweep", "Load"),
    "Results": ("History", "Run", "Compare", "Repeats"),
    "Estimate": ("Memory", "Roofline", "What if"),
    "Learn": ("Predictions", "Query", "Glossary"),
}


def go(page: Page, title: str) -> None:
    """Open the page's group in the menu, click its link, and wait for the page's heading."""
    open_group(page, title)
    page.get_by_role("menuitem", name=title, exact=True).click()
    expect(page.get_by_role("heading", level=1, name=title, exact=True)).to_be_visible()


def open_group(page: Page, title: str) -> None:
    """Open the menu's group that holds a page."""
    group = next(group for group, titles in MENU.items() if title in titles)
    page.get_by_test_id("stTopNav").get_by_role("button", name=group).click()
