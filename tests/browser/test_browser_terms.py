"""Glossary terms on hover, in a real browser: the term under the pointer says what it means; no text changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from engine.metrics.glossary import GLOSSARY
from pages.parts.shared.components.term_hover import PLAIN, meanings
from tests.support.app_server import AppServer

pytestmark = pytest.mark.browser

BOX_OF_TERM = """term => {
  const walker = document.createTreeWalker(document.querySelector(".stMain"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const at = walker.currentNode.data.indexOf(term), text = walker.currentNode.parentElement;
    if (at < 0 || !text.closest("[data-testid='stMarkdownContainer'] p")) continue;
    const range = new Range();
    range.setStart(walker.currentNode, at);
    range.setEnd(walker.currentNode, at + term.length);
    const box = range.getBoundingClientRect();
    if (box.width) return {x: box.x + box.width / 2, y: box.y + box.height / 2};
  }
  return null;
}"""


def test_every_plain_word_is_a_glossary_term() -> None:
    """A word that left the glossary leaves the list too."""
    assert {word.word for word in GLOSSARY} >= PLAIN


def test_a_term_in_a_finding_explains_itself(page: Page, tmp_path: Path) -> None:
    with AppServer(tmp_path / "home") as app:
        page.goto(app.url)
        page.wait_for_function("CSS.highlights.get('lab-term')?.size > 0")
        tip = page.locator("#lab-term")
        expect(tip).to_be_hidden()
        page.wait_for_function(f"({BOX_OF_TERM})('slot-steps') !== null")
        at = page.evaluate(BOX_OF_TERM, "slot-steps")
        text = page.locator(".stMain").inner_text()
        page.mouse.move(at["x"], at["y"])
        expect(tip).to_have_text(f"slot-step {meanings()['slot-step']}")
        assert page.locator(".stMain").inner_text() == text
        page.keyboard.press("Escape")
        expect(tip).to_be_hidden()
        page.mouse.click(at["x"], at["y"])  # a tap
        expect(tip).to_be_visible()
        page.mouse.move(at["x"], 5)
        expect(tip).to_be_hidden()
