"""Latencies of one run by chosen definitions, in SQL: the values of each request, and the distribution of each latency.

The values come from the table macro `latencies`, as in the view `request_metrics`. A run may have millions of gaps, so
a distribution is thinned in the database: the minimum, the maximum and the values around each percentile are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.metrics.definitions import Definitions
from engine.metrics.distribution import MAX_POINTS, PERCENTS, Distribution
from engine.metrics.latency import LATENCIES
from store.database import Database

LAB = Definitions()
KEYS = tuple(latency.key for latency in LATENCIES)
_COUNTED = "FROM latencies($ttft, $tpot, $failures, true) WHERE run_id = $run_id"
REQUESTS = f"SELECT request_id, {', '.join(f'{key}_s' for key in KEYS)} {_COUNTED} ORDER BY request_id"

# Integer ranks, as in `kept_ranks`: evenly spaced ones, both ends, and those around each percentile.
_UNDER = ", ".join(
    f"(n - 1) * {percent} // 100 + 1, (n - 1) * {percent} // 100 + 2, (n * {percent} + 99) // 100"
    for percent in PERCENTS
)
# A latency is identified by its index in KEYS, which sorts faster than its name.
_OF_REQUESTS = "\n        UNION ALL ".join(
    f"SELECT {place}::TINYINT AS latency, {key}_s AS value_s FROM counted"
    + (" WHERE NOT $by_gap OR isinf(itl_s)" if key == "itl" else "")
    for place, key in enumerate(KEYS)
)
DISTRIBUTIONS = f"""
    WITH counted AS MATERIALIZED ({_COUNTED}),
    gaps AS (SELECT gap_s FROM token_gaps WHERE run_id = $run_id),
    samples AS (
        {_OF_REQUESTS}
        UNION ALL SELECT {KEYS.index("itl")}::TINYINT AS latency, gap_s AS value_s FROM gaps WHERE $by_gap
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


class RunLatencies:
    """The latencies of a store's runs, by chosen definitions. All methods are thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def requests(self, run_id: str, definitions: Definitions) -> pd.DataFrame:
        """One row per request: request_id, queue_wait_s, ttft_s, itl_s (mean of its gaps), tpot_s, e2e_s; may be
        infinite.

        An unknown run has no rows.
        """
        values = {"run_id": run_id, **_switches(definitions)}
        return self._database.cursor().execute(REQUESTS, values).df()

    def distributions(
        self, run_id: str, definitions: Definitions = LAB, points: int = MAX_POINTS
    ) -> dict[str, Distribution]:
        """Each latency of LATENCIES as a distribution of at most about `points` points."""
        values = {
            "run_id": run_id,
            **_switches(definitions),
            "by_gap": definitions.itl == "gap",
            "points": points,
        }
        rows = self._database.cursor().execute(DISTRIBUTIONS, values).fetchnumpy()
        found = {name: np.asarray(column) for name, column in rows.items()}
        return {key: _distribution(found, found["latency"] == place) for place, key in enumerate(KEYS)}


def _switches(definitions: Definitions) -> dict[str, str]:
    """The definitions that the SQL takes as parameters; percentiles are computed from the distributions."""
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
