"""The lab's own grade of a published prediction: its ratio, from the points of an experiment that asked the same.

`rows` are an experiment's points as for `prediction_measure`, `rate_of` a run's completion rate at saturation. None
where the experiment does not ask this, or has no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.core.prediction import Question
from engine.core.prediction_measure import RateOf, Rows, measure
from engine.core.sweep_table import sweep_rows

LARGEST_BATCH = 256  # up to which the text saw growth without exception
GradeOf = Callable[[Rows, RateOf], float | None]


def lowest_linear_share(rows: Rows, rate_of: RateOf) -> float | None:
    """The worst of all batches of a static sweep that completed, up to a batch of 256."""
    grid = sweep_rows([r for r in rows if r["engine"] == "static" and r["role"] == "point"])
    shares = [
        row.decode_tokens_per_s / row.linear_tokens_per_s
        for row in grid
        if row.decode_tokens_per_s and row.linear_tokens_per_s and 1 < row.batch_size <= LARGEST_BATCH
    ]
    return min(shares, default=None)


def share_out_of_memory(rows: Rows, rate_of: RateOf) -> float | None:
    """Of a static sweep that has been run whole: at which share of its prompt lengths some batch size did not fit."""
    grid = [row for row in rows if row["engine"] == "static" and row["role"] == "point"]
    if not grid or any(row["status"] not in ("completed", "oom", "failed") for row in grid):
        return None
    lengths = {row["prompts"] for row in grid}
    return len({row["prompts"] for row in grid if row["status"] == "oom"}) / len(lengths)


def _capacity_ratio(engine: str, base: str) -> GradeOf:
    question = Question(measure="capacity_ratio", engine=engine, base=base)
    return lambda rows, rate_of: measure(question, rows, rate_of).value


def _ratio_where_one_carries(metric: str, engine: str, base: str) -> GradeOf:
    """A metric of one engine over that of another, at the highest rate between the two's capacities."""

    def value(rows: Rows, rate_of: RateOf) -> float | None:
        mine, other = (
            measure(Question(measure="capacity", engine=name), rows, rate_of).value for name in (engine, base)
        )
        if mine is None or other is None:
            return None
        rates = {row["rate_per_s"]: row["key"] for row in rows if (row["engine"], row["role"]) == (engine, "rate")}
        bases = {row["rate_per_s"]: row["key"] for row in rows if (row["engine"], row["role"]) == (base, "rate")}
        between = sorted(rate for rate in rates.keys() & bases.keys() if other < rate < mine)
        for rate in reversed(between):
            question = Question(measure="ratio", metric=metric, key=rates[rate], base=bases[rate])
            if (found := measure(question, rows, rate_of).value) is not None:
                return found
        return None

    return value


def _spike_ratio(rows: Rows, rate_of: RateOf) -> float | None:
    question = Question(measure="ratio", metric="itl_max_over_p50", key="paged", base="continuous")
    return measure(question, rows, rate_of).value


GRADES: Mapping[str, tuple[tuple[str, ...], GradeOf]] = {
    "lowest_linear_share": (("sweep",), lowest_linear_share),
    "share_out_of_memory": (("sweep",), share_out_of_memory),
    "queue_ratio": (("load",), _ratio_where_one_carries("queue_wait_p50_s", "continuous", "static")),
    "ttft_ratio": (("load",), _ratio_where_one_carries("ttft_p95_s", "continuous", "static")),
    "continuous_capacity": (("load",), _capacity_ratio("continuous", "static")),
    "paged_capacity": (("load",), _capacity_ratio("paged", "continuous")),
    "paged_queue_ratio": (("load",), _ratio_where_one_carries("queue_wait_p50_s", "paged", "continuous")),
    "spike_ratio": (("pair", "layouts"), _spike_ratio),
}
