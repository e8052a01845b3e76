"""Questions in the page's address: a prepared one by its name, any other by its text, as long as a link may be.

What a link carries is asked at once: it can only read, in the sandbox, like whatever a visitor types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from store.queries.prepared_queries import PreparedQuery, prepared_queries

SQL, QUESTION = "sql", "question"
MAX_LINK_CHARACTERS = 4_000  # as it stands in the address; some browsers and chats cut longer ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """What an address asks: a text, or why there is none."""

    sql: str = ""
    problem: str = ""


def linked(params: Mapping[str, str]) -> Linked | None:
    """The question in an address; None where it holds none."""
    if name := params.get(QUESTION):
        found = named(name)
        if found is None:
            return Linked(problem=f"There is no prepared question “{name[:40]}”. Those that there are stand below.")
        return Linked(sql=found.sql)
    sql = params.get(SQL, "").strip()
    if not sql:
        return None
    if len(quote(sql)) > MAX_LINK_CHARACTERS:
        return Linked(
            problem=f"This link's question is longer than {MAX_LINK_CHARACTERS:,} characters, so it was not asked. "
            "Copy its text into the editor instead."
        )
    return Linked(sql=sql)


def params_of(sql: str) -> dict[str, str] | None:
    """What an address needs to ask the question; None where the question is too long for a link."""
    prepared = prepared_as(sql)
    if prepared is not None:
        return {QUESTION: prepared.name}
    return {SQL: sql.strip()} if len(quote(sql.strip())) <= MAX_LINK_CHARACTERS else None


def link_to(page: str, params: Mapping[str, str]) -> str:
    """The whole address; `page` is the page's own, with or without a question of its own."""
    return f"{page.partition('?')[0]}?{urlencode(params, quote_via=quote)}"


def named(name: str) -> PreparedQuery | None:
    """The prepared question of that name."""
    return next((question for question in prepared_queries() if question.name == name), None)


def prepared_as(sql: str) -> PreparedQuery | None:
    """The prepared question that has this text, whole; None where a person wrote it or has changed it."""
    return next((question for question in prepared_queries() if question.sql == sql.strip()), None)
