"""What a form of an experiment comes to: a plan, or what is wrong, a line a field. Pure: no widgets, no store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.core.errors import FieldError
from engine.core.experiment import Plan
from engine.core.run_id import new_run_id
from engine.core.timestamp import utc_now

NO_ID = "planned"  # of a plan that has not been started


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOrProblems:
    """A plan that can be run, or the problems, a line a field, that stand in its way."""

    plan: Plan | None
    problems: Mapping[str, str]


def text_problems(values: Mapping[str, Any], checks: Mapping[str, Callable[[], object]]) -> dict[str, str]:
    """The line of each check that raises ValueError, by the name of its field; a model has to be named too."""
    problems = {}
    for name, check in checks.items():
        try:
            check()
        except ValueError as error:
            problems[name] = str(error)
    if not (values["model"] or "").strip():
        problems["model"] = "name a model, or a folder or hub id"
    return problems


def problem_of(error: ValueError, fields: Collection[str], whole: str) -> dict[str, str]:
    """An error's line by the field that it is about; `whole` stands for all of them."""
    name = error.field if isinstance(error, FieldError) else whole
    return {name if name in fields else whole: str(error)}


def named(plan: Plan) -> Plan:
    """The plan as an experiment of its own: a new id, made now."""
    created_at = utc_now()
    return replace(plan, experiment_id=new_run_id(), created_at=created_at)
