"""Questions that are worth keeping: those that people saved by a name, and the last ones asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from store.database import carry_out, first_row, in_transaction

if TYPE_CHECKING:
    from store.store import Store

MAX_NAME_CHARACTERS = 80
KEPT_ASKED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQuestion:
    """A question by its name; `saved_at` is in UTC."""

    name: str
    sql: str
    saved_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """A question that was asked; `asked_at` is the last time, in UTC, `outcome` what came of it, in a few words."""

    sql: str
    asked_at: datetime
    outcome: str


class Notebook:
    """The questions that a store keeps. Every method may be called from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def saved(self) -> list[SavedQuestion]:
        """Saved questions by name."""
        rows = self._store.cursor().execute("SELECT name, sql, saved_at FROM saved_questions ORDER BY lower(name)")
        return [SavedQuestion(name=name, sql=sql, saved_at=_in_utc(at)) for name, sql, at in rows.fetchall()]

    def save(self, name: str, sql: str) -> SavedQuestion:
        """Keep a question. ValueError where the name is empty, too long or another question's, or the text is empty."""
        name = " ".join(name.split())
        if not name:
            raise ValueError("Give the question a name.")
        if len(name) > MAX_NAME_CHARACTERS:
            raise ValueError(f"A name of {len(name)} characters: {MAX_NAME_CHARACTERS} are the most.")
        if not sql.strip():
            raise ValueError("There is no question to save.")
        new = SavedQuestion(name=name, sql=sql, saved_at=datetime.now(UTC))
        with self._store.writing:
            cursor = self._store.cursor()
            known = first_row(cursor, "SELECT sql FROM saved_questions WHERE name = ?", [name])
            if known is not None and known[0] != sql:
                raise ValueError(f"“{name}” is another question's name. Give this one a name of its own.")
            if known is None:
                row = [new.name, new.sql, _stamp(new.saved_at)]
                carry_out(cursor, "INSERT INTO saved_questions VALUES (?, ?, ?)", row)
        return new

    def forget(self, name: str) -> SavedQuestion:
        """Delete a saved question and return it, so that it can be saved again. KeyError for an unknown name."""
        with self._store.writing:
            found = [question for question in self.saved() if question.name == name]
            if not found:
                raise KeyError(f"no question is saved as “{name}”")
            carry_out(self._store.cursor(), "DELETE FROM saved_questions WHERE name = ?", [name])
        return found[0]

    def asked(self, limit: int = 10) -> list[AskedQuestion]:
        """The last questions asked, the newest first."""
        query = "SELECT sql, asked_at, outcome FROM asked_questions ORDER BY asked_at DESC LIMIT ?"
        rows = self._store.cursor().execute(query, [limit]).fetchall()
        return [AskedQuestion(sql=sql, asked_at=_in_utc(at), outcome=outcome) for sql, at, outcome in rows]

    def note_asked(self, sql: str, outcome: str) -> None:
        """Remember that a question was asked just now, and forget the oldest where there are many."""
        with self._store.writing:
            cursor = self._store.cursor()

            def work() -> None:
                carry_out(cursor, "DELETE FROM asked_questions WHERE sql = ?", [sql])
                row = [sql, _stamp(datetime.now(UTC)), outcome]
                carry_out(cursor, "INSERT INTO asked_questions VALUES (?, ?, ?)", row)
                carry_out(
                    cursor,
                    "DELETE FROM asked_questions WHERE asked_at NOT IN "
                    "(SELECT asked_at FROM asked_questions ORDER BY asked_at DESC LIMIT ?)",
                    [KEPT_ASKED],
                )

            in_transaction(cursor, work)


def _stamp(moment: datetime) -> datetime:
    """As DuckDB's TIMESTAMP is: in UTC, without its zone."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC)
