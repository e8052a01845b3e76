"""SQL queries of the Query page: those saved by name, and the most recent ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from engine.core.run_id import current_time
from store.database import Database, carry_out, first_row, in_transaction

MAX_NAME_CHARACTERS = 80
KEPT_RECENT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQuery:
    """A query saved by name; `saved_at` is in UTC."""

    name: str
    sql: str
    saved_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentQuery:
    """A query that was run; `asked_at` is the last time, in UTC; `outcome` summarizes its result."""

    sql: str
    asked_at: datetime
    outcome: str


class SavedQueries:
    """The queries that a store keeps. All methods are thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, name: str, sql: str) -> SavedQuery:
        """Save a query. ValueError if the name is empty, too long or in use, or the text is empty."""
        name = " ".join(name.split())
        if not name:
            raise ValueError("Enter a name for the query.")
        if len(name) > MAX_NAME_CHARACTERS:
            raise ValueError(f"The name has {len(name)} characters; use at most {MAX_NAME_CHARACTERS}.")
        if not sql.strip():
            raise ValueError("Enter a query to save.")
        new = SavedQuery(name=name, sql=sql, saved_at=current_time())
        with self._database.writing:
            cursor = self._database.cursor()
            known = first_row(cursor, "SELECT sql FROM saved_questions WHERE name = ?", [name])
            if known is not None and known[0] != sql:
                raise ValueError(f"Another query is saved as “{name}”; use another name.")
            if known is None:
                row = [new.name, new.sql, _stamp(new.saved_at)]
                carry_out(cursor, "INSERT INTO saved_questions VALUES (?, ?, ?)", row)
        return new

    def delete(self, name: str) -> SavedQuery:
        """Delete a saved query and return it for an undo. KeyError for an unknown name."""
        with self._database.writing:
            found = [query for query in self.list() if query.name == name]
            if not found:
                raise KeyError(f"no query is saved as “{name}”")
            carry_out(self._database.cursor(), "DELETE FROM saved_questions WHERE name = ?", [name])
        return found[0]

    def recent(self, limit: int = 10) -> Sequence[RecentQuery]:
        """The most recent queries, newest first."""
        query = "SELECT sql, asked_at, outcome FROM asked_questions ORDER BY asked_at DESC LIMIT ?"
        rows = self._database.cursor().execute(query, [limit]).fetchall()
        return [RecentQuery(sql=sql, asked_at=_in_utc(at), outcome=outcome) for sql, at, outcome in rows]

    def remember(self, sql: str, outcome: str) -> None:
        """Store a query as the most recent one; drop the oldest beyond KEPT_RECENT."""
        with self._database.writing:
            cursor = self._database.cursor()

            def work() -> None:
                carry_out(cursor, "DELETE FROM asked_questions WHERE sql = ?", [sql])
                row = [sql, _stamp(current_time()), outcome]
                carry_out(cursor, "INSERT INTO asked_questions VALUES (?, ?, ?)", row)
                carry_out(
                    cursor,
                    "DELETE FROM asked_questions WHERE asked_at NOT IN "
                    "(SELECT asked_at FROM asked_questions ORDER BY asked_at DESC LIMIT ?)",
                    [KEPT_RECENT],
                )

            in_transaction(cursor, work)

    def list(self) -> Sequence[SavedQuery]:
        """Saved queries, sorted by name."""
        query = "SELECT name, sql, saved_at FROM saved_questions ORDER BY lower(name)"
        rows = self._database.cursor().execute(query).fetchall()
        return [SavedQuery(name=name, sql=sql, saved_at=_in_utc(at)) for name, sql, at in rows]


def _stamp(moment: datetime) -> datetime:
    """A moment as DuckDB's TIMESTAMP: in UTC, without a time zone."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC)
