"""The history of runs: searched, filtered, a page at a time, in one question to the database.

Figures come from the summaries that are kept when a run ends, so that a page costs the same whatever the runs hold.
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
    """Which runs: all that fit every field that is set. Of a field with several values one has to fit; of `tags`,
    `earned` and `lost` (names of checks) all.

    `text` is words, each to be found in the run's id, note, tags, engine, model, device, workload, experiment or error.
    `since` and `until` (exclusive) are moments in UTC without a zone, as the store keeps them.
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
        """Whether every run fits."""
        return all(not getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A page of runs, and how many there are in all. `log_bytes`: what the logs of all that were found take."""

    rows: pd.DataFrame
    total: int
    log_bytes: int


LISTED = f"""
    WITH listed AS ({RUNS}),
    tagged AS (
        SELECT run_id, list(tag ORDER BY tag) AS tags FROM (SELECT DISTINCT run_id, tag FROM run_tags) GROUP BY run_id
    ),
    judged AS (
        SELECT
            run_id,
            coalesce(list(check_name) FILTER (WHERE outcome = '{Outcome.PASS.value}'), []) AS earned,
            coalesce(list(check_name) FILTER (WHERE outcome = '{Outcome.FAIL.value}'), []) AS lost
        FROM run_checks GROUP BY run_id
    ),
    told AS (
        SELECT
            l.*,
            coalesce(n.pinned, false) AS pinned, coalesce(n.note, '') AS note, coalesce(t.tags, []) AS tags,
            coalesce(j.earned, []) AS earned, coalesce(j.lost, []) AS lost, r.log_bytes,
            r.run_info -> 'workload' AS workload
        FROM listed l
        JOIN runs r ON r.run_id = l.run_id
        LEFT JOIN run_notes n ON n.run_id = l.run_id
        LEFT JOIN tagged t ON t.run_id = l.run_id
        LEFT JOIN judged j ON j.run_id = l.run_id
    )
"""
SEARCHED = (
    "lower(concat_ws(' ', run_id, note, array_to_string(tags, ' '), engine, model, device_name, dtype, workload, "
    "experiment_id, experiment_label, error))"
)


class History:
    """The history of a store's runs. Every method may be called from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, wanted: RunFilter, *, limit: int | None = 200, offset: int = 0) -> Found:
        """A page of the runs that fit, pinned ones first, then the newest first.

        In the columns of `Runs.list`, and pinned, note, tags (one text, with commas between), earned and lost (names
        of checks with commas between, in the order of CHECKS), log_bytes.
        """
        where, values = _conditions(wanted)
        frame = frame_of(
            self._database.cursor(),
            f"{LISTED} SELECT * EXCLUDE (workload, tags, earned, lost), array_to_string(tags, ', ') AS tags, "
            f"{_in_order('earned')}, {_in_order('lost')}, "
            "count(*) OVER () AS total, coalesce(sum(log_bytes) OVER (), 0)::BIGINT AS total_bytes "
            f"FROM told {where} ORDER BY pinned DESC, created_at DESC NULLS LAST, run_id DESC "
            "LIMIT $limit OFFSET $offset",
            {**values, "limit": 2**62 if limit is None else limit, "offset": offset},
        )
        if frame.empty and offset:  # after the last page
            return self.find(wanted, limit=limit)
        total, log_bytes = (int(frame[name].iloc[0]) if len(frame) else 0 for name in ("total", "total_bytes"))
        return Found(rows=frame.drop(columns=["total", "total_bytes"]), total=total, log_bytes=log_bytes)

    def facets(self) -> dict[str, list[str]]:
        """What there is to filter by: the values of each of FACETS and the tags, the most frequent first."""
        found, cursor = {}, self._database.cursor()
        for name in FACETS:
            query = f"SELECT {name} FROM runs WHERE {name} IS NOT NULL GROUP BY ALL ORDER BY count(*) DESC, {name}"
            found[name] = [str(value) for (value,) in cursor.execute(query).fetchall()]
        query = "SELECT tag FROM run_tags SEMI JOIN runs USING (run_id) GROUP BY tag ORDER BY count(*) DESC, tag"
        return found | {"tags": [str(tag) for (tag,) in cursor.execute(query).fetchall()]}

    def pulse(self) -> tuple[int, ...]:
        """A few numbers that change as soon as a run comes, goes, ends, or gets another note, tag or pin: cheap enough
        to ask for every moment."""
        row = first_row(
            self._database.cursor(),
            "SELECT (SELECT bit_xor(hash(run_id, status)) FROM runs), (SELECT bit_xor(hash(run_id, pinned, note)) "
            "FROM run_notes), (SELECT bit_xor(hash(run_id, tag)) FROM run_tags), (SELECT count(*) FROM runs)",
        )
        return tuple(int(value or 0) for value in row or ())


def _conditions(wanted: RunFilter) -> tuple[str, dict[str, Any]]:
    """WHERE with everything that is asked for, and its values."""
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
    """A list of checks as one text, in the order of CHECKS."""
    order = ", ".join(f"'{check.name}'" for check in CHECKS)
    return f"array_to_string(list_filter([{order}], lambda name: list_contains({column}, name)), ',') AS {column}"
