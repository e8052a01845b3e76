"""A validity check: the badge that a run earns with it, why it matters, its limit, and how it is judged.

A check judges how far a run's figures can be trusted. It never changes a figure. A check that does not apply (the run
has no arrival rate, or nothing was logged) neither earns nor loses the badge.
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
    """The result of one check of one run. `finding` is one sentence with the run's own figures.

    `value` is the judged figure and `limit` its limit, in the check's unit; None if the check has no figure or does not
    apply.
    """

    outcome: Outcome
    finding: str
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """The data by which a run is judged. `record` has at least REQUEST_COLUMNS and PASS_COLUMNS; tokens are not used.

    `info` is run.json and `result` result.json, which is empty for an interrupted run. `watched`: a live page was open.
    """

    record: RunRecord
    info: Mapping[str, Any]
    result: Mapping[str, Any]
    watched: bool

    def part(self, name: str) -> Mapping[str, Any]:
        """An object inside run.json; empty if there is none."""
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
        """When the last pass ended; 0 for a run without passes."""
        return float(np.nan_to_num(self.pass_s("end_s")).max(initial=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One badge. `label` is its text on a run that earned it, `fault` on a run that lost it. `meaning` and `limit`
    explain it; `unit` is the unit of its figure."""

    name: str
    label: str
    fault: str
    meaning: str
    limit: str
    unit: str
    judge: Callable[[Evidence], Verdict]


def seconds(table: Table, name: str) -> Floats:
    """A column of seconds; all NaN if an older log lacks the column."""
    found = table.get(name)
    length = len(next(iter(table.values()), ()))
    return np.full(length, np.nan) if found is None else np.asarray(found, np.float64)


def counts(table: Table, name: str) -> NDArray[np.int64]:
    """A column of counts, -1 where a value is missing."""
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
