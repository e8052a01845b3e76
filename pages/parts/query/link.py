"""Queries in the page's address: a prepared one by its name, another by its text, up to MAX_LINK_CHARACTERS.

A link runs its query at once: like a typed one it can only read, in the sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from store.queries.prepared_queries import PreparedQuery, prepared_queries

SQL, QUESTION = "sql", "question"
MAX_LINK_CHARACTERS = 4_000  # as encoded in the address; some browsers and chats cut longer ones


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedQuery:
    """The query in an address, or why it cannot be run."""

    sql: str = ""
    problem: str = ""


def linked_query(params: Mapping[str, str]) -> LinkedQuery | None:
    """The query in an address; None where there is none."""
    if name := params.get(QUESTION):
        found = named(name)
        if found is None:
            return LinkedQuery(problem=f"There is no prepared query “{name[:40]}”. Choose one below.")
        return LinkedQuery(sql=found.sql)
    sql = params.get(SQL, "").strip()
    if not sql:
        return None
    if len(quote(sql)) > MAX_LINK_CHARACTERS:
        return LinkedQuery(
            problem=f"The query in this link is longer than {MAX_LINK_CHARACTERS:,} characters and was not run. "
            "Copy it into the editor."
        )
    return LinkedQuery(sql=sql)


def params_of(sql: str) -> dict[str, str] | None:
    """The parameters of an address that runs the query; None where it is too long for a link."""
    prepared = prepared_as(sql)
    if prepared is not None:
        return {QUESTION: prepared.name}
    return {SQL: sql.strip()} if len(quote(sql.strip())) <= MAX_LINK_CHARACTERS else None


def link_to(page: str, params: Mapping[str, str]) -> str:
    """The address of the page at `page`, whose own query is replaced."""
    return f"{page.partition('?')[0]}?{urlencode(params, quote_via=quote)}"


def named(name: str) -> PreparedQuery | None:
    """The prepared query of that name; None where there is none."""
    return next((query for query in prepared_queries() if query.name == name), None)


def prepared_as(sql: str) -> PreparedQuery | None:
    """The prepared query with exactly this text; None for any other text."""
    return next((query for query in prepared_queries() if query.sql == sql.strip()), None)
