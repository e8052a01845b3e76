"""Each option is declared once: the command line, the pages' fields, links and docs/options.md agree with it."""

from __future__ import annotations

import argparse
import pickle
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import pytest

from docs.write_options import PAGE, arguments_of, commands_of, page_fields, render
from engine.cli import build_parser
from engine.commands.calibrate import MEASURED_ENGINES
from engine.commands.options import MIX, OUT, run_config
from engine.commands.parity import COMPARED_ENGINES
from engine.core.config import SETTINGS, RunConfig, SamplingConfig, WorkloadConfig
from engine.core.errors import FieldError
from engine.core.option import SWITCHED, Bounds, Choices, Option, Switch, options_of, settings_of
from engine.experiments.experiment import REPEATS
from engine.experiments.sweep_plan import BATCH_SIZES, PROMPT_GRID, RAGGED_MIX
from engine.hardware.hardware_presets import CARD
from engine.hardware.roofline import WEIGHT_WIDTH
from engine.load.goodput import Limits
from engine.load.load_plan import CONFIRM, ENGINES_UNDER_LOAD, LAW, RATES
from engine.memory.memory_plan import LOGITS
from engine.simulator.router import Routing
from pages.parts.shared.fields import FIELDS, Choice, Number, query_of
from store.cli.main import build_parser as store_parser

CONFIGS = (RunConfig, WorkloadConfig, SamplingConfig)
SHARED = (MIX, OUT, REPEATS, CARD, WEIGHT_WIDTH, LOGITS, BATCH_SIZES, PROMPT_GRID, RAGGED_MIX)
SHARED += (COMPARED_ENGINES, MEASURED_ENGINES)
SHARED += (ENGINES_UNDER_LOAD, RATES, LAW, CONFIRM, *options_of(Limits).values(), *options_of(Routing).values())
PARTS = ("form", "prompts")  # of a text of its own, which Bench takes from several fields


def run_parser() -> argparse.ArgumentParser:
    return commands_of(build_parser())["run"]


def refused() -> Iterator[tuple[type, str, Any]]:
    """Of every setting with limits a value just outside each."""
    for kind in CONFIGS:
        for name, option in options_of(kind).items():
            match option.takes:
                case Choices(values=values):
                    yield kind, name, "no such value" if option.takes.type is str else max(values) + 1
                case Bounds(low=low, high=high, above=above, whole=whole):
                    yield kind, name, low if above else low - 1 if whole or low == 0 else low / 2
                    if high != float("inf"):
                        yield kind, name, high + 1


@pytest.mark.parametrize("config", CONFIGS)
def test_every_setting_is_declared(config: type) -> None:
    nested = {"workload", "sampling"}
    assert set(options_of(config)) == {field.name for field in fields(config)} - nested


@pytest.mark.parametrize("option", [*SETTINGS.values(), *SHARED], ids=lambda option: option.flag)
def test_every_option_has_a_label_a_help_a_flag_and_a_parameter(option: Option) -> None:
    assert option.label.strip()
    assert option.help.strip()
    assert all(re.fullmatch(r"--[a-z][a-z-]+", flag) for flag in option.flags)
    assert re.fullmatch(r"[a-z][a-z_]+", option.parameter)


def test_without_options_a_run_is_the_configurations_defaults() -> None:
    assert run_config(run_parser().parse_args([])) == RunConfig()


def test_every_option_of_a_run_reaches_its_setting() -> None:
    given: dict[str, Any] = {}
    arguments: list[str] = []
    for name, option in SETTINGS.items():
        if name in ("prompt_file", "engine"):
            continue
        match option.takes:
            case Choices(values=values):
                value: Any = next(each for each in values if each != option.default)
            case Bounds(low=low, high=high):
                value = option.takes.type(low + 1 if high > 1 else 0.5)
            case Switch():
                given[name] = True
                arguments.append(option.flag)
                continue
            case _:
                value = {"form": "timeout:2.5", "prompts": "p16:3,p64"}.get(name, f"x{name}")
        given[name] = value
        arguments += [option.flag, str(value)]
    config = run_config(run_parser().parse_args([*arguments, "--engine", "static"]))
    assert config == RunConfig(
        engine="static",
        **settings_of(RunConfig, given),
        workload=WorkloadConfig(**settings_of(WorkloadConfig, given)),
        sampling=SamplingConfig(**settings_of(SamplingConfig, given)),
    )
    assert config != RunConfig(engine="static")
    assert RunConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(("kind", "name", "value"), list(refused()))
