"""Addresses that several pages link to: a run, a comparison, an experiment, a search in the glossary."""

from __future__ import annotations

from collections.abc import Sequence

RUNS = "runs"  # the query parameter of Compare
WHO_COUNTS_SO = "Tools with this definition"  # a search for it finds all latency definitions in the glossary
EXPERIMENT_PAGES = {"sweep": "pages/sweep.py", "load": "pages/load.py", "repeats": "pages/repeats.py"}  # by kind
MAX_RUNS = 4  # the most that Compare takes


def run_link(run_id: object) -> str:
    """The address of a run's page."""
    return f"/run?run_id={run_id}"


def runs_query(run_ids: Sequence[str]) -> dict[str, str]:
    """The query parameters of Compare for these runs, up to MAX_RUNS."""
    return {RUNS: ",".join(run_ids[:MAX_RUNS])}


def compare_link(run_ids: Sequence[str]) -> str:
    """The address of Compare with these runs, up to MAX_RUNS."""
    return f"/compare?{RUNS}={runs_query(run_ids)[RUNS]}"
