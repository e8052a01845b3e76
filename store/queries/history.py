"""The history of runs: searched, filtered and paged in one query.

Metrics come from the summaries stored when a run ends, so the cost of a page does not depend on the size of its runs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import pandas as pd

from engine.validity.validity import CHECKS, Outcome
from store.database import Database, first_row
from store.queries.frames import frame_of
from store.queries.runs import RUNS

FACETS = ("engine", "model", "device_name", "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Selects the runs that match every field that is set: one of a field's values, but all of `tags`, `earned` and
    `lost` (names of checks).

    Every word of `text` must occur in the run's id, note, tags, engine, model, device, workload, experiment or error.
    `since` and `until` (exclusive) are in UTC without a time zone, as in the store.
    """

    text: str = ""
    engine: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    device_name: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    experiment_id: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    earned: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    pinned: bool = False

    @property
    def is_open(self) -> bool:
        """Whether every run matches."""
        return all(not getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A page of runs, the total number of matching runs, and `log_bytes`, the size of all their logs."""

    rows: pd.DataFrame
    total: int
    log_bytes: int


LISTED = f"""
    WITH listed AS ({RUNS}),
    tagged AS (
        SELECT run_id, list(tag ORDER BY tag) AS tags FROM (SELECT DISTINCT run_id, tag FROM run_tags) GROUP BY run_id
    ),
    checked AS (
        SELECT
            run_id,
            coalesce(list(check_name) FILTER (WHERE outcome = '{Outcome.PASS.value}'), []) AS earned,
            coalesce(list(check_name) FILTER (WHERE outcome = '{Outcome.FAIL.value}'), []) AS lost
        FROM run_checks GROUP BY run_id
    ),
    annotated AS (
        SELECT
            l.*,
            coalesce(n.pinned, false) AS pinned, coalesce(n.note, '') AS note, coalesce(t.tags, []) AS tags,
            coalesce(c.earned, []) AS earned, coalesce(c.lost, []) AS lost, r.log_bytes,
            r.run_info -> 'workload' AS workload
        FROM listed l
        JOIN runs r ON r.run_id = l.run_id
        LEFT JOIN run_notes n ON n.run_id = l.run_id
        LEFT JOIN tagged t ON t.run_id = l.run_id
        LEFT JOIN checked c ON c.run_id = l.run_id
    )
"""
SEARCHED = (
    "lower(concat_ws(' ', run_id, note, array_to_string(tags, ' '), engine, model, device_name, dtype, workload, "
    "experiment_id, experiment_label, error))"
)


class History:
    """The history of a store's runs. All methods are thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, wanted: RunFilter, *, limit: int | None = 200, offset: int = 0) -> Found:
        """A page of the matching runs, pinned ones first, then newest first.

        The columns of `Runs.list`, and pinned, note, tags (separated by commas), earned and lost (names of checks in
        the order of CHECKS, separated by commas), log_bytes.
        """
        where, values = _conditions(wanted)
        frame = frame_of(
            self._database.cursor(),
            f"{LISTED} SELECT * EXCLUDE (workload, tags, earned, lost), array_to_string(tags, ', ') AS tags, "
            f"{_in_order('earned')}, {_in_order('lost')}, "
            "count(*) OVER () AS total, coalesce(sum(log_bytes) OVER (), 0)::BIGINT AS total_bytes "
            f"FROM annotated {where} ORDER BY pinned DESC, created_at DESC NULLS LAST, run_id DESC "
            "LIMIT $limit OFFSET $offset",
            {**values, "limit": 2**62 if limit is None else limit, "offset": offset},
        )
        if frame.empty and offset:  # after the last page
            return self.find(wanted, limit=limit)
        total, log_bytes = (int(frame[name].iloc[0]) if len(frame) else 0 for name in ("total", "total_bytes"))
        return Found(rows=frame.drop(columns=["total", "total_bytes"]), total=total, log_bytes=log_bytes)

    def facets(self) -> dict[str, list[str]]:
        """The available filter values: those of each of FACETS and the tags, most frequent first."""
        found, cursor = {}, self._database.cursor()
        for name in FACETS:
            query = f"SELECT {name} FROM runs WHERE {name} IS NOT NULL GROUP BY ALL ORDER BY count(*) DESC, {name}"
            found[name] = [str(value) for (value,) in cursor.execute(query).fetchall()]
        query = "SELECT tag FROM run_tags SEMI JOIN runs USING (run_id) GROUP BY tag ORDER BY count(*) DESC, tag"
        return found | {"tags": [str(tag) for (tag,) in cursor.execute(query).fetchall()]}

    def pulse(self) -> tuple[int, ...]:
        """Numbers that change when a run is added, removed, ends, or gets another note, tag or pin. Cheap to poll."""
        row = first_row(
            self._database.cursor(),
            "SELECT (SELECT bit_xor(hash(run_id, status)) FROM runs), (SELECT bit_xor(hash(run_id, pinned, note)) "
            "FROM run_notes), (SELECT bit_xor(hash(run_id, tag)) FROM run_tags), (SELECT count(*) FROM runs)",
        )
        return tuple(int(value or 0) for value in row or ())


def _conditions(wanted: RunFilter) -> tuple[str, dict[str, Any]]:
    """The WHERE clause of a filter, and its parameters."""
    lines: list[str] = []
    values: dict[str, Any] = {}
    for name in (*FACETS, "experiment_id"):
        if options := getattr(wanted, name):
            lines.append(f"list_contains(${name}, {name})")
            values[name] = list(options)
    for name in ("tags", "earned", "lost"):
        if options := getattr(wanted, name):
            lines.append(f"list_has_all({name}, ${name})")
            values[name] = list(options)
    for number, word in enumerate(wanted.text.lower().split()):
        lines.append(f"contains({SEARCHED}, $word{number})")
        values[f"word{number}"] = word
    for name, comparison in (("since", ">="), ("until", "<")):
        if (moment := getattr(wanted, name)) is not None:
            lines.append(f"created_at {comparison} ${name}")
            values[name] = moment
    if wanted.pinned:
        lines.append("pinned")
    return ("WHERE " + " AND ".join(lines) if lines else ""), values


def _in_order(column: str) -> str:
    """SQL for a list of checks as one text, in the order of CHECKS."""
    order = ", ".join(f"'{check.name}'" for check in CHECKS)
    return f"array_to_string(list_filter([{order}], lambda name: list_contains({column}, name)), ',') AS {column}"
