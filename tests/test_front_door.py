"""Every page with an address is entered through app.py, whichever is asked for first."""

from __future__ import annotations

import re

import pytest

from tests.app_server import ROOT

PAGES = re.findall(r'st\.Page\("(pages/\w+\.py)"', (ROOT / "app.py").read_text(encoding="utf-8"))


def test_the_app_names_its_pages() -> None:
    assert len(PAGES) >= 6


@pytest.mark.parametrize("path", PAGES)
def test_a_page_ends_with_the_front_door(path: str) -> None:
    """Without it, a fresh app that is asked for this page shows its files as pages, and not the lab."""
    assert (ROOT / path).read_text(encoding="utf-8").rstrip().endswith("\nfront_door(render)")
