"""The catalog: descriptions of the store's tables and of each column with its unit, from catalog.txt.

The schema browser and the comments in a snapshot use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.metrics.metrics import METRICS

TEXT = Path(__file__).with_suffix(".txt")
METRICS_OF = {"run_metrics": "run", "request_metrics": "request"}  # tables with one column per metric of that level

_COLUMN = re.compile(r"(?P<name>\w+)(?: \[(?P<unit>[^\]]+)\])?: (?P<meaning>.+)")
_UNITS = {
    "_per_s": "1/s",
    "_position_s": "position-seconds",
    "_s": "s",
    "_bytes": "bytes",
    "_tokens": "tokens",
    "_positions": "positions",
    "_at": "UTC",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """`unit` is empty for names, plain counts and booleans."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`is_computed`: the table is computed from the others by the metric definitions."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    is_computed: bool


@cache
def tables() -> tuple[Table, ...]:
    """Every table that a query can read, in the order of catalog.txt."""
    sections = TEXT.read_text(encoding="utf-8").split("\n== ")[1:]
    return tuple(_table(section) for section in sections)


def unit_of(name: str) -> str:
    """A column's unit by the suffix of its name; empty for other names."""
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")


def _table(section: str) -> Table:
    name, meaning, *lines = [line for line in section.splitlines() if line]
    columns = [_column(line) for line in lines]
    columns += _metric_columns(METRICS_OF.get(name, ""), {column.name for column in columns})
    return Table(name=name, meaning=meaning, columns=tuple(columns), is_computed="computed" in meaning)


def _column(line: str) -> Column:
    found = _COLUMN.fullmatch(line)
    assert found is not None, f"{TEXT.name}: {line}"
    return Column(name=found["name"], unit=found["unit"] or unit_of(found["name"]), meaning=found["meaning"])


def _metric_columns(level: str, known: set[str]) -> Iterator[Column]:
    """The metrics of a level, with the labels and meanings of the glossary."""
    for metric in METRICS:
        if metric.level == level and metric.name not in known:
            yield Column(name=metric.name, unit=metric.unit, meaning=f"{metric.label}. {metric.meaning}")
