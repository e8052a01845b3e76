"""Writes docs/options.md from the options' declarations: `make docs`. A test checks that the page is up to date."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from engine.cli import build_parser as engine_parser
from engine.commands.options import MIX, help_of
from engine.core.config import SETTINGS
from engine.core.option import Bounds, Choices, Option, Switch, Text
from engine.experiments.experiment import REPEATS
from engine.hardware.hardware_presets import HARDWARE
from pages.parts.load import form as load_form
from pages.parts.memory import controls as memory_controls
from pages.parts.shared import fields as shared_fields
from pages.parts.shared.fields import Choice, Field, Number
from pages.parts.sweep import form as sweep_form
from pages.parts.what_if import controls as what_if_controls
from pages.report.command import build_parser as pages_parser
from store.cli.main import build_parser as store_parser

PAGE = Path(__file__).with_name("options.md")
RUN_OPTIONS = (*SETTINGS.values(), MIX, REPEATS)

INTRODUCTION = """# Options

Written by `make docs` from the options' declarations. A setting of a run is a field of the configurations in
`engine/core/config.py`; the command line, the pages' fields and the URL parameters are made from it.

## Settings of a run

A page's URL takes the same settings: `?engine=static&slots=8`. Most parameters have the option's name, with `_` for
`-`; the tables at the end list each page's. [commands.md](commands.md) says how options work together.
"""

PAGES_INTRODUCTION = """## Parameters of the pages

The settings of the pages with a form: their URL parameters and defaults. A URL omits parameters that are at their
default.
"""


def render() -> str:
    """The whole page."""
    parts = [INTRODUCTION, _settings_table(RUN_OPTIONS)]
    for program, parser in (("engine", engine_parser()), ("store", store_parser()), ("pages", pages_parser())):
        for name, command in commands_of(parser).items():
            heading = f"## `python -m {program} {name}`"
            parts += [f"\n{heading}\n", *_arguments(list(arguments_of(command)))]
    parts += ["\n" + PAGES_INTRODUCTION]
    for page, fields in page_fields().items():
        parts += [f"\n### {page}\n", _fields_table(fields)]
    return "\n".join(parts)


def page_fields() -> dict[str, Mapping[str, Field]]:
    """The URL fields of each page with a form."""
    return {
        "Bench": shared_fields.FIELDS,
        "Sweep": sweep_form.FIELDS,
        "Load": load_form.FIELDS,
        "Memory": memory_controls.FIELDS,
        "What if": what_if_controls.what_if_fields(tuple(HARDWARE)),
    }


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of a program's commands, by name."""
    found = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(found.choices)


def arguments_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """A command's arguments except --help."""
    return (action for action in parser._actions if not isinstance(action, argparse._HelpAction))


def _settings_table(options: Iterable[Option]) -> str:
    lines = ["| option | values | default | what it sets |", "|---|---|---|---|"]
    for option in options:
        is_unset = option.default is False or option.default in (None, ())
        default = "" if is_unset else _code(option.default)
        flags = ", ".join(_code(flag) for flag in option.flags)
        lines.append(
            _row(flags, _values(option), default, f"**{option.label}.** {option.help[0].upper()}{option.help[1:]}.")
        )
    return "\n".join(lines)


def _arguments(arguments: Sequence[argparse.Action]) -> Iterator[str]:
    """One line with the options that equal a setting above, then a table of the command's other options."""
    usual = {option.flag: help_of(option) for option in RUN_OPTIONS}
    alike = [each for each in arguments if each.option_strings and usual.get(each.option_strings[0]) == each.help]
    if alike:
        flags = ", ".join(_code(each.option_strings[0]) for each in alike)
        yield textwrap.fill(f"Settings from the table above: {flags}.", 120, break_on_hyphens=False) + "\n"
    yield _arguments_table(each for each in arguments if each not in alike)


def _arguments_table(arguments: Iterable[argparse.Action]) -> str:
    lines = ["| option | values | what it sets |", "|---|---|---|"]
    for action in arguments:
        names = ", ".join(_code(name) for name in action.option_strings) or _code(action.metavar or action.dest)
        values = ", ".join(_code(choice) for choice in action.choices or ())
        takes_value = action.nargs != 0 and action.option_strings
        placeholder = _code(action.metavar or action.dest.upper()) if takes_value else ""
        lines.append(_row(names, values or placeholder, (action.help or "").replace("%%", "%")))
    return "\n".join(lines)


def _fields_table(fields: Mapping[str, Field]) -> str:
    lines = ["| parameter | values | default | label |", "|---|---|---|---|"]
    for name, field in fields.items():
        default = "" if field.default in (None, "") else _code(field.default)
        lines.append(_row(_code(name), _field_values(field), default, field.label))
    return "\n".join(lines)


def _values(option: Option) -> str:
    match option.takes:
        case Choices(values=values):
            return ", ".join(_code(value) for value in values)
        case Bounds() as bounds:
            return bounds.rule.removeprefix("use ")
        case Text(examples=examples):
            return examples
        case Switch():
            return "a flag"
    return option.metavar or ""


def _field_values(field: Field) -> str:
    if isinstance(field, Choice):
        return ", ".join(_code(value) for value in field.options)
    if isinstance(field, Number):
        kind = "a whole number" if field.whole else "a number"
        low = f"above {field.low:,}" if field.above else f"from {field.low:,}"
        return f"{kind} {low} to {field.high:,}"
    return "text"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _code(value: object) -> str:
    return f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(render() + "\n")
    print(f"{PAGE.name}: {len(RUN_OPTIONS)} settings of a run")
