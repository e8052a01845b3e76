"""The badges of validity in words, for a cell of a table, a line, or a comparison. Pure text.

One that was earned says what holds of the run, one that was lost what is wrong with it: each reads as what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.format import plural, unbroken
from engine.core.validity import CHECKS, Outcome

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


def lost_words(lost: str) -> str:
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
