"""The glossary as a reader meets it: everything at first, a search, and a link to one entry."""

from __future__ import annotations

from pathlib import Path

from engine.core.metrics import METRICS
from tests.page_app import open_page, words


def test_every_metric_is_on_the_page(lab_home: Path) -> None:
    text = words(open_page("glossary"))
    assert [metric.name for metric in METRICS if metric.name not in text.replace("`", " ").split()] == []
    assert "1 - useful_slot_steps / slot_steps" in text
    assert "Words: the machine" in text


def test_a_link_opens_one_entry(lab_home: Path) -> None:
    app = open_page("glossary", term="dead_fraction")
    text = words(app)
    assert "1 entry of" in text
    assert "`dead_fraction` · share, 0 to 1 · lower is better" in text
    assert "`ttft_s`" not in text


def test_a_search_narrows_and_a_vain_one_says_so(lab_home: Path) -> None:
    app = open_page("glossary")
    app.text_input(key="term").set_value("padding").run()
    assert "`padding_fraction`" in words(app)
    assert "`queue_wait_s`" not in words(app)
    app.text_input(key="term").set_value("<nothing>").run()
    assert "Nothing here holds “<nothing>”" in words(app)
