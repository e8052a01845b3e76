"""The commands that repeat a run, a sweep or a load test, from what was recorded of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.command_line import PROMPT_FILE, command, prompt_flags, run_command, setting_flags, setting_values
from engine.core.config import SETTINGS, RunConfig
from engine.core.format import plural
from engine.core.presets import PRESETS
from engine.hardware.hardware_presets import HARDWARE
from engine.hardware.roofline import shape_of_run

OF_POINTS = ("engine", "requests", "slots", "arrival", "budget")  # each point of an experiment sets its own
SIMULATED_DEFAULTS = {"warmups": 0}
RATE_FLAGS = (
    ("read_bytes_per_s", "--read-gb-per-s", 1e9),
    ("flop_per_s", "--tflop-per-s", 1e12),
    ("launch_s", "--launch-us", 1e-6),
)


def repeat_command(info: Mapping[str, Any], config: RunConfig) -> str:
    """The command that makes the run of a run.json again: measured by `run`, simulated by `simulate`."""
    if not info.get("simulated"):
        return run_command(config)
    settings = setting_flags(config, defaults=SIMULATED_DEFAULTS)
    return command("simulate", [*_machine_flags(info), *settings, *prompt_flags(config.workload)])


def _machine_flags(info: Mapping[str, Any]) -> list[str]:
    """The simulated machine, with the rates that were not its preset's."""
    environment = info.get("environment") or {}
    name = str(environment.get("hardware") or "this")
    preset = HARDWARE.get(name)
    if preset is None:
        return ["--hardware", name]
    ceilings = preset.ceilings(shape_of_run(info.get("model") or {}))
    changed = [
        (flag, environment[rate] / unit)
        for rate, flag, unit in RATE_FLAGS
        if environment.get(rate) is not None and environment[rate] != getattr(ceilings, rate)
    ]
    bits = (info.get("model") or {}).get("weight_bits")
    width = ["--weight-bits", str(bits)] if bits not in (None, 16) else []
    gpus = environment.get("tensor_parallel_size") or 1
    width += ["--tensor-parallel-size", str(gpus)] if gpus != 1 else []
    return ["--hardware", name, *width, *(part for flag, value in changed for part in (flag, f"{value:.12g}"))]


def prompts_note(config: RunConfig) -> str:
    """Where the prompts of a file are; empty for any other run."""
    if config.workload.prompts != "file":
        return ""
    lines = plural(len(config.workload.prompt_lines), "prompt")
    return f"{PROMPT_FILE} stands for the file with the {lines}; they are in run.json, a line each."


def sweep_command(config: RunConfig, settings: Mapping[str, Any]) -> str:
    """The command of `engine sweep` for this plan. `config` is one of its points with the sweep's own budget."""
    flags = ["--engine", config.engine]
    for flag, value in (("--prompts", settings.get("prompts")), ("--mix", settings.get("mix"))):
        flags += [flag, str(value)] if value else []
    flags += ["--batch-size", ",".join(map(str, settings.get("batch_sizes") or ()))]
    flags += ["--budget", config.workload.budget, *_repeats(settings)]
    for name in ("flop_per_s", "bytes_per_s"):
        flags += [f"--{name.replace('_', '-')}", repr(float(settings[name]))] if settings.get(name) else []
    return command("sweep", [*flags, *setting_flags(config, leave_out=OF_POINTS)])


def load_command(config: RunConfig, settings: Mapping[str, Any]) -> str:
    """The command of `engine arrivals` for this plan."""
    values = setting_values(config)
    flags = ["--engines", ",".join(settings.get("engines") or ())]
    flags += ["--rates", ",".join(repr(float(rate)) for rate in settings.get("rates_per_s") or ())]
    flags += ["--arrival", str(settings.get("law") or "poisson")]
    for name in ("requests", "slots", "budget"):
        flags += [SETTINGS[name].flag, str(values[name])]
    for name in ("ttft_limit_s", "tpot_limit_s"):
        flags += [f"--{name.replace('_', '-')}", repr(float(settings[name]))] if settings.get(name) else []
    flags += [] if settings.get("confirm", True) else ["--no-confirm"]
    batches = PRESETS[config.engine].forms_batches  # else `form` and `return` are another engine's
    shared = setting_flags(config, leave_out=OF_POINTS if batches else (*OF_POINTS, "form", "return"))
    return command("arrivals", [*flags, *_repeats(settings), *shared, *prompt_flags(config.workload)])


def _repeats(settings: Mapping[str, Any]) -> list[str]:
    repeats = int(settings.get("repeats") or 1)
    return ["--repeats", str(repeats)] if repeats > 1 else []
