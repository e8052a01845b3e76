"""From what the controls say to runs: one, two side by side, one a KV layout; their workload, and what is wrong.

Pure: the page draws the controls and hands their values over, by the names of bench_fields. A problem belongs to a
field, so that the page can show it there. What stands in the way of a comparison alone leaves the single run be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.core.config import FormRule, RunConfig, SamplingConfig, WorkloadConfig
from engine.core.errors import FieldError
from engine.core.option import settings_of
from engine.workload.arrivals import parse_arrival
from engine.workload.budgets import parse_budget
from engine.workload.prompts import parse_prompts
from engine.workload.workload import Workload
from pages.parts.shared.fields import FIELDS
from pages.parts.shared.workloads import workload_of

NO_FILE = "upload a text file with one prompt a line"
LAYOUTS = ("static", "continuous", "paged", "chunked")
OF_STATIC = ("form", "return")  # read by the static engine alone
SHOWN_AT = {"prompts": "mix", "prompt_file": "file"}  # settings whose field has another name here
TWICE = "choose two different engines to set side by side"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Runs that can be started, or the problems, a line a field, that stand in their way.

    `pair` are the two engines chosen to be set side by side, `layouts` one run of each of LAYOUTS. One of them that
    cannot be had is None, and `hindrances` says why, by the name `pair` or `layouts`. `repeats`: how often each is run.
    """

    config: RunConfig | None
    pair: tuple[RunConfig, ...] | None
    layouts: tuple[RunConfig, ...] | None
    workload: Workload | None
    problems: Mapping[str, str]
    hindrances: Mapping[str, str] = field(default_factory=dict)
    repeats: int = 1


def read_settings(values: Mapping[str, Any], prompt_lines: tuple[str, ...]) -> Settings:
    """`values` has an entry for each of bench_fields.FIELDS; `prompt_lines` are the lines of an uploaded file."""
    problems = _text_problems(values, prompt_lines)
    if problems:
        return _unusable(problems)
    try:
        config = _config(values, prompt_lines)
        workload = workload_of(config.workload)
    except ValueError as error:
        return _unusable({_field_of(error): str(error)})
    hindrances = {}
    comparisons: dict[str, tuple[RunConfig, ...] | None] = {}
    for name, engines in (("pair", (values["first"], values["second"])), ("layouts", LAYOUTS)):
        try:
            comparisons[name] = side_by_side(values, config, engines)
        except ValueError as error:
            comparisons[name], hindrances[name] = None, str(error)
    return Settings(
        config=config,
        **comparisons,
        workload=workload,
        problems={},
        hindrances=hindrances,
        repeats=int(values["repeats"]),
    )


def _unusable(problems: Mapping[str, str]) -> Settings:
    return Settings(config=None, pair=None, layouts=None, workload=None, problems=problems)


def side_by_side(values: Mapping[str, Any], config: RunConfig, engines: Sequence[str]) -> tuple[RunConfig, ...]:
    """One run an engine, alike in all else; what only one of them reads is set as the controls stand.

    ValueError where an engine is named twice, or where one of them cannot have the settings.
    """
    if len(set(engines)) < len(engines):
        raise ValueError(TWICE)
    return tuple(replace(config, engine=engine, **_of_static(values, engine)) for engine in engines)


def _text_problems(values: Mapping[str, Any], prompt_lines: tuple[str, ...]) -> dict[str, str]:
    checks: dict[str, Callable[[], object]] = {
        "budget": lambda: parse_budget(values["budget"]),
        "arrival": lambda: parse_arrival(values["arrival"]),
    }
    if values["prompts"] == "lengths":
        checks["mix"] = lambda: parse_prompts(values["mix"])
    problems = {}
    for name, check in checks.items():
        try:
            check()
        except ValueError as error:
            problems[name] = str(error)
    if values["prompts"] == "file" and not prompt_lines:
        problems["file"] = NO_FILE
    if not (values["model"] or "").strip():
        problems["model"] = "name a model, or a folder or hub id"
    return problems


def _config(values: Mapping[str, Any], prompt_lines: tuple[str, ...]) -> RunConfig:
    given = {name: each.strip() if isinstance(each, str) else each for name, each in values.items()}
    kind = given["prompts"]
    given["prompts"] = given["mix"] if kind == "lengths" else kind
    given["prompt_file"] = prompt_lines if kind == "file" else ()
    alike = {name: each for name, each in given.items() if name not in OF_STATIC}
    return RunConfig(
        **settings_of(RunConfig, alike),
        **_of_static(given, given["engine"]),
        workload=WorkloadConfig(**settings_of(WorkloadConfig, given)),
        sampling=SamplingConfig(**settings_of(SamplingConfig, given)),
    )


def _of_static(values: Mapping[str, Any], engine: str) -> dict[str, Any]:
    """How batches are formed and handed back: as set for the static engine, and no choice for any other."""
    if engine != "static":
        return {"form": FormRule(), "returns": "stream"}
    timeout_s = values["timeout"] if values["form"] == "timeout" else None
    return {"form": FormRule(rule=values["form"], timeout_s=timeout_s), "returns": values["return"]}


def _field_of(error: ValueError) -> str:
    """The field that shows an error; `requests` stands for the whole workload."""
    name = error.field if isinstance(error, FieldError) else ""
    name = SHOWN_AT.get(name, name)
    return name if name in FIELDS or name == "file" else "requests"
