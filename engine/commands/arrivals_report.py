"""A load test's report in text: a line an engine and rate, then what it says of capacities, knees and Little's law."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.format import exact, number
from engine.experiments.experiment import Plan
from engine.load.findings import capacity_words, goodput_words, knee_words, little_words, ratio_words, wait_words
from engine.load.goodput import Limits
from engine.load.load_report import FIGURES, GOODPUT, Figure
from engine.load.load_table import LoadRow, LoadTable

NAMES = {"saturation": "all at once", "below": "0.9 x capacity", "above": "1.1 x capacity"}
QUEUES = {True: "grows", False: "does not grow", None: "cannot tell"}
SERVED: tuple[tuple[str, Figure, int], ...] = (
    ("offered/s", FIGURES["offered_per_s"], 10),
    ("achieved/s", FIGURES["achieved_per_s"], 11),
    ("tok/s", FIGURES["output_tokens_per_s"], 8),
    ("queue p50 s", FIGURES["queue_wait_p50_s"], 12),
    ("TTFT p50 s", FIGURES["ttft_p50_s"], 11),
    ("p95 s", FIGURES["ttft_p95_s"], 8),
)
GOOD: tuple[tuple[str, Figure, int], ...] = (("good/s", GOODPUT["goodput_requests_per_s"], 8),)


def arrivals_text(plan: Plan, status: str, table: LoadTable, limits: Limits) -> str:
    """The whole report for a reader."""
    requests = plan.points[0].config.workload.requests
    columns = SERVED + (GOOD if limits else ())
    head = "".join(f"{name:>{width}}" for name, _, width in columns)
    lines = [f"load test {plan.experiment_id}: {status}; {requests} requests at every rate, medians over repeats", ""]
    lines += [f"{'engine':<11}{'rate':<15}{head}  queue", *(_line(row, columns) for row in table.rows), ""]
    return "\n".join([*lines, *_findings(table)]).rstrip()


def _line(row: LoadRow, columns: tuple[tuple[str, Figure, int], ...]) -> str:
    name = NAMES.get(row.role) or f"{exact(row.rate_per_s or 0.0, digits=4)}/s"
    if not row.points:
        return f"{row.engine:<11}{name:<15}  {row.status}" + (f": {row.error}" if row.error else "")
    cells = [_cell(row.median(figure), width) for _, figure, width in columns]
    queue = "" if row.role == "saturation" else QUEUES[row.grows]
    return f"{row.engine:<11}{name:<15}{''.join(cells)}  {queue}".rstrip()


def _cell(value: float | None, width: int) -> str:
    return f"{number(value):>{width}}"


def _findings(table: LoadTable) -> Iterator[str]:
    for engine in table.engines:
        capacity, knee = table.capacity(engine), table.knee(engine)
        if capacity is not None:
            yield capacity_words(capacity)
        if knee is not None:
            yield knee_words(knee)
    yield from filter(None, [ratio_words(table)])
    rates = dict.fromkeys(row.rate_per_s for row in table.rows if row.role == "rate")
    for rate in rates:
        alike = [row for row in table.rows if row.role == "rate" and row.rate_per_s == rate]
        yield from filter(None, [wait_words(alike), *(goodput_words(row) for row in alike)])
    known = [(row, row.middle.little) for row in table.rows if row.role == "rate" and row.middle is not None]
    told = [little_words(row.engine, row.rate_per_s, little) for row, little in known if little is not None]
    if told:
        yield "Little's law: the mean number in the system is the rate of arrivals times the mean time each is there."
        yield from told