def test_a_setting_outside_its_limits_names_its_field(kind: type, name: str, value: Any) -> None:
    option = options_of(kind)[name]
    with pytest.raises(FieldError, match=f"^{option.flag[2:]} .*: use ") as error:
        kind(**{name: value})
    assert error.value.field == option.parameter


def test_the_error_of_a_field_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(FieldError("slots", "slots 0: use 1 to 4,096")))
    assert (error.field, str(error)) == ("slots", "slots 0: use 1 to 4,096")


@pytest.mark.parametrize("name", [name for name in SETTINGS if name not in ("prompt_file", *PARTS)])
def test_a_field_of_bench_has_its_options_default_and_limits(name: str) -> None:
    option, field = SETTINGS[name], FIELDS[name]
    assert field.label == option.label
    match option.takes:
        case Choices(values=values):
            assert isinstance(field, Choice)
            assert (field.options, field.default) == (tuple(map(str, values)), str(option.default))
        case Bounds(whole=whole, above=above):
            assert isinstance(field, Number)
            assert (field.default, field.whole, field.above) == (option.default, whole, above)
        case Switch():
            assert isinstance(field, Choice)
            assert (field.options, SWITCHED[field.default]) == (("no", "yes"), option.default)
        case _:
            assert field.default == option.default


@pytest.mark.parametrize(("kind", "name", "value"), list(refused()))
def test_bench_refuses_what_a_run_refuses(kind: type, name: str, value: Any) -> None:
    field = FIELDS[options_of(kind)[name].parameter]
    if not (isinstance(field, Number) and field.low <= value <= field.high):  # a slider may pass what 0.01 would not
        assert field.complaint(str(value)) is not None


def test_a_link_without_settings_is_the_default_run() -> None:
    assert query_of(RunConfig()) == {}


def test_a_switch_is_yes_in_a_link_and_true_in_json() -> None:
    config = RunConfig(workload=WorkloadConfig(rescale_arrivals=True))
    assert query_of(config) == {"rescale_arrivals": "yes"}
    assert config.to_dict()["workload"]["rescale_arrivals"] is True
    assert RunConfig.from_dict(config.to_dict()) == config
    with pytest.raises(ValueError, match="use true or false"):
        RunConfig.from_dict({"workload": {"rescale_arrivals": 1}})
    with pytest.raises(ValueError, match="use a whole number"):
        RunConfig.from_dict({"slots": True})


def every_argument() -> Mapping[str, list[str]]:
    return {
        f"{program} {name}": [flag for action in arguments_of(command) for flag in action.option_strings]
        for program, parser in (("engine", build_parser()), ("store", store_parser()))
        for name, command in commands_of(parser).items()
    }


@pytest.mark.parametrize(("command", "flags"), list(every_argument().items()))
def test_every_option_of_a_command_is_in_the_documents(command: str, flags: list[str]) -> None:
    section = PAGE.read_text().partition(f"## `python -m {command}`\n")[2].partition("\n## ")[0]
    shared = PAGE.read_text().partition("## Settings of a run")[2].partition("\n## ")[0]
    documented = set(re.findall(r"--[a-z][a-z-]+", section + shared))
    assert flags
    assert set(flags) - documented == set()


@pytest.mark.parametrize("page", list(page_fields()))
def test_every_parameter_of_a_page_is_in_the_documents(page: str) -> None:
    section = PAGE.read_text().partition(f"### {page}\n")[2].partition("\n### ")[0]
    assert set(page_fields()[page]) == set(re.findall(r"^\| `(\w+)`", section, flags=re.M))


def test_the_page_of_options_is_what_the_declarations_say() -> None:
    assert PAGE.read_text() == render() + "\n", "write it again: make docs"
