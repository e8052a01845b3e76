"""The run log of a simulated run in memory: the recorder's rows as columns, and the time of every token.

Pass columns are arrays, since a simulation makes millions of passes. Tokens are not stored one by one: from its first
token to its end a request gets one token in every decode pass, so the times of these passes are enough.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from engine.core.passes import PassOutcome, PlannedPass
from engine.core.record import PASS_COLUMNS, REQUEST_COLUMNS, Column, Table
from engine.core.request import Request

KEYS = {"requests": "request_id", "spans": "span_id"}  # streams whose later rows update earlier ones
FLOAT_COLUMNS = ("start_s", "end_s", "issue_s", "device_s")
EXTRA_PASS_COLUMNS = ("pass_index", "chunk_rows", "width", "masked", "queue_depth")  # logged, but used by no metric


class MemorySink:
    """Keeps the rows of `streams`, passes and requests; ignores all others."""

    def __init__(self, streams: Collection[str] = ()) -> None:
        self.streams = frozenset(streams)
        names = [*PASS_COLUMNS, *(EXTRA_PASS_COLUMNS if "passes" in self.streams else ())]
        self._passes: dict[str, Any] = {name: _column_of(name) for name in names}
        self._keyed: dict[str, dict[int, dict[str, Any]]] = {"requests": {}}
        self._plain: dict[str, defaultdict[str, list[Any]]] = {}
        for stream in self.streams - {"passes", "tokens"}:
            if stream in KEYS:
                self._keyed.setdefault(stream, {})
            else:
                self._plain[stream] = defaultdict(list)

    def append(self, stream: str, **row: Any) -> None:
        if stream == "passes":
            for name, column in self._passes.items():
                value = row[name]
                column.append(_missing(name) if value is None else value)
        elif stream in self._keyed:
            kept = self._keyed[stream].setdefault(row[KEYS[stream]], {})
            kept.update((name, value) for name, value in row.items() if value is not None)
        elif stream in self._plain:
            self.extend(stream, {name: (value,) for name, value in row.items()})

    def extend(self, stream: str, columns: Mapping[str, Sequence[Any]]) -> None:
        if stream in self._plain:
            for name, values in columns.items():
                self._plain[stream][name].extend(values)

    def extend_passes(self, columns: Mapping[str, Iterable[Any]]) -> None:
        """Add many passes. Columns that are not kept are ignored; arrays must have the column's type."""
        for name, column in self._passes.items():
            column.extend(columns[name])

    @property
    def num_passes(self) -> int:
        return len(self._passes["start_s"])

    def passes(self) -> Table:
        """All passes in order, with the types of a record."""
        return {name: np.array(column, dtype=PASS_COLUMNS.get(name)) for name, column in self._passes.items()}

    def requests(self) -> Table:
        """All logged requests, with the columns and types of a record."""
        rows = list(self._keyed["requests"].values())
        return {name: _filled([row.get(name) for row in rows], dtype) for name, dtype in REQUEST_COLUMNS.items()}

    def rows(self, stream: str) -> dict[str, list[Any]]:
        """A stream as columns for the run log; missing values are null."""
        if stream == "passes":
            return {name: _listed(name, column) for name, column in self._passes.items()}
        if stream in self._plain:
            return dict(self._plain[stream])
        rows = list(self._keyed[stream].values())
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}


class TokenTimes:
    """The time of each token: the first from the pass that ends the prefill, the others from the decode passes."""

    def __init__(self) -> None:
        self._decode_s = array("d")
        self._decode_pass = array("q")
        self._open: dict[Request, tuple[float, int, int]] = {}
        self._num_before: dict[Request, int] = {}  # tokens that preempted requests already have
        self._pieces: list[tuple[int, int, float, int, int, int]] = []

    def passed(self, planned: PlannedPass, outcome: PassOutcome, end_s: float) -> None:
        """Record one finished pass, whose tokens exist at `end_s`."""
        for preemption in planned.preemptions:
            if preemption.request in self._open:  # not during its prefill
                self._num_before[preemption.request] = self._close(preemption.request)
        if planned.num_decode_rows:
            self._decode_s.append(end_s)
            self._decode_pass.append(planned.index)
        for request in planned.rows[planned.num_decode_rows :]:
            self._open[request] = (end_s, planned.index, len(self._decode_s))
        for request in outcome.ended:
            self._close(request)

    def passed_again(self, ends_s: Sequence[float], first_pass: int) -> None:
        """Record consecutive decode passes over the same rows."""
        self._decode_s.extend(ends_s)
        self._decode_pass.extend(range(first_pass, first_pass + len(ends_s)))

    def _close(self, request: Request) -> int:
        """End a request's current piece of tokens. Returns the number of tokens it has so far."""
        first_s, first_pass, begin = self._open.pop(request)
        index, end = self._num_before.get(request, 0), len(self._decode_s)
        self._pieces.append((request.request_id, index, first_s, first_pass, begin, end))
        return index + 1 + end - begin

    @property
    def num_tokens(self) -> int:
        """Tokens of all requests, running ones included."""
        here = len(self._decode_s)
        return sum(1 + p[5] - p[4] for p in self._pieces) + sum(1 + here - b for _, _, b in self._open.values())

    def table(self) -> Table:
        """request_id, token_index, pass_index and produced_s of every token, piece by piece."""
        for request in list(self._open):
            self._close(request)
        columns = list(zip(*self._pieces, strict=True)) or [()] * 6
        ids, indexes, first_s, first_pass, begin, end = (np.array(c) for c in columns)
        lengths = (end - begin + 1).astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        place = np.arange(int(lengths.sum())) - np.repeat(starts, lengths)
        decode = (np.repeat(begin, lengths) + place - 1).astype(np.int64)
        decode[starts] = 0  # placeholder: first tokens come from a prefill
        return {
            "request_id": np.repeat(ids, lengths).astype(np.int32),
            "token_index": (np.repeat(indexes, lengths) + place).astype(np.int32),
            "pass_index": _taken(self._decode_pass, decode, starts, first_pass, np.int32),
            "produced_s": _taken(self._decode_s, decode, starts, first_s, np.float64),
        }


def _taken(values: array[Any], places: Column, starts: Column, first: Column, dtype: Any) -> Column:
    known = np.array(values if len(values) else [0])
    taken = known[places].astype(dtype)
    taken[starts] = first
    return taken


def _column_of(name: str) -> Any:
    if name == "kind":
        return []
    return array("d" if name in FLOAT_COLUMNS else "q")


def _missing(name: str) -> float | int:
    return float("nan") if name in FLOAT_COLUMNS else -1


def _filled(values: list[Any], dtype: Any) -> Column:
    missing = {np.float64: np.nan, object: None}.get(dtype, -1)
    return np.array([missing if value is None else value for value in values], dtype=dtype)


def _listed(name: str, column: Iterable[Any]) -> list[Any]:
    """A column as a list with None for missing values, which are stored as NaN (times) and -1 (counts)."""
    if name == "kind":
        return list(column)
    is_missing: Callable[[Any], bool] = (lambda v: v != v) if name in FLOAT_COLUMNS else (lambda v: v == -1)  # noqa: E731
    values = [None if is_missing(value) else value for value in column]
    return [bool(value) for value in values] if name == "masked" else values
