"""Annotations of runs: a note, tags, a pin. They are keyed by run id and outlive the run's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from store.database import Database, carry_out, first_row, in_transaction
from store.queries.runs import Runs

MAX_NOTE = 4_000
MAX_TAG = 40
MAX_TAGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A run without an annotation has the defaults. Tags are in alphabetical order."""

    note: str = ""
    tags: tuple[str, ...] = ()
    pinned: bool = False


class Annotations:
    """The annotations of a store. Every method may be called from any thread."""

    def __init__(self, database: Database, runs: Runs) -> None:
        self._database = database
        self._runs = runs

    def of(self, run_id: str) -> Annotation:
        """The annotation of a run; the defaults for an unknown run."""
        cursor = self._database.cursor()
        row = first_row(cursor, "SELECT note, pinned FROM run_notes WHERE run_id = ?", [run_id])
        note, pinned = row or ("", False)
        tags = cursor.execute("SELECT DISTINCT tag FROM run_tags WHERE run_id = ? ORDER BY tag", [run_id]).fetchall()
        return Annotation(note=str(note), tags=tuple(str(tag) for (tag,) in tags), pinned=bool(pinned))

    def set(self, run_id: str, annotation: Annotation) -> None:
        """Replace a run's annotation. KeyError for an unknown run, ValueError for a note or tag that is too long."""
        with self._database.writing:
            if not self._runs.has(run_id):
                raise KeyError(f"the store has no run {run_id}")
            in_transaction(self._database.cursor(), lambda: annotate(self._database.cursor(), run_id, annotation))


def annotate(cursor: duckdb.DuckDBPyConnection, run_id: str, annotation: Annotation) -> None:
    """Overwrite a run's annotation. ValueError in one line for a note or tag that is too long."""
    note, tags = checked_note(annotation.note), checked_tags(annotation.tags)
    forget(cursor, run_id)
    if note or annotation.pinned:
        carry_out(cursor, "INSERT INTO run_notes VALUES (?, ?, ?)", [run_id, annotation.pinned, note])
    for tag in tags:
        carry_out(cursor, "INSERT INTO run_tags VALUES (?, ?)", [run_id, tag])


def forget(cursor: duckdb.DuckDBPyConnection, run_id: str) -> None:
    """Remove a run's annotation."""
    for table in ("run_notes", "run_tags"):
        carry_out(cursor, f"DELETE FROM {table} WHERE run_id = ?", [run_id])


def checked_note(note: str) -> str:
    """The note without surrounding space. ValueError where it is too long."""
    note = note.strip()
    if len(note) > MAX_NOTE:
        raise ValueError(f"a note of {len(note):,} characters: use at most {MAX_NOTE:,}")
    return note


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Each tag once, in alphabetical order, with single spaces. ValueError for an empty or long tag, or one with a
    comma.

    ValueError also for too many tags.
    """
    cleaned = sorted({" ".join(tag.split()) for tag in tags})
    for tag in cleaned:
        if not tag or len(tag) > MAX_TAG or "," in tag or not tag.isprintable():
            raise ValueError(f"tag {tag[:MAX_TAG]!r}: use 1 to {MAX_TAG} characters without a comma")
    if len(cleaned) > MAX_TAGS:
        raise ValueError(f"{len(cleaned)} tags: use at most {MAX_TAGS} for a run")
    return tuple(cleaned)
