"""Compares the output tokens of two runs, request by request, in the database."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far the outputs of two runs agree. `requests` have tokens in both runs; `equal` of them are identical.

    `tokens` counts tokens present in both runs. `first_apart` maps a differing request to its first differing token
    index, or to the end of the shorter output. `only_in_one` counts requests with tokens in only one run.
    """

    requests: int
    equal: int
    tokens: int
    first_apart: dict[int, int]
    only_in_one: int

    @property
    def is_full(self) -> bool:
        return self.requests > 0 and not self.first_apart and not self.only_in_one


# One row per request of either run. With $as_far_as_both, tokens in only one run are no difference.
COMPARED = """
    WITH first AS (SELECT request_id, token_index, token_id FROM tokens WHERE run_id = $first),
    second AS (SELECT request_id, token_index, token_id FROM tokens WHERE run_id = $second),
    paired AS (
        SELECT
            request_id, token_index, a.token_id IS NOT NULL AS in_first, b.token_id IS NOT NULL AS in_second,
            a.token_id <> b.token_id AS differs
        FROM first a FULL JOIN second b USING (request_id, token_index)
    )
    SELECT
        request_id, bool_or(in_first) AND bool_or(in_second) AS is_shared,
        count(*) FILTER (WHERE in_first AND in_second) AS tokens,
        min(token_index) FILTER (WHERE differs OR (NOT $as_far_as_both AND NOT (in_first AND in_second))) AS first_apart
    FROM paired GROUP BY request_id ORDER BY request_id
"""


class Agreements:
    """Comparisons of a store's runs by their tokens. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, first: str, second: str, *, as_far_as_both: bool = False) -> Agreement:
        """As `agreement`."""
        return agreement(self._database.cursor(), first, second, as_far_as_both=as_far_as_both)


def agreement(cursor: duckdb.DuckDBPyConnection, first: str, second: str, *, as_far_as_both: bool = False) -> Agreement:
    """Compare the tokens of two runs.

    `as_far_as_both` compares only tokens that both runs logged: after a stopped run, a shorter output is no difference.
    """
    values = {"first": first, "second": second, "as_far_as_both": as_far_as_both}
    rows = cursor.execute(COMPARED, values).fetchall()
    shared = [(request_id, tokens, apart) for request_id, is_shared, tokens, apart in rows if is_shared]
    first_apart = {int(request_id): int(apart) for request_id, _, apart in shared if apart is not None}
    return Agreement(
        requests=len(shared),
        equal=len(shared) - len(first_apart),
        tokens=sum(tokens for _, tokens, _ in shared),
        first_apart=first_apart,
        only_in_one=0 if as_far_as_both else len(rows) - len(shared),
    )
