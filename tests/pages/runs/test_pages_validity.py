"""Validity on the pages: a run's badges with what was found, and a comparison that warns where badges differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.core.format import breakable
from engine.validity.validity import CHECKS
from pages.parts.glossary.entries import all_groups
from pages.parts.history.table import annotation_text
from pages.parts.runs.validity import badge_differences, lost_by_all, lost_text, marks, summary
from pages.parts.shared.lab import lab
from store import Store
from store.annotations import Annotation
from tests.support.page_app import open_page, take_in, words
from tests.support.runs.page_runs import write_run


@pytest.fixture
def runs(lab_home: Path) -> Iterator[Path]:
    """A pair on disk; the page was open while the second one ran."""
    folder = lab_home / "runs"
    write_run(folder, "r1", "static")
    (write_run(folder, "r2", "continuous") / "watched").touch()
    take_in(lab_home)
    yield folder
    lab().close()
    st.cache_resource.clear()


def badges(app: AppTest) -> list[str]:
    """The words of every badge on the page."""
    return [element.value.partition("[")[2].rstrip("]") for element in app.markdown if "-badge[" in str(element.value)]


def test_a_runs_page_shows_what_it_earned_and_lost_and_why(runs: Path) -> None:
    app = open_page("run", run_id="r1")
    text = words(app)
    assert "1 caution" in [popover.proto.popover.label for popover in app.get("popover")]
    assert any("random weights" in badge and "cancel" in badge for badge in badges(app))
    assert not any("real weights" in badge or "watched live" in badge for badge in badges(app))
    assert any("live page closed" in badge and "check_circle" in badge for badge in badges(app))
    assert "The weights are random: speed and memory are valid" in text
    assert "2 of 2 prompts have exactly the requested length." in text
    for check in CHECKS:
        assert (check.fault if check.name == "real_weights" else check.label) in text
        assert breakable(check.limit) in text
        assert check.meaning in text
    watched = open_page("run", run_id="r2")
    assert any("watched live" in badge and "cancel" in badge for badge in badges(watched))
    assert "A live page shared the machine with this run." in words(watched)


def test_a_comparison_warns_of_badges_that_differ(runs: Path) -> None:
    text = words(open_page("compare", runs="r1,r2"))
    assert "These runs differ in validity: live page closed." in text
    assert "lost: A live page shared the machine with this run." in text
    assert "earned: No live page was open during the run." in text
    assert "real weights" in text.partition("Badges that all of these runs lost: ")[2].splitlines()[0]
    alike = words(open_page("compare", runs="r1,r1"))
    assert "differ in validity" not in alike


def test_a_runs_page_shows_its_note_and_tags(runs: Path) -> None:
    with Store(runs.parent) as store:
        store.annotations.set("r1", Annotation(note="First line\nsecond *line*", tags=("a tag",), pinned=True))
    app = open_page("run", run_id="r1")
    assert "First line" in words(app)
    assert "second *line*" in words(app)
    assert any("a tag" in badge for badge in badges(app))
    assert {"Unpin", "Note and tags …"} <= {button.label for button in app.button}
    next(button for button in app.button if button.label == "Unpin").click()
    app.run()
    assert not lab().store.annotations.of("r1").pinned


def checks(**outcomes: str) -> list[dict[str, Any]]:
    return [
        {"check_name": name, "outcome": outcome.replace("_", " "), "finding": f"{name} is {outcome}."}
        for name, outcome in outcomes.items()
    ]


def test_badge_texts() -> None:
    assert marks("measured,host", "") == "2 of 2"
    assert marks("measured", "real_weights,unwatched") == "1 of 3"
    assert marks("", "") == ""
    assert lost_text("real_weights,unwatched") == "random weights, watched live"
    assert lost_text("") == ""
    assert annotation_text("two\nlines", "a, b") == "[a, b] two lines"
    assert annotation_text("", "") == ""
    judged = checks(measured="pass", host="pass", real_weights="fail", warm_up="not_applicable")
    assert summary(judged) == "2 badges earned, 1 lost: real weights; 1 does not apply"
    assert summary(checks(measured="pass")) == "1 badge earned"
    assert summary(checks(measured="pass", host="pass")) == "All 2 badges earned"


def test_labels_are_positive_and_faults_differ() -> None:
    for check in CHECKS:
        assert not {"no", "not", "without", "lost", "un"} & set(check.label.split()), check.label
    assert len({words for check in CHECKS for words in (check.label, check.fault)}) == 2 * len(CHECKS)


def test_the_glossary_explains_every_badge() -> None:
    (group,) = [group for group in all_groups() if group.title == "Badges of validity"]
    assert [entry.title for entry in group.entries] == [check.label for check in CHECKS]
    assert all(check.limit in entry.meaning for check, entry in zip(CHECKS, group.entries, strict=True))


def test_a_check_that_does_not_apply_is_no_difference() -> None:
    earned, lost, absent = (checks(host=outcome) for outcome in ("pass", "fail", "not_applicable"))
    assert badge_differences([earned, absent]) == ()
    assert badge_differences([lost, absent]) == ()
    assert badge_differences([earned, earned]) == ()
    (difference,) = badge_differences([earned, lost, absent, []])
    assert difference.label == "host kept up"
    assert difference.findings == (
        "earned: host is pass.", "lost: host is fail.", "does not apply: host is not_applicable.", "–"
    )  # fmt: skip
    both = checks(host="fail", real_weights="fail")
    assert lost_by_all([both, both]) == (["the host may have slowed the engine"], ["real weights"])
    assert lost_by_all([both, lost]) == (["the host may have slowed the engine"], [])
    assert lost_by_all([lost, earned]) == ([], [])
    assert lost_by_all([]) == ([], [])
