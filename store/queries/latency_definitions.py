"""Latencies of one run by chosen definitions, in SQL: each request's values, and each latency as a distribution.

Equal to engine/core/counting.py, which says what they mean. Of a distribution only few points leave the database, the
least, the greatest and all that a percentile rests on among them: a run may have millions of gaps.
"""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.core.counting import COUNTED
from engine.core.definitions import Definitions
from engine.core.distribution import MAX_POINTS, PERCENTS, Distribution

# The values of `request_metrics` once more, each with its switch. A request that did not finish has an infinite one of
# what it never got; of answers that are returned whole neither gaps nor a time per token without the first.
COUNTED_REQUESTS = """
    WITH answered AS (
        SELECT
            request_id, count(*) AS tokens,
            arg_min_null(delivered_s, token_index) AS first_s, arg_max_null(delivered_s, token_index) AS last_s,
            bool_or(delivered_s IS NULL) AS held_back
        FROM tokens WHERE run_id = $run_id GROUP BY request_id
    ),
    gaps AS (SELECT request_id, gap_s FROM token_gaps WHERE run_id = $run_id),
    paused AS (SELECT request_id, avg(gap_s) AS itl_s FROM gaps GROUP BY request_id),
    whole AS (
        SELECT
            coalesce((SELECT bool_or(returned_s IS NOT NULL) FROM requests WHERE run_id = $run_id), false)
            OR coalesce((SELECT bool_or(held_back) FROM answered), false) AS is_whole
    ),
    timed AS (
        SELECT
            r.request_id, r.state = 'finished' AS finished, r.arrival_s, r.admitted_s, r.returned_s,
            coalesce(a.tokens, 0) AS tokens, p.itl_s,
            CASE WHEN a.tokens > 0 THEN coalesce(a.first_s, r.returned_s) END AS first_s,
            CASE WHEN a.tokens > 0 THEN coalesce(a.last_s, r.returned_s) END AS last_s
        FROM requests r
        LEFT JOIN answered a ON a.request_id = r.request_id
        LEFT JOIN paused p ON p.request_id = r.request_id
        WHERE r.run_id = $run_id
    ),
    valued AS (
        SELECT
            request_id, finished,
            admitted_s - arrival_s AS queue_wait_s,
            first_s - CASE WHEN $ttft = 'admission' THEN admitted_s ELSE arrival_s END AS ttft_s,
            itl_s,
            CASE
                WHEN NOT finished THEN NULL
                WHEN $tpot = 'with-first' THEN (last_s - arrival_s) / nullif(tokens, 0)
                WHEN returned_s IS NULL AND tokens > 1 THEN (last_s - first_s) / (tokens - 1)
            END AS tpot_s,
            CASE WHEN finished THEN last_s - arrival_s END AS e2e_s
        FROM timed
    ),
    counted AS (
        SELECT
            v.request_id,
            CASE WHEN never AND queue_wait_s IS NULL THEN 'inf' ELSE queue_wait_s END AS queue_wait_s,
            CASE WHEN never AND ttft_s IS NULL THEN 'inf' ELSE ttft_s END AS ttft_s,
            CASE WHEN never AND NOT is_whole THEN 'inf' ELSE itl_s END AS itl_s,
            CASE
                WHEN never AND tpot_s IS NULL AND ($tpot = 'with-first' OR NOT is_whole) THEN 'inf' ELSE tpot_s
            END AS tpot_s,
            CASE WHEN never AND e2e_s IS NULL THEN 'inf' ELSE e2e_s END AS e2e_s
        FROM (SELECT *, $failures = 'infinite' AND NOT finished AS never FROM valued) v CROSS JOIN whole
    )
"""

REQUESTS = f"{COUNTED_REQUESTS} SELECT * FROM counted ORDER BY request_id"

# Ranks in whole numbers, as `kept_ranks` has them: evenly thinned, both ends, and those that a percentile rests on.
_UNDER = ", ".join(
    f"(n - 1) * {percent} // 100 + 1, (n - 1) * {percent} // 100 + 2, (n * {percent} + 99) // 100"
    for percent in PERCENTS
)
# A latency goes by its place in COUNTED, which sorts faster than its name.
_OF_REQUESTS = "\n        UNION ALL ".join(
    f"SELECT {place}::TINYINT AS latency, {key}_s AS value_s FROM counted"
    + (" WHERE NOT $by_gap OR isinf(itl_s)" if key == "itl" else "")
    for place, key in enumerate(COUNTED)
)
DISTRIBUTIONS = f"""
    {COUNTED_REQUESTS},
    samples AS (
        {_OF_REQUESTS}
        UNION ALL SELECT {COUNTED.index("itl")}::TINYINT AS latency, gap_s AS value_s FROM gaps WHERE $by_gap
    ),
    measured AS MATERIALIZED (SELECT latency, value_s FROM samples WHERE value_s IS NOT NULL),
    totals AS (
        SELECT latency, count(*) AS n, count(*) FILTER (WHERE isfinite(value_s)) AS finite
        FROM measured GROUP BY latency
    ),
    ranked AS (
        SELECT latency, value_s, row_number() OVER (PARTITION BY latency ORDER BY value_s) AS rank FROM measured
    )
    SELECT latency, rank, value_s, n, n - finite AS unbounded
    FROM ranked JOIN totals USING (latency)
    WHERE rank = 1 OR rank = finite OR rank * $points // n > (rank - 1) * $points // n OR rank IN ({_UNDER})
    ORDER BY latency, rank
"""


def counted_requests(cursor: duckdb.DuckDBPyConnection, run_id: str, definitions: Definitions) -> pd.DataFrame:
    """A row a request: request_id, queue_wait_s, ttft_s, itl_s (the mean of its gaps), tpot_s, e2e_s; may be infinite.

    A run that is not known has no rows.
    """
    values = {"run_id": run_id, **_switches(definitions)}
    return cursor.execute(REQUESTS, values).df()


def distributions(
    cursor: duckdb.DuckDBPyConnection, run_id: str, definitions: Definitions, points: int = MAX_POINTS
) -> dict[str, Distribution]:
    """Each latency of COUNTED as a distribution of about `points` points at most."""
    values = {
        "run_id": run_id,
        **_switches(definitions),
        "by_gap": definitions.itl == "gap",
        "points": points,
    }
    found = {name: np.asarray(column) for name, column in cursor.execute(DISTRIBUTIONS, values).fetchnumpy().items()}
    return {key: _distribution(found, found["latency"] == place) for place, key in enumerate(COUNTED)}


def _switches(definitions: Definitions) -> dict[str, str]:
    """The choices that the SQL reads; percentiles are taken from the distributions."""
    return {name: option for name, option in definitions.names().items() if name in ("ttft", "tpot", "failures")}


def _distribution(found: dict[str, NDArray[Any]], mine: NDArray[Any]) -> Distribution:
    if not mine.any():
        nothing = np.zeros(0)
        return Distribution(n=0, num_unbounded=0, ranks=nothing.astype(np.int64), value_s=nothing)
    value_s = np.asarray(found["value_s"][mine], dtype=np.float64)
    finite = np.isfinite(value_s)
    return Distribution(
        n=int(found["n"][mine][0]),
        num_unbounded=int(found["unbounded"][mine][0]),
        ranks=np.asarray(found["rank"][mine][finite], dtype=np.int64),
        value_s=value_s[finite],
    )
