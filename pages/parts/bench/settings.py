"""From the values of the Bench page's controls to runs: one engine, two to compare, and one run a KV layout.

Pure: no widgets, no store. Every problem belongs to a field, where the page shows it. A problem of a comparison does
not affect the single run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.core.config import SETTINGS, RunConfig, SamplingConfig, WorkloadConfig
from engine.core.errors import FieldError
from engine.core.form_rule import FormRule
from engine.core.option import settings_of
from engine.core.presets import PRESETS
from engine.workload.arrivals import parse_arrival
from engine.workload.budgets import parse_budget
from engine.workload.prompts import parse_prompts
from engine.workload.workload import Workload
from pages.parts.shared.fields import FIELDS
from pages.parts.shared.workloads import workload_of

NO_FILE = "upload a text file with one prompt a line"
LAYOUTS = ("static", "continuous", "paged", "chunked")
OF_STATIC = ("form", "return")  # settings of the static engine only
SHOWN_AT = {"prompts": "mix", "prompt_file": "file"}  # settings whose field has another name on this page
TWICE = "choose two different engines to compare"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison that the page can start: the label of its button, and its name in a sentence."""

    button: str
    name: str


COMPARISONS = {
    "pair": Comparison(button="Compare two engines", name="the two engines"),
    "layouts": Comparison(button="Compare four engines", name="the four engines"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSettings:
    """The runs that can be started, or `problems`: one line a field.

    `pair` are the two engines to compare, `layouts` one run of each engine in LAYOUTS. A comparison that cannot run is
    None, and `unavailable` says why, by its name in COMPARISONS. `repeats` is how often each engine runs.
    """

    config: RunConfig | None
    pair: tuple[RunConfig, ...] | None
    layouts: tuple[RunConfig, ...] | None
    workload: Workload | None
    problems: Mapping[str, str]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    repeats: int = 1


def read_settings(values: Mapping[str, Any], prompt_lines: tuple[str, ...]) -> BenchSettings:
    """`values` has an entry for each of FIELDS; `prompt_lines` are the lines of an uploaded file."""
    problems = _text_problems(values, prompt_lines)
    if problems:
        return _invalid(problems)
    try:
        config = _config(values, prompt_lines)
        workload = workload_of(config.workload)
    except ValueError as error:
        return _invalid({_field_of(error): str(error)})
    unavailable = {}
    comparisons: dict[str, tuple[RunConfig, ...] | None] = {}
    for name, engines in (("pair", (values["first"], values["second"])), ("layouts", LAYOUTS)):
        try:
            comparisons[name] = side_by_side(values, config, engines)
        except ValueError as error:
            comparisons[name], unavailable[name] = None, str(error)
    return BenchSettings(
        config=config,
        **comparisons,
        workload=workload,
        problems={},
        unavailable=unavailable,
        repeats=int(values["repeats"]),
    )


def _invalid(problems: Mapping[str, str]) -> BenchSettings:
    return BenchSettings(config=None, pair=None, layouts=None, workload=None, problems=problems)


def side_by_side(values: Mapping[str, Any], config: RunConfig, engines: Sequence[str]) -> tuple[RunConfig, ...]:
    """One run an engine with the same settings; static also gets its own.

    ValueError for an engine named twice, or one that does not accept the settings.
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
        problems["model"] = f"model: {SETTINGS['model'].takes.rule}"
    return problems


def _config(values: Mapping[str, Any], prompt_lines: tuple[str, ...]) -> RunConfig:
    given = {name: each.strip() if isinstance(each, str) else each for name, each in values.items()}
    kind = given["prompts"]
    given["prompts"] = given["mix"] if kind == "lengths" else kind
    given["prompt_file"] = prompt_lines if kind == "file" else ()
    shared = {name: each for name, each in given.items() if name not in OF_STATIC}
    return RunConfig(
        **settings_of(RunConfig, shared),
        **_of_static(given, given["engine"]),
        workload=WorkloadConfig(**settings_of(WorkloadConfig, given)),
        sampling=SamplingConfig(**settings_of(SamplingConfig, given)),
    )


def _of_static(values: Mapping[str, Any], engine: str) -> dict[str, Any]:
    """Batch formation and response mode: as set for static, the only choice for every other engine."""
    if not PRESETS[engine].forms_batches:
        return {"form": FormRule(), "returns": "stream"}
    timeout_s = values["timeout"] if values["form"] == "timeout" else None
    return {"form": FormRule(rule=values["form"], timeout_s=timeout_s), "returns": values["return"]}


def _field_of(error: ValueError) -> str:
    """The field that shows an error; `requests` for an error of the whole workload."""
    name = error.field if isinstance(error, FieldError) else ""
    name = SHOWN_AT.get(name, name)
    return name if name in FIELDS or name == "file" else "requests"
