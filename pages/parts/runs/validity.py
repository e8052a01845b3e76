"""Badges of validity: as a table cell, on a run's page, and as a warning where compared runs differ in them.

An earned badge states what holds for the run (its label), a lost one what is wrong with it (its fault).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.core.format import plural, unbroken
from engine.validity.validity import CHECKS, Outcome
from pages.parts.shared.markdown import listed, plain

CHECK_BY_NAME = {check.name: check for check in CHECKS}
DISTURBING = {
    "host": "the host may have slowed the engine",
    "steady_clocks": "passes of one shape did not keep their speed",
}  # by check: what may be wrong with the times of a run that lost its badge
OUTCOMES = {Outcome.PASS: "earned", Outcome.FAIL: "lost", Outcome.NOT_APPLICABLE: "does not apply"}
MARKS = {
    Outcome.FAIL.value: (":material/cancel:", "orange"),
    Outcome.PASS.value: (":material/check_circle:", "green"),
}

Checks = Sequence[Mapping[str, Any]]  # of one run: rows of the store's `run_checks`


def draw_badges(checks: Checks) -> None:
    """The badges in a row, the lost ones first, with a summary; then every check with its finding and its limit."""
    with st.container(horizontal=True, gap="small"):
        for outcome, (icon, color) in MARKS.items():
            for check in checks:
                if check["outcome"] == outcome:
                    name = str(check["check_name"])
                    label = label_of(name) if outcome == Outcome.PASS.value else fault_of(name)
                    st.badge(label, icon=icon, color=color, help=plain(unbroken(str(check["finding"]))))  # type: ignore[arg-type]
    st.markdown(f"{summary(checks)}.")
    st.markdown("\n\n".join(map(_explained, explained_checks(checks))))


def _explained(check: ExplainedCheck) -> str:
    return (
        f"**{check.badge}** · {check.outcome}  \n{plain(check.finding)}  \n"
        f":small[{plain(check.meaning)} *Limit:* {plain(check.limit)}]"
    )


def distrust(runs: Mapping[str, Checks]) -> str:
    """Why the times of these runs cannot be trusted: `the host may have slowed the engine in both runs`; else empty.

    `runs` are the checks by the runs' names; a run without checks is not over.
    """
    lost = {name: names_of(checks, Outcome.FAIL) for name, checks in runs.items()}
    clauses = []
    for check, clause in DISTURBING.items():
        names = [name for name, each in lost.items() if check in each]
        if names:
            clauses.append(f"{clause}{_in_runs(names, len(runs))}")
    return " and ".join(clauses)


def distrust_text(arrivals: Sequence[str], why: str) -> str:
    """The sentence after the counts of runs whose times cannot be trusted. Where requests arrive over time, how many
    passes there are depends on the times too."""
    if all(arrival == "closed" for arrival in arrivals):
        return f"The times cannot be trusted: {why}."
    return f"The times cannot be trusted, nor, as requests arrived over time, these counts: {why}."


def _in_runs(names: Sequence[str], of_all: int) -> str:
    if of_all == 1:
        return ""
    if len(names) == of_all:
        return " in both runs" if of_all == 2 else f" in all {of_all} runs"
    return f" in {listed(names)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedCheck:
    """A check of a run as text. `meaning` says why the check matters."""

    badge: str
    outcome: str
    finding: str
    limit: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BadgeDifference:
    """A badge that some runs earned and others lost, with each run's finding."""

    label: str
    findings: tuple[str, ...]


def label_of(name: str) -> str:
    """The label of a check's badge; an unknown check is shown by its name."""
    return CHECK_BY_NAME[name].label if name in CHECK_BY_NAME else name


def fault_of(name: str) -> str:
    """What is wrong with a run that lost a check's badge; for an unknown check, `not` and its name."""
    return CHECK_BY_NAME[name].fault if name in CHECK_BY_NAME else f"not {name}"


def marks(earned: str, lost: str) -> str:
    """`6 of 8`: badges earned, of those that apply. The arguments are names separated by commas, as in the store."""
    kept, gone = (len([name for name in names.split(",") if name]) for names in (earned, lost))
    return f"{kept} of {kept + gone}" if kept + gone else ""


def lost_text(lost: str) -> str:
    """The faults of the lost badges, whose names are separated by commas."""
    return ", ".join(fault_of(name) for name in lost.split(",") if name)


def names_of(checks: Checks, outcome: Outcome) -> list[str]:
    """The names of the checks with this outcome."""
    return [str(check["check_name"]) for check in checks if check["outcome"] == outcome.value]


def summary(checks: Checks) -> str:
    """`8 badges earned, 1 lost: real weights; 2 do not apply`; `All 8 badges earned`."""
    earned, lost, absent = (names_of(checks, outcome) for outcome in Outcome)
    text = f"{plural(len(earned), 'badge')} earned"
    if lost:
        text += f", {len(lost)} lost: {', '.join(map(label_of, lost))}"
    elif len(earned) > 1:
        text = f"All {text}"
    return text + (f"; {len(absent)} {'does' if len(absent) == 1 else 'do'} not apply" if absent else "")


def explained_checks(checks: Checks) -> list[ExplainedCheck]:
    """Every check, the lost ones first."""
    order = (Outcome.FAIL.value, Outcome.PASS.value, Outcome.NOT_APPLICABLE.value)
    explained = []
    for row in sorted(checks, key=lambda row: order.index(row["outcome"])):
        check = CHECK_BY_NAME[str(row["check_name"])]
        explained.append(
            ExplainedCheck(
                badge=check.fault if row["outcome"] == Outcome.FAIL.value else check.label,
                outcome=OUTCOMES[Outcome(row["outcome"])],
                finding=unbroken(str(row["finding"])),
                limit=check.limit,
                meaning=check.meaning,
            )
        )
    return explained


def badge_differences(runs: Sequence[Checks]) -> tuple[BadgeDifference, ...]:
    """The badges that one run earned and another lost, in the order of CHECKS."""
    by_run = [{str(check["check_name"]): check for check in checks} for checks in runs]
    differences = []
    for check in CHECKS:
        rows = [checks.get(check.name) for checks in by_run]
        outcomes = {row["outcome"] for row in rows if row is not None}
        if {Outcome.PASS.value, Outcome.FAIL.value} <= outcomes:
            differences.append(BadgeDifference(label=check.label, findings=tuple(map(_finding, rows))))
    return tuple(differences)


def _finding(check: Mapping[str, Any] | None) -> str:
    """`lost: 39 of 40 prompts …`; a dash for a run without checks."""
    return "–" if check is None else f"{OUTCOMES[Outcome(check['outcome'])]}: {unbroken(check['finding'])}"


def lost_by_all(runs: Sequence[Checks]) -> tuple[list[str], list[str]]:
    """The badges that every run lost: what disturbed their times, as clauses, then the labels of the rest."""
    lost = [names_of(checks, Outcome.FAIL) for checks in runs]
    common = [name for name in lost[0] if all(name in others for others in lost)] if lost else []
    return (
        [DISTURBING[name] for name in common if name in DISTURBING],
        [label_of(name) for name in common if name not in DISTURBING],
    )
