"""From what the controls say to runs: one configuration, the pair's two, their workload, and what is wrong with them.

Pure: the page draws the controls and hands their values over, by the names of bench_fields. A problem belongs to a
field, so that the page can show it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.core.arrivals import parse_arrival
from engine.core.budgets import parse_budget
from engine.core.config import FormRule, RunConfig, SamplingConfig, WorkloadConfig
from engine.core.prompts import parse_prompts
from engine.core.workload import Workload
from pages.parts.forecast import workload_of

NO_FILE = "upload a text file with one prompt a line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Runs that can be started, or the problems, a line a field, that stand in their way."""

    config: RunConfig | None
    pair: tuple[RunConfig, RunConfig] | None
    workload: Workload | None
    problems: Mapping[str, str]


def read_settings(values: Mapping[str, Any], prompt_lines: tuple[str, ...]) -> Settings:
    """`values` has an entry for each of bench_fields.FIELDS; `prompt_lines` are the lines of an uploaded file."""
    problems = _text_problems(values, prompt_lines)
    if problems:
        return Settings(config=None, pair=None, workload=None, problems=problems)
    try:
        config = _config(values, prompt_lines)
        workload = workload_of(config.workload)
    except ValueError as error:
        problem = {_field_of(str(error)): str(error)}
        return Settings(config=None, pair=None, workload=None, problems=problem)
    static = replace(config, engine="static", form=_form(values), returns=values["return"])
    continuous = replace(config, engine="continuous", form=FormRule(), returns="stream")
    return Settings(config=config, pair=(static, continuous), workload=workload, problems={})


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
    kind = values["prompts"]
    is_static = values["engine"] == "static"
    return RunConfig(
        engine=values["engine"],
        model=values["model"].strip(),
        device=values["device"],
        dtype=values["dtype"],
        timing=values["timing"],
        slots=values["slots"],
        form=_form(values) if is_static else FormRule(),
        returns=values["return"] if is_static else "stream",
        workload=WorkloadConfig(
            prompts=values["mix"].strip() if kind == "lengths" else kind,
            prompt_lines=prompt_lines if kind == "file" else (),
            requests=values["requests"],
            budget=values["budget"].strip(),
            arrival=values["arrival"].strip(),
            seed=values["seed"],
        ),
        sampling=SamplingConfig(temperature=values["temperature"], top_k=values["top_k"], top_p=values["top_p"]),
        warmups=values["warmups"],
        pool_gib=values["pool_gib"],
        capacity_gib=values["capacity_gib"],
        gpu_memory_utilization=values["gpu_memory_utilization"],
    )


def _form(values: Mapping[str, Any]) -> FormRule:
    timeout_s = values["timeout"] if values["form"] == "timeout" else None
    return FormRule(rule=values["form"], timeout_s=timeout_s)


def _field_of(message: str) -> str:
    """The field that an error names with its first word; `requests` stands for the whole workload."""
    first = message.split(maxsplit=1)[0].rstrip(":") if message else ""
    names = {"prompts": "mix", "prompt": "mix", "top-k": "top_k", "top-p": "top_p"}
    known = ("budget", "arrival", "mix", "model", "slots", "seed", "temperature", "top_k", "top_p", "warmups")
    name = names.get(first, first)
    return name if name in known else "requests"
