"""Command-line options made from their declarations, and the RunConfig made from the options.

A command's own defaults and help texts are one table in its module, keyed by option name.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.core.config import (
    SETTINGS,
    RunConfig,
    SamplingConfig,
    WorkloadConfig,
)
from engine.core.errors import FieldError
from engine.core.option import Bounds, Choices, Option, Switch, Text, settings_of
from engine.workload.prompt_file import read_prompt_file

COMMANDS = {"sweep": "sweep", "load": "arrivals", "overhead": "overhead", "repeats": "run"}  # by kind of experiment
MIX = Option(
    default=None,
    label="Mix of lengths",
    help="exact lengths with weights",
    flags=("--mix",),
    takes=Text(examples="p16:3,p4096:1"),
    metavar="P16:3,P4096:1",
    group="prompts",
)
OUT = Option(
    default=None,
    label="Output folder",
    help="folder for run folders (default $LAB_HOME/runs)",
    flags=("--out",),
    takes=Text(examples="a folder"),
    metavar="FOLDER",
    group="measuring",
)

Own = Mapping[str, Mapping[str, Any]]
Group = argparse._ActionsContainer  # a parser, or a group of one


def add_option(group: Group, option: Option) -> None:
    """Add one argument as its option declares it. The configuration checks the limits of numbers."""
    kind: dict[str, Any] = {}
    if isinstance(option.takes, Bounds | Choices) and option.takes.type is not str:
        kind["type"] = option.takes.type
    if isinstance(option.takes, Switch):
        kind["action"] = "store_true"
    elif isinstance(option.takes, Choices) and option.metavar is None:
        kind["choices"] = option.takes.values
    else:
        kind["metavar"] = option.metavar
    group.add_argument(
        *option.flags,
        dest=option.name,
        default=option.default if option.parse is None else str(option.default),
        help=help_of(option),
        **kind,
    )


def help_of(option: Option) -> str:
    """An option's --help text with its default, escaped for argparse."""
    plain = f"{option.default:g}" if isinstance(option.default, float) else option.default
    has_default = option.default is not None and not isinstance(option.takes, Switch)
    default = f" (default {plain})" if has_default else ""
    return f"{option.help}{default}".replace("%", "%%")


def add_options(group: Group, options: Iterable[Option], own: Own | None = None) -> None:
    """Add arguments for `options`, with the fields that `own` replaces."""
    for option in options:
        add_option(group, replace(option, **(own or {}).get(option.name, {})))


def settings_in(group: str) -> list[Option]:
    """The settings of a run in one group of --help."""
    return [option for option in SETTINGS.values() if option.group == group]


def add_model_options(parser: argparse.ArgumentParser) -> None:
    add_options(parser.add_argument_group("model"), settings_in("model"))


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("engine")
    add_options(group, settings_in("engine"))
    add_pass_options(group)


def add_pass_options(group: Group) -> None:
    """Options of an engine's passes: execution, block size, tokens per step, memory limits."""
    add_options(group, settings_in("passes"))


def add_prompt_options(group: argparse._ArgumentGroup) -> None:
    """The source of a workload's prompts: one of three options."""
    source = group.add_mutually_exclusive_group()
    for option in (SETTINGS["prompts"], MIX, SETTINGS["prompt_file"]):
        is_lengths = option.name == "prompts"
        shown = "exact lengths in tokens, in equal shares (default: chat questions)" if is_lengths else option.help
        add_option(source, replace(option, default=None, help=shown))


def add_workload_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("workload")
    add_prompt_options(group)
    add_options(group, settings_in("workload"))


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    add_options(parser.add_argument_group("sampling"), settings_in("sampling"))


def run_config(args: argparse.Namespace) -> RunConfig:
    """The configuration from the options, with defaults for the rest. ValueError with one clear line."""
    given = {**vars(args), **_prompts(args)}
    return RunConfig(
        **settings_of(RunConfig, given),
        workload=WorkloadConfig(**settings_of(WorkloadConfig, given)),
        sampling=SamplingConfig(**settings_of(SamplingConfig, given)),
    )


def batch_config(args: argparse.Namespace, **own: Any) -> RunConfig:
    """What the points of an experiment share, each of which sets its own prompts, requests and slots.

    `own` are options that the experiment sets. ValueError with one clear line.
    """
    of_points = {"prompts": "p1", "mix": None, "prompt_file": None, "requests": 1, "slots": 1, "arrival": "closed"}
    return run_config(argparse.Namespace(**{**vars(args), **of_points, **own}))


def _prompts(args: argparse.Namespace) -> dict[str, Any]:
    """`prompts` and the lines of a prompt file, from whichever of the three options is given."""
    if args.prompt_file is not None:
        return {"prompts": "file", "prompt_file": read_prompt_file(Path(args.prompt_file))}
    given = [text for text in (args.prompts, args.mix) if text is not None]
    if given and given[0].strip() == "file":
        raise FieldError("prompts", "prompts file: name the file with --prompt-file")
    return {"prompts": given[0] if given else SETTINGS["prompts"].default, "prompt_file": ()}
