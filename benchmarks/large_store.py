"""A large store without pages: ingest of run logs, opening it again, the snapshot, the prepared queries.

    python -m benchmarks.large_store ingest|query LAB_HOME

Prints JSON. Each part runs in its own process, because a process's peak memory never decreases; the process imports
only what the store needs. `many_runs` makes the run logs and calls it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from store import Store
from store.queries.prepared_queries import prepared_queries
from store.sandbox import Asking

QUERY_REPEATS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("ingest", "query"))
    parser.add_argument("home", type=Path)
    options = parser.parse_args()
    measure = {"ingest": measure_ingest, "query": measure_queries}[options.part]
    print(json.dumps(measure(options.home)))


def measure_ingest(home: Path) -> dict[str, Any]:
    """Ingest all run folders into a new store; then again, when nothing is new."""
    with Store(home) as store:
        seconds, (reports, problems) = _timed(lambda: store.ingest.all_in(home / "runs"))
        again, _ = _timed(lambda: store.ingest.all_in(home / "runs"))
        tokens = sum(report.rows["tokens"] for report in reports)
    return {
        "runs": len(reports),
        "problems": len(problems),
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_s": tokens / seconds,
        "again_s": again,
        "store_bytes": (home / "lab.duckdb").stat().st_size,
        "peak_bytes": _peak_bytes(),
    }


def measure_queries(home: Path) -> dict[str, Any]:
    """Opening the store, a page of the history, the snapshot, and the median of each prepared query in the sandbox."""
    opening, store = _timed(lambda: Store(home))
    with store:
        history = _median(lambda: store.runs.list(limit=50))
        snapshot, made = _timed(store.snapshots.publish)
        queries = {query.name: _median(partial(_answer, made.path, query.sql)) for query in prepared_queries()}
    return {
        "open_s": opening,
        "history_query_s": history,
        "snapshot_s": snapshot,
        "snapshot_bytes": made.path.stat().st_size,
        "questions_s": queries,
        "slowest_question_s": max(queries.values()),
        "peak_bytes": _peak_bytes(),
    }


def status_bytes(pid: int | str, name: str) -> int:
    """A process's VmRSS (current memory) or VmHWM (peak memory)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def _answer(snapshot: Path, sql: str) -> Any:
    return Asking(snapshot, sql).result()


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    outcome = work()
    return time.perf_counter() - began, outcome


def _median(work: Callable[[], Any]) -> float:
    return statistics.median(_timed(work)[0] for _ in range(QUERY_REPEATS))


def _peak_bytes() -> int:
    return status_bytes("self", "VmHWM")


if __name__ == "__main__":
    main()
