"""Queries in the page's address: a prepared one by its name, another by its text, up to MAX_LINK_CHARACTERS.

A link to a prepared query runs it at once. Any other text in a link is filled into the editor and waits for a click,
because a query takes time and memory of the lab's machine.
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
    """The query in an address, or why it cannot be run. `is_prepared`: the text is one of the lab's own."""

    sql: str = ""
    is_prepared: bool = False
    problem: str = ""


def linked_query(params: Mapping[str, str]) -> LinkedQuery | None:
    """The query in an address; None where there is none."""
    if name := params.get(QUESTION):
        found = named(name)
        if found is None:
            return LinkedQuery(problem=f"There is no prepared query “{name[:40]}”. Choose one below.")
        return LinkedQuery(sql=found.sql, is_prepared=True)
    sql = params.get(SQL, "").strip()
    if not sql:
        return None
    if len(quote(sql)) > MAX_LINK_CHARACTERS:
        return LinkedQuery(
            problem=f"The query in this link is longer than {MAX_LINK_CHARACTERS:,} characters. "
            "Copy it into the editor."
        )
    return LinkedQuery(sql=sql, is_prepared=prepared_as(sql) is not None)


def params_of(sql: str) -> dict[str, str] | None:
    """The parameters of an address with the query; None where it is too long for a link."""
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
