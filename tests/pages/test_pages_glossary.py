"""The glossary: all entries, the search, and links to one entry."""

from __future__ import annotations

from pathlib import Path

from engine.metrics.definitions import CHOICES
from engine.metrics.glossary import GLOSSARY
from engine.metrics.metrics import METRICS
from pages.parts.glossary.entries import DEFINITION, all_groups, search
from pages.parts.glossary.screen_terms import FIGURES, OPTIONS
from pages.parts.shared.links import WHO_COUNTS_SO
from tests.support.page_app import open_page, words


def test_every_metric_is_on_the_page(lab_home: Path) -> None:
    text = words(open_page("glossary"))
    assert [metric.name for metric in METRICS if metric.name not in text.replace("`", " ").split()] == []
    assert "1 - useful_slot_steps / slot_steps" in text
    assert "Terms: engines and memory" in text


def test_a_link_opens_one_entry(lab_home: Path) -> None:
    app = open_page("glossary", term="dead_fraction")
    text = words(app)
    assert "1 entry of" in text
    assert "`dead_fraction` · share, 0 to 1 · lower is better" in text
    assert "`ttft_s`" not in text


def test_the_search_narrows_the_entries(lab_home: Path) -> None:
    app = open_page("glossary")
    app.text_input(key="glossary.term").set_value("padding").run()
    assert "`padding_fraction`" in words(app)
    assert "`queue_wait_s`" not in words(app)
    app.text_input(key="glossary.term").set_value("<nothing>").run()
    assert "No entries match “<nothing>”" in words(app)


def test_terms_of_paged_kv_memory_are_found_by_their_names_in_vllm(lab_home: Path) -> None:
    app = open_page("glossary")
    known = ("max-num-seqs", "max-num-batched-tokens", "block table", "watermark", "preempt", "CUDA graph", "bucket")
    for name in known:
        app.text_input(key="glossary.term").set_value(name).run()
        first = next(line for line in words(app).splitlines() if line.startswith("**"))
        assert first.startswith(f"**{name}**"), name


def test_no_term_is_explained_twice() -> None:
    own = [word.word.casefold() for word in GLOSSARY]
    assert [word.word for word in (*FIGURES, *OPTIONS) if word.word.casefold() in own] == []
    assert all(word.meaning.endswith(".") for word in (*FIGURES, *OPTIONS))


def test_the_glossary_has_every_metric_once() -> None:
    entries = [entry for group in all_groups() for entry in group.entries if entry.formula]
    names = [entry.name for entry in entries if entry.unit != DEFINITION]
    assert sorted(names) == sorted(metric.name for metric in METRICS)


def test_the_glossary_has_every_latency_definition_with_its_tools() -> None:
    (found,) = search(all_groups(), WHO_COUNTS_SO)
    assert [entry.name for entry in found.entries] == [f"{c.name}={o.name}" for c in CHOICES for o in c.options]
    (entry,) = search(all_groups(), "tpot=with-first")[0].entries
    assert "GuideLLM's time per output token" in entry.meaning
    assert entry.formula == "(last delivery - arrival_s) / output_tokens"
    assert found.entries[0].meaning.startswith("The default. ")


def test_the_glossary_has_every_term_once() -> None:
    words = [entry.name for group in all_groups() for entry in group.entries if group.title.startswith("Terms")]
    assert sorted(words) == sorted(word.word for word in (*GLOSSARY, *FIGURES, *OPTIONS))


def test_a_metrics_name_finds_only_it() -> None:
    (group,) = search(all_groups(), "Dead_Fraction")
    assert [entry.name for entry in group.entries] == ["dead_fraction"]
    (table,) = search(all_groups(), "ttft_p50_s")
    assert not table.is_table


def test_a_terms_own_group_comes_first() -> None:
    found = search(all_groups(), "dead")
    assert found[0].title == "Terms: engines and memory"
    assert any(entry.name == "dead_fraction" for group in found for entry in group.entries)


def test_a_search_needs_every_word() -> None:
    assert search(all_groups(), "no such thing at all") == ()
    assert search(all_groups(), "") == all_groups()
