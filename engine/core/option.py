"""Options: name, default, limits and help of each setting, declared once.

A configuration's field declares its option with `option`; other options are `Option` values next to the code that uses
them. The command line, the pages' fields, the addresses and docs/options.md are generated from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from engine.core.errors import FieldError


@dataclass(frozen=True, slots=True)
class Choices:
    """One of a few values, all text or all whole numbers. Errors add `unit`."""

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
    """A finite number from `low` to `high`, or the value `also`. `above` excludes `low` itself.

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
    """Free text, for instance `examples`. If `required` is given, blank text is refused with it as the error."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """On or off: a flag without a value, and `yes` or `no` in a widget or an address."""

    @property
    def type(self) -> type:
        return bool

    @property
    def rule(self) -> str:
        return "use yes or no"

    def fits(self, value: Any) -> bool:
        return isinstance(value, bool)


SWITCHED = {"no": False, "yes": True}  # a switch's texts
Kind = Choices | Bounds | Text | Lines | Switch


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting. A default of None means: not set.

    `flags` are its names on the command line, the usual one first. `parameter` is its name in an address, if it differs
    from the flag. `parse` converts typed text in a special form to the value. `group` is its heading in --help.
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
        """The flag as a Python name."""
        return self.flag.removeprefix("--").replace("-", "_")

    def check(self, value: Any) -> None:
        """Raise FieldError, with one clear line, for a value that is not accepted."""
        if (value is None and self.default is None) or self.takes.fits(value):
            return
        shown = "" if isinstance(self.takes, Text) else f" {value!r}" if isinstance(value, str) else f" {value}"
        raise FieldError(self.parameter, f"{self.flag.removeprefix('--')}{shown}: {self.takes.rule}")

    def value_of(self, given: Any) -> Any:
        """`given`, from the command line, a widget or JSON, as the setting's value."""
        if isinstance(given, str) and isinstance(self.takes, Switch):
            return SWITCHED.get(given, given)
        if isinstance(given, str):
            return self.parse(given) if self.parse is not None else self.takes.type(given)
        return tuple(given) if isinstance(self.takes, Lines) else given

    @property
    def json_types(self) -> tuple[tuple[type, ...], str]:
        """The accepted JSON types of its value, and their name in an error."""
        if isinstance(self.takes, Lines):
            return (list, tuple), "a list of texts"
        known: dict[type, tuple[tuple[type, ...], str]] = {
            str: ((str,), "text"),
            bool: ((bool,), "true or false"),
            int: ((int,), "a whole number"),
            float: ((int, float), "a number"),
        }
        types, name = known[self.takes.type]
        return ((*types, type(None)), f"{name} or null") if self.default is None else (types, name)


def option(default: Any, **declared: Any) -> Any:
    """A dataclass field that declares an Option with this default."""
    return field(default=default, metadata={"option": Option(default=default, **declared)})


def options_of(config_class: type) -> Mapping[str, Option]:
    """The options that a configuration class declares, by field name, in order."""
    return {each.name: each.metadata["option"] for each in fields(config_class) if "option" in each.metadata}


def check_options(config: Any) -> None:
    """Raise FieldError for the first setting of a configuration that is not accepted."""
    for name, declared in options_of(type(config)).items():
        declared.check(getattr(config, name))


def settings_of(config_class: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Select from `values` (by option name) the settings of a configuration class, by field name."""
    declared = options_of(config_class).items()
    return {name: each.value_of(values[each.name]) for name, each in declared if each.name in values}
