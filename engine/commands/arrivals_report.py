"""A load test's report as text: one line per engine and rate, then capacities, saturation points and Little's law."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.format import change, number
from engine.core.terminal import table_lines
from engine.experiments.experiment import Plan
from engine.load.findings import (
    QUEUES,
    capacity_text,
    goodput_text,
    little_text,
    rate_text,
    ratio_sentence,
    saturation_text,
    wait_text,
)
from engine.load.goodput import Limits
from engine.load.load_report import FIGURES, GOODPUT, Figure
from engine.load.load_table import LoadRow, LoadTable
from engine.workload.arrivals import rate_deviation

Column = tuple[str, Figure]
SERVED: tuple[Column, ...] = (
    ("offered/s", FIGURES["offered_per_s"]),
    ("achieved/s", FIGURES["achieved_per_s"]),
    ("tok/s", FIGURES["output_tokens_per_s"]),
    ("queue p50, s", FIGURES["queue_wait_p50_s"]),
    ("TTFT p50, s", FIGURES["ttft_p50_s"]),
    ("p95, s", FIGURES["ttft_p95_s"]),
)
GOOD: tuple[Column, ...] = (("good/s", GOODPUT["goodput_requests_per_s"]),)


def arrivals_text(plan: Plan, status: str, table: LoadTable, limits: Limits) -> str:
    """The whole report."""
    requests = plan.points[0].config.workload.requests
    columns = SERVED + (GOOD if limits else ())
    names = [name for name, *_ in columns]
    header = ["engine", "rate", names[0], "vs rate", *names[1:], "queue"]
    lines = [f"load test {plan.experiment_id}: {status}; {requests} requests at every rate, medians over repeats", ""]
    lines += [*table_lines([_cells(row, columns) for row in table.rows], f"llr{'r' * len(columns)}l", header), ""]
    return "\n".join([*lines, *_findings(table)]).rstrip()


def _cells(row: LoadRow, columns: tuple[Column, ...]) -> list[str]:
    """A row's cells. Without a completed run: empty figures, and how the row ended."""
    name = rate_text(row.role, row.rate_per_s)
    if not row.points:
        return [row.engine, name, "", *[""] * len(columns), row.status + (f": {row.error}" if row.error else "")]
    queue = "" if row.role == "saturation" else QUEUES[row.grows]
    deviation = rate_deviation(row.rate_per_s, row.median(FIGURES["offered_per_s"]))
    drawn = "" if deviation is None else change(deviation)
    figures = [number(row.median(figure)) for _, figure in columns]
    return [row.engine, name, figures[0], drawn, *figures[1:], queue]


def _findings(table: LoadTable) -> Iterator[str]:
    for engine in table.engines:
        capacity, saturation = table.capacity(engine), table.saturation_point(engine)
        if capacity is not None:
            yield capacity_text(capacity)
        if saturation is not None:
            yield saturation_text(saturation)
    yield from filter(None, [ratio_sentence(table)])
    rates = dict.fromkeys(row.rate_per_s for row in table.rows if row.role == "rate")
    for rate in rates:
        alike = [row for row in table.rows if row.role == "rate" and row.rate_per_s == rate]
        yield from filter(None, [wait_text(alike), *(goodput_text(row) for row in alike)])
    known = [(row, row.middle.little) for row in table.rows if row.role == "rate" and row.middle is not None]
    checks = [little_text(row.engine, row.rate_per_s, little) for row, little in known if little is not None]
    if checks:
        yield "Little's law: mean requests in the system = arrival rate x mean time in the system."
        yield from checks
