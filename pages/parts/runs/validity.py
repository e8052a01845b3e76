"""The badges of validity in words, for a cell of a table, a line, or a comparison. Pure text.

One that was earned says what holds of the run, one that was lost what is wrong with it: each reads as what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.core.format import plural, unbroken
from engine.validity.validity import CHECKS, Outcome
from pages.parts.runs.loaded_run import RunData
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.tables import draw_table

CHECK_BY_NAME = {check.name: check for check in CHECKS}
DISTURBING = ("host", "steady_clocks")  # lost by a run, its times may be the machine's doing
OUTCOME_WORDS = {Outcome.PASS: "earned", Outcome.FAIL: "lost", Outcome.NOT_APPLICABLE: "does not apply"}

Checks = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadgeDifference:
    """A badge that some of several runs earned and others lost. `found` says of each run how it did, and why."""

    label: str
    found: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldCheck:
    """A check of a run in words: the badge, what became of it, what was found, where the limit lies, why it matters."""

    words: str
    outcome: str
    found: str
    limit: str
    meaning: str


def label_of(name: str) -> str:
    """A check's badge in words; an unknown one by its own name."""
    return CHECK_BY_NAME[name].label if name in CHECK_BY_NAME else name


def fault_of(name: str) -> str:
    """What is wrong with a run that lost a check's badge; an unknown one by its own name."""
    return CHECK_BY_NAME[name].fault if name in CHECK_BY_NAME else f"not {name}"


def marks(earned: str, lost: str) -> str:
    """A cell of the history: `6 of 8` badges that apply. The names as in the store, with commas between."""
    kept, gone = (len([name for name in names.split(",") if name]) for names in (earned, lost))
    return f"{kept} of {kept + gone}" if kept + gone else ""


def lost_text(lost: str) -> str:
    """What is wrong with a run, of the badges that it lost."""
    return ", ".join(fault_of(name) for name in lost.split(",") if name)


def names_of(checks: Checks, outcome: Outcome) -> list[str]:
    """The names of the checks that had this outcome."""
    return [str(check["check_name"]) for check in checks if check["outcome"] == outcome.value]


def summary(checks: Checks) -> str:
    """`8 badges earned, 1 lost: random weights; 2 do not apply`; `All 8 badges earned`."""
    earned, lost, absent = (names_of(checks, outcome) for outcome in Outcome)
    words = f"{plural(len(earned), 'badge')} earned"
    if lost:
        words += f", {len(lost)} lost: {', '.join(map(fault_of, lost))}"
    elif len(earned) > 1:
        words = f"All {words}"
    return words + (f"; {len(absent)} {'does' if len(absent) == 1 else 'do'} not apply" if absent else "")


def told_checks(checks: Checks) -> list[ToldCheck]:
    """Every check, the lost ones first."""
    order = (Outcome.FAIL.value, Outcome.PASS.value, Outcome.NOT_APPLICABLE.value)
    told = []
    for row in sorted(checks, key=lambda row: order.index(row["outcome"])):
        check = CHECK_BY_NAME[str(row["check_name"])]
        told.append(
            ToldCheck(
                words=check.fault if row["outcome"] == Outcome.FAIL.value else check.label,
                outcome=OUTCOME_WORDS[Outcome(row["outcome"])],
                found=unbroken(str(row["finding"])),
                limit=check.limit,
                meaning=check.meaning,
            )
        )
    return told


def badge_differences(runs: Sequence[Checks]) -> tuple[BadgeDifference, ...]:
    """The badges that one run earned and another lost, in the order of CHECKS."""
    by_run = [{str(check["check_name"]): check for check in checks} for checks in runs]
    found = []
    for check in CHECKS:
        rows = [checks.get(check.name) for checks in by_run]
        outcomes = {row["outcome"] for row in rows if row is not None}
        if {Outcome.PASS.value, Outcome.FAIL.value} <= outcomes:
            found.append(BadgeDifference(label=check.label, found=tuple(map(_found, rows))))
    return tuple(found)


def _found(check: Mapping[str, Any] | None) -> str:
    """`lost: 39 of 40 prompts …`; a dash for a run that was not judged."""
    return "–" if check is None else f"{OUTCOME_WORDS[Outcome(check['outcome'])]}: {unbroken(check['finding'])}"


def lost_by_all(runs: Sequence[Checks]) -> tuple[list[str], list[str]]:
    """What is wrong with all of the runs, of the badges that each lost: what disturbs times, then the rest."""
    lost = [names_of(checks, Outcome.FAIL) for checks in runs]
    common = [name for name in lost[0] if all(name in others for others in lost)] if lost else []
    return (
        [fault_of(name) for name in common if name in DISTURBING],
        [fault_of(name) for name in common if name not in DISTURBING],
    )


# A run's validity on its page, and what a comparison has to say of it: badges earned and lost, each explained.

MARKS = {
    Outcome.FAIL.value: (":material/cancel:", "orange"),
    Outcome.PASS.value: (":material/check_circle:", "green"),
}


def draw_validity(run: RunData) -> None:
    """The badges in a row, the lost ones first, and all of them explained behind an expander."""
    checks = lab().store.runs.checks(run.run_id)
    if not checks:  # it is still going
        return
    st.subheader("Validity", anchor="validity")
    with st.container(horizontal=True, gap="small"):
        for outcome, (icon, color) in MARKS.items():
            for check in checks:
                if check["outcome"] == outcome:
                    name = str(check["check_name"])
                    label = label_of(name) if outcome == Outcome.PASS.value else fault_of(name)
                    st.badge(label, icon=icon, color=color, help=plain(unbroken(str(check["finding"]))))  # type: ignore[arg-type]
    st.caption(f"{summary(checks)}.")
    with st.expander("What was checked, and what was found", icon=":material/rule:"):
        for check in told_checks(checks):
            st.markdown(f"**{check.words}** · {check.outcome}  \n{plain(check.found)}")
            st.caption(f"{plain(check.meaning)} *Limit:* {plain(check.limit)}")


def draw_validity_warning(runs: Mapping[str, RunData]) -> None:
    """In a comparison: where one run earned a badge that another lost, which may be why their figures differ."""
    checks: dict[str, Checks] = {name: lab().store.runs.checks(run.run_id) for name, run in runs.items()}
    differing = badge_differences(list(checks.values()))
    if differing:
        labels = ", ".join(difference.label for difference in differing)
        st.warning(
            f"**These runs differ in validity: {plain(labels)}.** A difference between their figures may come from it.",
            icon=":material/rule:",
        )
        with st.expander("What was found of each"):
            draw_table(("badge", *checks), [[difference.label, *difference.found] for difference in differing])
    disturbed, others = lost_by_all(list(checks.values()))
    if disturbed:
        st.warning(
            f"**All of these runs: {plain(', '.join(disturbed))}.** How much they differ may be the machine's doing as "
            "much as the engines': run them again before you believe it.",
            icon=":material/rule:",
        )
    if others:
        st.caption(f":material/rule: All of these runs: {plain(', '.join(others))}.")
