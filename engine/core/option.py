"""One option, declared once: its name, default, limits and help.

A field of a configuration declares its option with `option`; what is no field of one is an `Option` beside the code
that reads it. The command line, the pages' fields, the addresses and docs/options.md are made from these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from engine.core.errors import FieldError


@dataclass(frozen=True, slots=True)
class Choices:
    """One of a few values, all text or all whole numbers. `unit` follows them in an error."""

    values: tuple[str, ...] | tuple[int, ...]
    unit: str = ""

    @property
    def type(self) -> type:
        return type(self.values[0])

    @property
    def rule(self) -> str:
        return f"use one of {', '.join(map(str, self.values))}{self.unit and f' {self.unit}'}"

    def fits(self, value: Any) -> bool:
        return value in self.values


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A finite number from `low` to `high`, or `also`; `low` itself is out when `above` is true.

    An error reads `use 1 to 4,096 tokens` with a `unit`, `use a share above 0, up to 1` with a `noun`, or as `says`.
    """

    low: float
    high: float = math.inf
    whole: bool = True
    above: bool = False
    also: float | None = None
    noun: str = "a number"
    unit: str = ""
    says: str = ""

    @property
    def type(self) -> type:
        return int if self.whole else float

    @property
    def rule(self) -> str:
        if self.says:
            return self.says
        if self.above:
            return f"use {self.noun} above {self.low:,}, up to {self.high:,}"
        return f"use {self.low:,} to {self.high:,}{self.unit and f' {self.unit}'}"

    def fits(self, value: Any) -> bool:
        is_high_enough = value > self.low if self.above else value >= self.low
        is_inside = is_high_enough and value <= self.high and value != math.inf
        return bool(is_inside or value == self.also)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Free text in a form such as `examples`. `required` is said of blank text, where that is refused."""

    examples: str = ""
    required: str = ""

    @property
    def type(self) -> type:
        return str

    @property
    def rule(self) -> str:
        return self.required or f"use {self.examples}"

    def fits(self, value: Any) -> bool:
        return not self.required or bool(value.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Several texts: the lines of a file."""

    @property
    def type(self) -> type:
        return str

    @property
    def rule(self) -> str:
        return "use a list of texts"

    def fits(self, value: Any) -> bool:
        return all(isinstance(line, str) for line in value)


Kind = Choices | Bounds | Text | Lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What a user can set. A default of None means: not set.

    `flags` are its names on the command line, the first the usual one; `parameter` is its name in an address, where
    that is not the flag's. `parse` makes the value of what is typed, where that is text of a form of its own. `group`
    is the heading that it stands under in --help.
    """

    default: Any
    label: str
    help: str
    flags: tuple[str, ...]
    takes: Kind
    metavar: str | None = None
    group: str = ""
    parameter: str = ""
    parse: Callable[[str], Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameter", self.parameter or self.name)

    @property
    def flag(self) -> str:
        return self.flags[0]

    @property
    def name(self) -> str:
        """The flag, as a name in Python."""
        return self.flag.removeprefix("--").replace("-", "_")

    def check(self, value: Any) -> None:
        """FieldError, one clear line, for a value that is refused."""
        if (value is None and self.default is None) or self.takes.fits(value):
            return
        shown = "" if isinstance(self.takes, Text) else f" {value!r}" if isinstance(value, str) else f" {value}"
        raise FieldError(self.parameter, f"{self.flag.removeprefix('--')}{shown}: {self.takes.rule}")

    def value_of(self, given: Any) -> Any:
        """The setting that `given`, of an option, a widget or JSON, stands for."""
        if isinstance(given, str):
            return self.parse(given) if self.parse is not None else self.takes.type(given)
        return tuple(given) if isinstance(self.takes, Lines) else given

    @property
    def json_types(self) -> tuple[tuple[type, ...], str]:
        """The types that its value has in JSON, and their name in an error."""
        if isinstance(self.takes, Lines):
            return (list, tuple), "a list of texts"
        known: dict[type, tuple[tuple[type, ...], str]] = {
            str: ((str,), "text"),
            int: ((int,), "a whole number"),
            float: ((int, float), "a number"),
        }
        types, name = known[self.takes.type]
        return ((*types, type(None)), f"{name} or null") if self.default is None else (types, name)


def option(default: Any, **declared: Any) -> Any:
    """A field of a configuration with this default, declared as an Option."""
    return field(default=default, metadata={"option": Option(default=default, **declared)})


def options_of(config_class: type) -> Mapping[str, Option]:
    """By their fields' names, in order, the options that a configuration's class declares."""
    return {each.name: each.metadata["option"] for each in fields(config_class) if "option" in each.metadata}


def check_options(config: Any) -> None:
    """FieldError for the first setting of a configuration that its option refuses."""
    for name, declared in options_of(type(config)).items():
        declared.check(getattr(config, name))


def settings_of(config_class: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Of `values`, by the names of options, those that a configuration's class has, by the names of its fields."""
    declared = options_of(config_class).items()
    return {name: each.value_of(values[each.name]) for name, each in declared if each.name in values}
