"""The sandbox's results: an answer as an Arrow table, or a refusal with a message and its place in the SQL text."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute

Reason = Literal["statement", "error", "memory", "time", "canceled", "broken", "missing"]
DAY_NS = 86_400 * 10**9
CONTEXT_CHARACTERS = 100  # shown of a longer line, around the place


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`table` has the first rows; `more` names the limit that cut it short: `rows`, `bytes`, or None."""

    table: pa.Table
    more: Literal["rows", "bytes"] | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in the text of a query. `line` and `column` count from 1; columns are characters."""

    line: int
    column: int
    length: int
    text: str

    def drawn(self) -> str:
        """The line, with carets under the place."""
        begin = max(0, self.column - 1 - CONTEXT_CHARACTERS // 2)
        shown = self.text[begin : begin + CONTEXT_CHARACTERS]
        before, after = "…" if begin else "", "…" if begin + CONTEXT_CHARACTERS < len(self.text) else ""
        offset = self.column - 1 - begin + len(before)
        width = max(1, min(self.length, len(shown) - (offset - len(before))))
        return f"{before}{shown}{after}\n{' ' * offset}{'^' * width}"


class Refusal(Exception):
    """The query has no answer. `str()` is one or two lines; `place` is where it went wrong, if known."""

    def __init__(self, message: str, reason: Reason, place: Place | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.place = place

    def explained(self) -> str:
        """The message; with a place, also its line and column and the marked line of the text."""
        if self.place is None:
            return str(self)
        where = f"line {self.place.line}, column {self.place.column}"
        return f"{self}\nat {where}:\n{self.place.drawn()}"


def place_in(sql: str, begin: int, length: int) -> Place | None:
    """The place of a range of bytes; None outside the text. The end of the text is a valid place."""
    data = sql.encode()
    if not 0 <= begin <= len(data):
        return None
    before = data[:begin].decode(errors="replace")
    line_start = before.rfind("\n") + 1
    rest = sql[line_start:].partition("\n")[0]
    marked = data[begin : begin + length].decode(errors="replace").partition("\n")[0]
    return Place(
        line=before.count("\n") + 1,
        column=len(before) - line_start + 1,
        length=max(1, len(marked)),
        text=rest.expandtabs(1).rstrip("\r"),
    )


def tidied(table: pa.Table, whole: Collection[int] = ()) -> pa.Table:
    """The table with unique column names and common types.

    No value is changed: whole numbers, such as a sum of integers, become 64-bit integers if all of the column fit, and
    other decimals become floats if all are the same as a float; else the column is text. So is a column with the time
    24:00:00, which Python lacks. Intervals and UUIDs become text. `whole` has the places of columns with whole numbers
    as text.

    Refusal for a date outside Python's range, such as 1 BC or infinity.
    """
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not _fits_python_dates(column):
            raise Refusal(
                f"Column {name}: dates outside the years 1 to 9999 cannot be shown. Convert it to text with ::VARCHAR.",
                "error",
            )
    names = _unique(table.column_names)
    columns = [
        _whole(column.to_pylist()) if place in whole else _plain(column) for place, column in enumerate(table.columns)
    ]
    return pa.table(columns, names=names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_decimal(kind):
        values: list[Decimal | None] = column.to_pylist()
        if kind.scale == 0:
            return _whole(values)
        if all(value is None or Decimal(repr(float(value))) == value for value in values):
            return pa.chunked_array([pa.array([None if v is None else float(v) for v in values], pa.float64())])
        return _text([None if value is None else f"{value:f}" for value in values])
    if pa.types.is_time(kind):
        return _time(column)
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if pa.types.is_interval(kind):
        return _text([None if v is None else interval_text(*v) for v in column.to_pylist()])
    if isinstance(kind, pa.BaseExtensionType):
        return _text([None if v is None else str(v) for v in column.to_pylist()])
    return column


def _whole(values: Iterable[Any]) -> pa.ChunkedArray:
    """Whole numbers, given as decimals or as text: 64-bit integers if all fit, else text."""
    numbers = [None if value is None else int(value) for value in values]
    if all(number is None or -(2**63) <= number < 2**63 for number in numbers):
        return pa.chunked_array([pa.array(numbers, pa.int64())])
    return _text([None if number is None else str(number) for number in numbers])


def _time(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times of day; as text if one is 24:00:00, or has nanoseconds."""
    times_ns = column.cast(pa.time64("ns")).cast(pa.int64())
    latest_ns = pa.compute.max(times_ns).as_py()
    if column.type.unit != "ns" and (latest_ns is None or latest_ns < DAY_NS):
        return column
    return _text([None if time is None else interval_text(0, 0, time) for time in times_ns.to_pylist()])


def _text(values: list[str | None]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.string())])


def interval_text(months: int, days: int, nanoseconds: int) -> str:
    """An interval as DuckDB writes it: `1 month 2 days 00:00:01.141`."""
    hours, rest = divmod(abs(nanoseconds), 3_600 * 10**9)
    minutes, rest = divmod(rest, 60 * 10**9)
    seconds = f"{rest // 10**9:02d}.{rest % 10**9:09d}".rstrip("0").rstrip(".")
    time = f"{'-' if nanoseconds < 0 else ''}{hours:02d}:{minutes:02d}:{seconds}"
    counted = [f"{n} {unit}{'' if abs(n) == 1 else 's'}" for n, unit in ((months, "month"), (days, "day")) if n]
    return " ".join([*counted, *([time] if nanoseconds or not counted else [])])


def _fits_python_dates(column: pa.ChunkedArray) -> bool:
    kind = column.type
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_nested(kind)):
        return True
    try:
        if pa.types.is_nested(kind):
            column.to_pylist()
        else:
            ends = pa.compute.min_max(column)
            ends["min"].as_py(), ends["max"].as_py()
    except OverflowError:
        return False
    return True


def _unique(names: list[str]) -> list[str]:
    """Each name once: a second `n` is `n_2`."""
    taken: list[str] = []
    for name in names:
        unique, number = name, 1
        while unique in taken:
            number += 1
            unique = f"{name}_{number}"
        taken.append(unique)
    return taken
