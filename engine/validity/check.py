"""What a validity check is: a badge that a run earns, why it matters, where its limit lies, and how it is judged.

A check judges whether a run's figures can be trusted for what they seem to say. It never changes a figure. One that
does not apply (no rate was asked for, nothing was logged of it) neither gives nor takes the badge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.record import RunRecord, Table

Floats = NDArray[np.float64]

REQUEST_COLUMNS = (
    "request_id",
    "prompt_tokens",
    "asked_prompt_tokens",
    "arrival_s",
    "submitted_s",
    "admitted_s",
    "finished_s",
    "preemptions",
)
PASS_COLUMNS = (
    "pass_index",
    "step",
    "kind",
    "start_s",
    "end_s",
    "issue_s",
    "rows",
    "tokens",
    "width",
    "recomputed_tokens",
)


class Outcome(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How one run did in one check. `finding` says it in a sentence with the run's own figures.

    `value` is the figure that was judged and `limit` what it was held against, in the check's unit; None where the
    check counts no such figure, or does not apply.
    """

    outcome: Outcome
    finding: str
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """What a run left to judge it by. `record` has at least REQUEST_COLUMNS and PASS_COLUMNS; no token is looked at.

    `info` is run.json and `result` result.json, empty for a run that was cut off. `watched`: a live page was open.
    """

    record: RunRecord
    info: Mapping[str, Any]
    result: Mapping[str, Any]
    watched: bool

    def part(self, name: str) -> Mapping[str, Any]:
        """An object inside run.json; empty where there is none."""
        found = self.info.get(name)
        return found if isinstance(found, Mapping) else {}

    def request_s(self, name: str) -> Floats:
        return seconds(self.record.requests, name)

    def pass_s(self, name: str) -> Floats:
        return seconds(self.record.passes, name)

    @property
    def is_simulated(self) -> bool:
        return bool(self.info.get("simulated"))

    @property
    def is_complete(self) -> bool:
        return self.result.get("status") == "completed"

    @property
    def end_s(self) -> float:
        """When the last pass was over; 0 for a run without passes."""
        return float(np.nan_to_num(self.pass_s("end_s")).max(initial=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One badge. `label` says what holds of a run that earned it, `fault` what is wrong with one that did not;
    `meaning` and `limit` explain it to a reader; `unit` is its figure's."""

    name: str
    label: str
    fault: str
    meaning: str
    limit: str
    unit: str
    judge: Callable[[Evidence], Verdict]


def seconds(table: Table, name: str) -> Floats:
    """A column of seconds, NaN where it is missing as a whole: an older log has no such column."""
    found = table.get(name)
    length = len(next(iter(table.values()), ()))
    return np.full(length, np.nan) if found is None else np.asarray(found, np.float64)


def counts(table: Table, name: str) -> NDArray[np.int64]:
    """A column of counts, -1 where one is missing."""
    found = table.get(name)
    length = len(next(iter(table.values()), ()))
    return np.full(length, -1, np.int64) if found is None else np.asarray(found, np.int64)


def passed(finding: str, value: float | None = None, limit: float | None = None) -> Verdict:
    return Verdict(outcome=Outcome.PASS, finding=finding, value=value, limit=limit)


def failed(finding: str, value: float | None = None, limit: float | None = None) -> Verdict:
    return Verdict(outcome=Outcome.FAIL, finding=finding, value=value, limit=limit)


def not_applicable(finding: str) -> Verdict:
    return Verdict(outcome=Outcome.NOT_APPLICABLE, finding=finding)


def judged(holds: bool, finding: str, value: float, limit: float) -> Verdict:
    return (passed if holds else failed)(finding, float(value), float(limit))
