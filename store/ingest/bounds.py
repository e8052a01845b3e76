"""The values that a run log's columns may have: checked in every batch at ingest, and in the store when it is opened.

A value outside would not be a finding but damage: it overflows sums, or asks a figure for terabytes. The bounds are far
beyond any run of the lab.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.core.config import MAX_SLOTS
from engine.core.passes import PassKind
from engine.core.request import FinishReason, RequestState
from engine.runlog.schema import STREAMS, stream_file

MAX_S = 1e12  # on the run's clock; a simulation of rare arrivals lasts for years
MAX_COUNT = 100_000_000  # the sum of 20 still fits 32 bits
MAX_POSITIONS = 10**12  # in a pass: a million rows of a million columns; the sum of 9 million passes fits 64 bits
MAX_BYTES = 1 << 50
MAX_TOKEN_ID = 2**31 - 1
PHASES = ("prefill", "decode", "dead", "empty")


class RefusedRun(ValueError):
    """A run is not taken in, or not any further: the text says in one line which file and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The numbers that a column may have; NaN is outside. Null is always allowed here."""

    low: float
    high: float

    def outside(self, column: str) -> Iterator[str]:
        """SQL conditions for a value outside; one a side, so that DuckDB skips blocks by their smallest and largest
        value. NaN is larger than any number there."""
        yield f'"{column}" < {self.low!r}'
        yield f'"{column}" > {self.high!r}'

    def rule(self) -> str:
        return f"{self.low:,.16g} to {self.high:,.16g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The texts that a column may have. Null is always allowed here."""

    values: tuple[str, ...]

    def outside(self, column: str) -> Iterator[str]:
        listed = ", ".join(f"'{value}'" for value in self.values)
        yield f'"{column}" NOT IN ({listed})'

    def rule(self) -> str:
        return ", ".join(self.values)


TIME = Range(low=-MAX_S, high=MAX_S)
COUNT = Range(low=0, high=MAX_COUNT)
POSITIONS = Range(low=0, high=MAX_POSITIONS)
SIZE = Range(low=0, high=MAX_BYTES)

SPECIAL: dict[tuple[str, str], Range | Words] = {
    ("requests", "state"): Words(values=tuple(state.value for state in RequestState)),
    ("requests", "finish_reason"): Words(values=tuple(reason.value for reason in FinishReason)),
    ("passes", "kind"): Words(values=tuple(kind.value for kind in PassKind)),
    ("spans", "phase"): Words(values=PHASES),
    ("events", "event"): Words(values=("preempt",)),
    ("tokens", "token_id"): Range(low=0, high=MAX_TOKEN_ID),
    ("spans", "slot"): Range(low=-1, high=MAX_SLOTS),  # -1: in no slot yet
}
LANE = Range(low=0, high=MAX_SLOTS)


def bounds_of(stream: str) -> dict[str, Range | Words]:
    """The bounds of each column of a stream; free texts and booleans have none."""
    return {field.name: bound for field in STREAMS[stream] if (bound := _bound(stream, field)) is not None}


def _bound(stream: str, field: pa.Field) -> Range | Words | None:
    if (special := SPECIAL.get((stream, field.name))) is not None:
        return special
    if field.name == "lane":
        return LANE
    if pa.types.is_floating(field.type):
        return TIME
    if pa.types.is_integer(field.type):
        return next(
            (bound for ending, bound in (("_positions", POSITIONS), ("_bytes", SIZE)) if field.name.endswith(ending)),
            COUNT,
        )
    return None


def check_rows(folder: Path, stream: str, rows: pa.Table) -> None:
    """RefusedRun, with the file and the column, if a value is outside its bounds."""
    for name, bound in bounds_of(stream).items():
        column = rows[name]
        allowed = _allowed(column, bound)
        if pc.all(allowed).as_py() is False:
            value = column.filter(pc.invert(allowed))[0].as_py()
            path = folder / stream_file(stream)
            raise RefusedRun(f"{path}: refused: {name} is {_shown(value)}; it must be {bound.rule()}")


def _allowed(column: pa.ChunkedArray, bound: Range | Words) -> Any:
    if isinstance(bound, Words):
        return pc.or_kleene(pc.is_null(column), pc.is_in(column, value_set=pa.array(bound.values)))
    low, high = pa.scalar(bound.low).cast(column.type), pa.scalar(bound.high).cast(column.type)
    return pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else repr(value)[:80]
