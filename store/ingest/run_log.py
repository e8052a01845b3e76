"""Ingests a run folder: the new rows of each stream, and the position reached, in one transaction.

Ingesting a folder twice changes nothing; ingesting a folder that has grown adds the new rows. In `requests` and `spans`
the non-null values of a later row win. A long run needs no more memory than a short one: chunks of a few megabytes are
ingested one after another.

A folder is refused as a whole, with one line, if a stream does not match its checksum, or if a value has another type
or is out of bounds. A run that the store has already keeps its rows and its status then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from engine.core.errors import first_line
from engine.runlog.batches import CHUNK_BYTES
from engine.runlog.checksums import damaged_streams
from engine.runlog.reader import RunLogReader, newest
from engine.runlog.schema import KEYED, STREAMS
from store.database import SUMMARIES, TABLES, carry_out, disk_full_in_one_line, first_row, in_transaction
from store.folders import is_copy, is_run_folder, stamp_of
from store.ingest.bounds import RefusedRun, check_rows
from store.ingest.checks import keep_checks
from store.ingest.run_rows import close_open_spans, delete_rows, upsert_run

LAST_BYTES = CHUNK_BYTES // 2  # a smaller chunk is most likely the last one available now


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """The result of ingesting one run folder. `rows` counts the new rows of each stream."""

    run_id: str
    folder: Path
    status: str
    is_new: bool
    status_before: str | None
    rows: dict[str, int]

    @property
    def has_changed(self) -> bool:
        return self.is_new or self.status != self.status_before or any(self.rows.values())


def ingest_folder(cursor: duckdb.DuckDBPyConnection, folder: Path, runs_folder: Path) -> IngestReport:
    """Ingest what is new in a run folder. ValueError in one line if it is no run folder, or a damaged or refused one.

    Of two copies of a run, the one in `runs_folder`, the store's own, is used; else the first one while it exists. A
    folder of another name than the run's id is refused if the folder of that id has other content. From
    a damaged log without checksums, everything before the damage is ingested. One thread at a time may ingest into a
    store.
    """
    from store.ingest.run_schema import check_run  # pydantic takes long to import, and most commands find nothing new

    stamp = stamp_of(folder)  # first: what changes from here on is seen the next time
    reader = RunLogReader(folder)
    # The status first: the log of an ended run is complete.
    status = reader.status()
    info, result = reader.run_info(), reader.result()
    check_run(folder, info, result)
    _check_name(folder, str(info["run_id"]), runs_folder)
    known = _known(cursor, str(info["run_id"]))
    if known is not None and json.loads(known.run_info) != info:
        raise ValueError(f"{folder}: the store has another run with the id {info['run_id']}")
    is_own = folder == runs_folder / str(info["run_id"])
    place = known.folder if known is not None and known.folder.exists() and not is_own else folder
    ingest = _RunIngest(
        cursor=cursor,
        reader=reader,
        place=place,
        info=info,
        result=result,
        status=status,
        is_new=known is None,
        is_due=known is None or (known.status, known.folder) != (status, place),
        rows=dict.fromkeys(STREAMS, 0),
        damaged={},
    )
    _take_in(ingest, known, is_changed=known is None or (known.folder, known.stamp) != (folder, stamp))
    is_settled = status != "running" and place == folder
    _keep_stamp(cursor, str(info["run_id"]), stamp if is_settled else None, None if known is None else known.stamp)
    return IngestReport(
        run_id=str(info["run_id"]),
        folder=folder,
        status=status,
        is_new=known is None,
        status_before=None if known is None else known.status,
        rows=ingest.rows,
    )


def _check_name(folder: Path, run_id: str, runs_folder: Path) -> None:
    """RefusedRun for a folder of another name, if there is a folder of the run's id of which it is no copy."""
    for own in (runs_folder / run_id, folder.parent / run_id):
        if is_run_folder(own) and not own.samefile(folder) and folder.name != run_id and not is_copy(folder, own):
            raise RefusedRun(f"{folder}: refused: run.json names another run, which is in {own}")


