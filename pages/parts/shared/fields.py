"""Fields: a page's settings by their names in the address, with default and limits.

They are made from the options' declarations; a page's own defaults and limits are in one table. FIELDS are those of
Bench. `complaints` lists the values of a link that a field does not accept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.core.config import SETTINGS, RunConfig
from engine.core.option import SWITCHED, Bounds, Choices, Option, Switch, options_of
from engine.core.option import Text as OptionText
from engine.core.presets import ENGINES
from engine.experiments.experiment import REPEATS
from engine.hardware.hardware_presets import HARDWARE
from engine.hardware.tensor_parallel import TensorParallel
from engine.load.goodput import Limits
from engine.simulator.machine import THIS, SimulationTarget

FORMS = ("arrived", "full", "timeout")
MEASURED = "measured"  # the value of `hardware` for a run on this machine
PROMPT_KINDS = ("chat", "lengths", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of a few values."""

    options: tuple[str, ...]
    default: str
    label: str = ""
    help: str = ""

    def complaint(self, text: str) -> str | None:
        return None if text in self.options else f"use one of {', '.join(self.options)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number from `low` to `high`, without `low` itself if `above` is true. A default of None means: not set, which
    an empty widget shows as `unset`."""

    low: float
    high: float
    default: float | None
    whole: bool = True
    above: bool = False
    label: str = ""
    help: str = ""
    unset: str = "no cap"

    def complaint(self, text: str) -> str | None:
        try:
            value = float(int(text)) if self.whole else float(text)
        except (ValueError, OverflowError):
            value = math.nan
        is_low = value <= self.low if self.above else value < self.low
        if math.isfinite(value) and not is_low and value <= self.high:
            return None
        kind = "a whole number" if self.whole else "a number"
        if self.above:
            return f"use {kind} above {self.low:,.0f}, up to {self.high:,.0f}"
        return f"use {kind} from {self.low:,.0f} to {self.high:,.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Free text. A wrong text stays in its field, and the field says what to fix."""

    default: str
    label: str = ""
    help: str = ""

    def complaint(self, text: str) -> str | None:
        return None


Field = Choice | Number | Text

LEAST_POOL_GIB = 1e-6
CAP = "Empty: no cap. A run that needs more ends as out of memory."
RUNNABLE_MODEL = "Choose a model, or type a folder with safetensors or GGUF files, or a hub id as owner/model."
MODEL_SHAPE = "Choose a model, or type the path of a config.json or of its folder."
MAX_SHOWN = 40  # characters of a link's bad value


def field_of(option: Option, **own: Any) -> Field:
    """The field that sets an option. `own` replaces what the option declares: default, limits, choices."""
    takes = option.takes
    default: Any = None if option.default is None else str(option.default)
    made: Field
    if isinstance(takes, Bounds):
        low = takes.low if takes.also is None else min(takes.low, takes.also)
        made = Number(low=low, high=takes.high, default=option.default, whole=takes.whole, above=takes.above)
    elif isinstance(takes, Switch):
        made = Choice(options=tuple(SWITCHED), default=own.get("default", switch_text(option.default)))
    elif isinstance(takes, Choices):
        made = Choice(options=tuple(map(str, takes.values)), default=own.get("default", default))
    else:
        made = Text(default=own.get("default", default))
    return replace(made, **{"label": option.label, "help": _help_of(option), **own})


def switch_text(value: Any) -> str:
    """A value as a choice's text: a switch as `yes` or `no`."""
    return str(value) if not isinstance(value, bool) else next(text for text, on in SWITCHED.items() if on is value)


def _help_of(option: Option) -> str:
    """A field's tooltip: the forms that free text takes, else what the option sets."""
    if isinstance(option.takes, OptionText) and not option.takes.required:
        return f"Use {option.takes.examples}."
    return "" if option.help.lower() == option.label.lower() else f"{option.help[0].upper()}{option.help[1:]}."


def fields_of(options: Iterable[Option], own: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Field]:
    """A page's fields by their names in its address. `own`, by the same names, replaces what the options declare."""
    return {each.parameter: field_of(each, **(own or {}).get(each.parameter, {})) for each in options}


OWN: dict[str, dict[str, Any]] = {
    "model": {"help": RUNNABLE_MODEL},
    "requests": {"low": 1},
    "top_k": {"high": 1_000_000},
    "repeats": {"high": 50, "help": "Engines are interleaved, so slow drift affects all about equally."},
}

SIMULATION = (*options_of(TensorParallel).values(), *options_of(Limits).values())
FIELDS: dict[str, Field] = fields_of((*SETTINGS.values(), REPEATS, *SIMULATION), OWN) | {
    "hardware": Choice(
        options=(MEASURED, THIS, *HARDWARE),
        default=MEASURED,
        label="GPU",
        help="The GPU that runs are simulated on, by its published or measured rates.",
    ),
    "weight_bits": Choice(options=("16", "8"), default="16", label="Bits per weight"),
    "first": Choice(options=ENGINES, default="static", label="First engine", help="Ratios are over this engine."),
    "second": Choice(options=ENGINES, default="continuous", label="Second engine"),
    "form": Choice(options=FORMS, default="arrived", label=SETTINGS["form"].label),
    "timeout": Number(low=0, high=3600, default=1.0, whole=False, above=True, label="Timeout, seconds"),
    "prompts": Choice(options=PROMPT_KINDS, default="chat", label=SETTINGS["prompts"].label),
    "mix": Text(
        default="p16,p64", label="Mix of lengths", help="Use p16,p64 for equal shares, p16:3,p4096:1 for weights."
    ),
}
del FIELDS["prompt_file"]  # a file is uploaded, never in an address


def complaints(query: Mapping[str, str], fields: Mapping[str, Field] = FIELDS) -> list[str]:
    """A line for each value of a link that its field does not accept, with the default used instead."""
    lines = []
    for name, field in fields.items():
        why = field.complaint(query[name]) if name in query else None
        if why is not None:
            used = "none" if field.default is None else field.default
            text = query[name] if len(query[name]) <= MAX_SHOWN else f"{query[name][:MAX_SHOWN]}…"
            lines.append(f"{name} {text!r}: {why}; {used} is used instead")
    return lines


def query_of(config: RunConfig, target: SimulationTarget | None = None) -> dict[str, str]:
    """The query parameters that open Bench with a run's settings, and with what it was simulated on; values at their
    default are left out.

    A run does not know its number of repeats: the caller adds `repeats`. A prompt file is not part of a link: the page
    asks for it again.
    """
    workload = config.workload
    kind = workload.prompts if workload.prompts in ("chat", "file") else "lengths"
    values: dict[str, Any] = {
        each.parameter: getattr(part, name)
        for part in (config, workload, config.sampling)
        for name, each in options_of(type(part)).items()
    }
    values |= {
        "form": config.form.rule,
        "timeout": config.form.timeout_s,
        "prompts": kind,
        "mix": workload.prompts if kind == "lengths" else None,
    }
    if target is not None:
        values |= {
            "hardware": target.hardware,
            "tensor_parallel_size": target.tensor_parallel_size,
            "weight_bits": target.weight_bits or 16,
        }
    texts = {
        name: switch_text(values[name]) for name, each in FIELDS.items() if isinstance(each, Choice) and name in values
    }
    values |= texts
    return {
        name: str(values[name])
        for name, each in FIELDS.items()
        if values.get(name) is not None and values[name] != each.default
    }
