"""The glossary as a reader meets it: everything at first, a search, and a link to one entry."""

from __future__ import annotations

from pathlib import Path

from engine.core.glossary import GLOSSARY
from engine.core.metrics import METRICS
from pages.parts.screen_words import FIGURES, OPTIONS
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


def test_words_of_paged_kv_memory_are_found_by_the_names_that_people_know(lab_home: Path) -> None:
    app = open_page("glossary")
    known = ("max-num-seqs", "max-num-batched-tokens", "block table", "watermark", "preempt", "CUDA graph", "bucket")
    for name in known:
        app.text_input(key="term").set_value(name).run()
        first = next(line for line in words(app).splitlines() if line.startswith("**"))
        assert first.startswith(f"**{name}**"), name


def test_no_word_is_explained_twice() -> None:
    own = [word.word.casefold() for word in GLOSSARY]
    assert [word.word for word in (*FIGURES, *OPTIONS) if word.word.casefold() in own] == []
    assert all(word.meaning.endswith(".") for word in (*FIGURES, *OPTIONS))