def _take_in(ingest: _RunIngest, known: _Known | None, *, is_changed: bool) -> None:
    """Ingest all that is new. ValueError in one line if the run is damaged or refused."""
    folder = ingest.reader.folder
    try:
        if is_changed:
            _check_sums(folder, ingest.result)
        while in_transaction(ingest.cursor, ingest.next_chunks):
            pass
    except RefusedRun as refused:
        _refuse(ingest, known, refused)
        raise
    except duckdb.Error as error:
        raise ValueError(f"{folder}: not ingested: {first_line(error)}") from error
    _record_damage(ingest.cursor, ingest, None if known is None else known.damage)
    for damage in ingest.damaged.values():
        raise damage


def _check_sums(folder: Path, result: Mapping[str, Any] | None) -> None:
    """RefusedRun if a stream of an ended run is not as it was logged."""
    try:
        damaged = damaged_streams(folder, result)
    except ValueError as error:
        raise RefusedRun(f"{folder}/{error}") from error
    if damaged:
        raise RefusedRun(f"{folder}/{'; '.join(damaged.values())}")


def _refuse(ingest: _RunIngest, known: _Known | None, refused: RefusedRun) -> None:
    """Leave nothing of a new run; of a known one, keep the rows and the status, and note the damage."""
    cursor, run_id = ingest.cursor, str(ingest.info["run_id"])
    if known is None:
        delete_rows(cursor, run_id)
        return
    if known.folder != ingest.reader.folder:
        return
    ingest.damaged = {"": refused}
    _record_damage(cursor, ingest, known.damage)
    if known.status == "running" and ingest.status != "running":  # or it would be running for ever
        in_transaction(cursor, lambda: _set_state(cursor, ingest.place, ingest.info, ingest.result, ingest.status))


def _keep_stamp(cursor: duckdb.DuckDBPyConnection, run_id: str, stamp: str | None, before: str | None) -> None:
    if stamp != before:
        with disk_full_in_one_line():
            carry_out(cursor, "UPDATE runs SET stamp = ? WHERE run_id = ?", [stamp, run_id])


@dataclass(slots=True, kw_only=True)
class _RunIngest:
    """One ingest in progress. `is_due`: the run's row is out of date. `damaged`: the errors of damaged streams."""

    cursor: duckdb.DuckDBPyConnection
    reader: RunLogReader
    place: Path
    info: dict[str, Any]
    result: dict[str, Any] | None
    status: str
    is_new: bool
    is_due: bool
    rows: dict[str, int]
    damaged: dict[str, ValueError]

    def next_chunks(self) -> bool:
        """Ingest the next chunk of each stream, and the run's row with the last one. Returns whether there may be
        more."""
        new = {}
        for stream in STREAMS:
            try:
                chunk = _ingest_chunk(self.cursor, self.reader, str(self.info["run_id"]), stream)
            except RefusedRun:
                raise
            except ValueError as error:
                self.damaged[stream] = error
                continue
            if chunk is not None:
                new[stream] = chunk
                self.rows[stream] += chunk.rows
        self.is_due |= bool(new)
        is_last = all(chunk.size_bytes < LAST_BYTES for chunk in new.values())
        if is_last and self.is_due:
            _set_state(self.cursor, self.place, self.info, self.result, self.status)
            self.is_due = False
        elif self.is_new and not is_last:
            _set_state(self.cursor, self.place, self.info, None, "running")
        return bool(new)


def _record_damage(cursor: duckdb.DuckDBPyConnection, ingest: _RunIngest, before: str | None) -> None:
    """Store which parts of the run's log cannot be read; null once all of it can."""
    lines = [str(error).removeprefix(f"{ingest.reader.folder}/") for error in ingest.damaged.values()]
    damage = "; ".join(lines) or None
    if damage != before:
        with disk_full_in_one_line():
            carry_out(
                cursor, "UPDATE runs SET damage = ?, stamp = NULL WHERE run_id = ?", [damage, ingest.info["run_id"]]
            )


@dataclass(frozen=True, slots=True)
class _Known:
    status: str
    run_info: str
    folder: Path
    damage: str | None
    stamp: str | None


