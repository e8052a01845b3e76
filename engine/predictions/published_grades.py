"""The lab's own measurement of a published prediction: its ratio, from an experiment with the same settings.

`rows` are an experiment's points and `rate_of` the completion rate of a run at saturation, both as in `measure`. An
experiment with other settings (`published_conditions`), or without the figure, gives a reason instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.core.format import exact
from engine.experiments.sweep_table import sweep_rows
from engine.predictions.measure import Measured, RateOf, Rows, measure
from engine.predictions.prediction import Question
from engine.predictions.published_conditions import (
    uniform_batches,
    unlike_the_budget,
    unlike_the_load,
    unlike_the_spike,
    unlike_the_sweep,
)

LINEAR_BATCH = 256  # up to here the text saw linear growth at every length
LARGEST_BATCH = 1024  # the text doubled the batch up to here or until memory ran out


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A ratio, or the reason why the experiment has none: other settings, or a missing figure."""

    value: float | None = None
    reason: str = ""


GradeOf = Callable[[Rows, RateOf], Answer]


def lowest_linear_share(rows: Rows, rate_of: RateOf) -> Answer:
    """The lowest share of linear scaling in a static sweep, over completed batches of up to 256."""
    grid = uniform_batches(rows)
    if (unlike := unlike_the_sweep(grid, LINEAR_BATCH)) is not None:
        return Answer(reason=unlike)
    if not any(row["status"] == "completed" and row["batch_size"] >= LINEAR_BATCH for row in grid):
        return Answer(reason=f"memory ran out before a batch of {LINEAR_BATCH} at every prompt length")
    shares = [
        row.decode_tokens_per_s / row.linear_tokens_per_s
        for row in sweep_rows(grid)
        if row.decode_tokens_per_s and row.linear_tokens_per_s and 1 < row.batch_size <= LINEAR_BATCH
    ]
    return Answer(value=min(shares)) if shares else Answer(reason="no batch with a decode rate")


def share_out_of_memory(rows: Rows, rate_of: RateOf) -> Answer:
    """The share of prompt lengths of a static sweep at which memory ran out up to a batch of 1,024."""
    grid = uniform_batches(rows)
    unlike = unlike_the_sweep(grid, LARGEST_BATCH) or unlike_the_budget(grid)
    if unlike is not None:
        return Answer(reason=unlike)
    lengths = {row["prompt_tokens"] for row in grid}
    return Answer(value=len({row["prompt_tokens"] for row in grid if row["status"] == "oom"}) / len(lengths))


def _capacity_ratio(engine: str, base: str) -> GradeOf:
    question = Question(measure="capacity_ratio", engine=engine, base=base)

    def answer(rows: Rows, rate_of: RateOf) -> Answer:
        unlike = unlike_the_load(rows, (engine, base))
        return _as_answer(measure(question, rows, rate_of)) if unlike is None else Answer(reason=unlike)

    return answer


def _ratio_where_one_sustains(metric: str, engine: str, base: str) -> GradeOf:
    """A metric of one engine over that of another, at the highest rate between their capacities."""

    def answer(rows: Rows, rate_of: RateOf) -> Answer:
        if (unlike := unlike_the_load(rows, (engine, base))) is not None:
            return Answer(reason=unlike)
        mine, other = (measure(Question(measure="capacity", engine=name), rows, rate_of) for name in (engine, base))
        if mine.value is None or other.value is None:
            return _as_answer(mine if mine.value is None else other)
        keys, bases = (
            {row["rate_per_s"]: row["key"] for row in rows if (row["engine"], row["role"]) == (name, "rate")}
            for name in (engine, base)
        )
        between = [rate for rate in keys.keys() & bases.keys() if other.value < rate < mine.value]
        for rate in sorted(between, reverse=True):
            question = Question(measure="ratio", metric=metric, key=keys[rate], base=bases[rate])
            if (found := measure(question, rows, rate_of)).value is not None:
                return _as_answer(found)
        low, high = exact(other.value, digits=3), exact(mine.value, "requests/s", digits=3)
        capacities = f"{base} sustains {low} and {engine} {high}"
        return Answer(reason=f"no figure at a rate that only {engine} sustains; {capacities}")

    return answer


def _spike_ratio(rows: Rows, rate_of: RateOf) -> Answer:
    question = Question(measure="ratio", metric="itl_max_over_p50", key="paged", base="continuous")
    unlike = unlike_the_spike(rows, (question.key, question.base))
    return _as_answer(measure(question, rows, rate_of)) if unlike is None else Answer(reason=unlike)


def _as_answer(found: Measured) -> Answer:
    return Answer(value=found.value, reason=found.reason or "")


def ask(measure_name: str, rows: Rows, rate_of: RateOf) -> Answer:
    """The answer of an experiment. `measure_name` is a key of GRADES. Unreadable settings are a reason, too."""
    try:
        return GRADES[measure_name][1](rows, rate_of)
    except (ValueError, TypeError) as error:
        return Answer(reason=f"settings that cannot be read: {error}".splitlines()[0])


GRADES: Mapping[str, tuple[tuple[str, ...], GradeOf]] = {
    "lowest_linear_share": (("sweep",), lowest_linear_share),
    "share_out_of_memory": (("sweep",), share_out_of_memory),
    "queue_ratio": (("load",), _ratio_where_one_sustains("queue_wait_p50_s", "continuous", "static")),
    "ttft_ratio": (("load",), _ratio_where_one_sustains("ttft_p95_s", "continuous", "static")),
    "continuous_capacity": (("load",), _capacity_ratio("continuous", "static")),
    "paged_capacity": (("load",), _capacity_ratio("paged", "continuous")),
    "paged_queue_ratio": (("load",), _ratio_where_one_sustains("queue_wait_p50_s", "paged", "continuous")),
    "spike_ratio": (("pair", "layouts"), _spike_ratio),
}
