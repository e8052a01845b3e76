"""The command that repeats a run: its settings as flags of the command line, without those at their default."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from engine.core.config import SETTINGS, RunConfig, WorkloadConfig
from engine.core.option import Option, Switch, options_of

PROGRAM = (".venv/bin/python", "-m", "engine")
PROMPT_FILE = "prompts.txt"  # stands for the file of a run whose prompts came from one
_PROMPTS = ("prompts", "prompt_file")


def command(name: str, flags: Sequence[str]) -> str:
    """`.venv/bin/python -m engine run --slots 8`, quoted for a shell."""
    return shlex.join([*PROGRAM, name, *flags])


def run_command(config: RunConfig) -> str:
    """The command of `engine run` with these settings."""
    return command("run", [*setting_flags(config), *prompt_flags(config.workload)])


def setting_flags(
    config: RunConfig, *, defaults: Mapping[str, Any] | None = None, leave_out: Collection[str] = ()
) -> list[str]:
    """The settings that differ from their defaults, as flags; prompts are `prompt_flags`.

    `defaults` are a command's own, by option name. Options named in `leave_out` are not written.
    """
    values = setting_values(config)
    expected = {name: option.default for name, option in SETTINGS.items()} | dict(defaults or {})
    changed = [name for name in SETTINGS if name not in (*_PROMPTS, *leave_out) and values[name] != expected[name]]
    return [part for name in changed for part in flag_of(SETTINGS[name], values[name])]


def flag_of(option: Option, value: Any) -> list[str]:
    """An option on the command line: its flag and the value; a switch that is on is its flag alone."""
    if isinstance(option.takes, Switch):
        return [option.flag] if value else []
    return [option.flag, str(value)]


def setting_values(config: RunConfig) -> dict[str, Any]:
    """Every setting of a run by its option's name."""
    parts = (config, config.workload, config.sampling)
    return {option.name: getattr(part, field) for part in parts for field, option in options_of(type(part)).items()}


def prompt_flags(workload: WorkloadConfig) -> list[str]:
    """The source of the prompts: lengths, a mix with weights, a file, or nothing for the default."""
    if workload.prompts == "file":
        return [SETTINGS["prompt_file"].flag, PROMPT_FILE]
    if workload.prompts == SETTINGS["prompts"].default:
        return []
    return ["--mix" if ":" in workload.prompts else SETTINGS["prompts"].flag, workload.prompts]
