"""A made-up load test for demos and tests: two engines, rates 0.5 to 7, one failed point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

CAPACITIES = {"static": 0.66, "continuous": 1.25}
RATES = (0.5, 1.0, 2.0, 3.0, 5.0, 7.0)


def sample_load() -> pd.DataFrame:
    """Rows as in `axes`. Waits are short below capacity and long above."""
    rows = [_row(engine, rate, "rate") for engine in CAPACITIES for rate in RATES]
    for engine, capacity in CAPACITIES.items():
        rows += [_row(engine, 0.9 * capacity, "below"), _row(engine, 1.1 * capacity, "above")]
        rows.append(_row(engine, capacity, "saturation") | {"rate_per_s": None, "offered_per_s": None})
    failed = {"status": "oom", "error": "prefill asked for 4.4 GiB", "achieved_per_s": None, "offered_per_s": None}
    rows.append(_row("continuous", 9.0, "rate") | failed | {"queue_wait_p50_s": None, "ttft_p50_s": None})
    rows[-1]["ttft_p95_s"] = None
    return pd.DataFrame(rows)


def _row(engine: str, rate: float, role: str) -> dict[str, Any]:
    capacity = CAPACITIES[engine]
    served = min(rate, capacity) * (0.98 if rate < capacity else 1.0)
    wait_s = 0.02 if rate < 0.9 * capacity else 0.5 if rate < capacity else 75 * (1 - capacity / rate)
    wait_s += 5.0 if engine == "static" and rate < capacity else 0.0
    return {
        "engine": engine,
        "role": role,
        "rate_per_s": rate,
        "offered_per_s": 0.97 * rate,
        "status": "completed",
        "error": None,
        "achieved_per_s": served,
        "achieved_low_per_s": 0.95 * served,
        "achieved_high_per_s": 1.04 * served,
        "goodput_requests_per_s": served if rate < capacity else 0.3 * served,
        "queue_wait_p50_s": wait_s,
        "ttft_p50_s": wait_s + 0.05,
        "ttft_p95_s": 1.9 * wait_s + 0.3,
        "ttft_n": 400,
        "queue_grows": rate > capacity,
    }


def sample_queues() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Queues and windows as `queue` takes them: one that fills and drains, one that stays short."""
    time_s = np.arange(0.0, 120.0)
    deep = np.interp(time_s, [0, 80, 118], [0, 40, 0]) + 3 * np.sin(time_s / 4) ** 2
    depths = {"static": np.maximum(np.rint(deep), 0), "continuous": np.rint(2 * np.sin(time_s / 5) ** 2)}
    depths["continuous"][90:] = 0
    queue = pd.concat([pd.DataFrame({"series": n, "time_s": time_s, "queue_depth": d}) for n, d in depths.items()])
    windows = {"series": ["static", "continuous"], "begin_s": [9.0, 5.0], "end_s": [112.0, 84.0]}
    return queue, pd.DataFrame(windows)