def _known(cursor: duckdb.DuckDBPyConnection, run_id: str) -> _Known | None:
    """The run as the store has it; None if it is new."""
    row = first_row(cursor, "SELECT status, run_info, folder, damage, stamp FROM runs WHERE run_id = ?", [run_id])
    return None if row is None else _Known(str(row[0]), str(row[1]), Path(row[2]), row[3], row[4])


@dataclass(frozen=True, slots=True)
class _Chunk:
    rows: int
    size_bytes: int


def _ingest_chunk(cursor: duckdb.DuckDBPyConnection, reader: RunLogReader, run_id: str, stream: str) -> _Chunk | None:
    """Ingest the next chunk of a stream; None if there is none yet. ValueError if the next bytes are damaged."""
    progress = first_row(
        cursor, "SELECT offset_bytes, rows FROM ingest_progress WHERE run_id = ? AND stream = ?", [run_id, stream]
    )
    offset, rows = progress or (0, 0)
    batches, following = reader.tail(stream, offset)
    if following == offset:
        return None
    table = pa.Table.from_batches(batches, schema=STREAMS[stream])
    check_rows(reader.folder, stream, table)
    _insert(cursor, stream, run_id, table)
    row = [following, rows + table.num_rows, run_id, stream]
    if progress is None:
        statement = "INSERT INTO ingest_progress (offset_bytes, rows, run_id, stream) VALUES (?, ?, ?, ?)"
    else:
        statement = "UPDATE ingest_progress SET offset_bytes = ?, rows = ? WHERE run_id = ? AND stream = ?"
    carry_out(cursor, statement, row)
    return _Chunk(table.num_rows, following - offset)


def _insert(cursor: duckdb.DuckDBPyConnection, stream: str, run_id: str, table: pa.Table) -> None:
    """Insert the rows of a stream; in a keyed stream, also update existing rows."""
    key, into = KEYED.get(stream), TABLES[stream]
    cursor.register("incoming", table if key is None else newest(table, key))
    if key is None:
        carry_out(cursor, f"INSERT INTO {into} BY NAME SELECT ? AS run_id, n.* FROM incoming n", [run_id])
    else:
        others = [name for name in STREAMS[stream].names if name != key]
        changes = ", ".join(f"{name} = coalesce(n.{name}, old.{name})" for name in others)
        carry_out(
            cursor,
            f"UPDATE {into} AS old SET {changes} FROM incoming n WHERE old.run_id = ? AND old.{key} = n.{key}",
            [run_id],
        )
        carry_out(
            cursor,
            f"INSERT INTO {into} BY NAME SELECT ? AS run_id, n.* FROM incoming n "
            f"ANTI JOIN (SELECT {key} FROM {into} WHERE run_id = ?) old ON old.{key} = n.{key}",
            [run_id, run_id],
        )
    cursor.unregister("incoming")  # not after an error: a failed transaction accepts only a rollback


def _set_state(
    cursor: duckdb.DuckDBPyConnection, folder: Path, info: dict[str, Any], result: dict[str, Any] | None, status: str
) -> None:
    """Write the run's row; for an ended run, close its spans and store its metrics and checks."""
    run_id = str(info["run_id"])
    upsert_run(cursor, folder, info, result, status)
    carry_out(cursor, f"DELETE FROM {SUMMARIES} WHERE run_id = ?", [run_id])
    if status != "running":
        _conclude(cursor, run_id)


def lose_run(cursor: duckdb.DuckDBPyConnection, run_id: str) -> None:
    """Mark a running run as crashed because its folder is gone; the rows ingested so far stay."""

    def work() -> None:
        carry_out(cursor, "UPDATE runs SET status = 'crashed' WHERE run_id = ?", [run_id])
        _conclude(cursor, run_id)

    in_transaction(cursor, work)


def _conclude(cursor: duckdb.DuckDBPyConnection, run_id: str) -> None:
    close_open_spans(cursor, run_id)
    carry_out(cursor, f"INSERT INTO {SUMMARIES} BY NAME SELECT * FROM run_metrics WHERE run_id = ?", [run_id])
    keep_checks(cursor, run_id)
