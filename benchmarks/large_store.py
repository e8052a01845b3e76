"""A large store by itself, without pages: taking run logs in, opening it again, the snapshot, the prepared questions.

    python -m benchmarks.large_store ingest|ask LAB_HOME

Prints JSON. A process of its own for each part, since peak memory never goes down within one, and one that loads no
more than the store does. `many_runs` makes the run logs and calls it.
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

QUESTION_REPEATS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("ingest", "ask"))
    parser.add_argument("home", type=Path)
    options = parser.parse_args()
    measure = {"ingest": measure_ingest, "ask": measure_questions}[options.part]
    print(json.dumps(measure(options.home)))


def measure_ingest(home: Path) -> dict[str, Any]:
    """All run folders into a new store; then the same once more, when nothing is new."""
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


def measure_questions(home: Path) -> dict[str, Any]:
    """Opening, a page of the history, the snapshot, and each prepared question in the sandbox: its median."""
    opening, store = _timed(lambda: Store(home))
    with store:
        history = _median(lambda: store.runs.list(limit=50))
        snapshot, made = _timed(store.snapshots.publish)
        questions = {
            question.name: _median(partial(_answer, made.path, question.sql)) for question in prepared_queries()
        }
    return {
        "open_s": opening,
        "history_query_s": history,
        "snapshot_s": snapshot,
        "snapshot_bytes": made.path.stat().st_size,
        "questions_s": questions,
        "slowest_question_s": max(questions.values()),
        "peak_bytes": _peak_bytes(),
    }


def status_bytes(pid: int | str, name: str) -> int:
    """A process's VmRSS (what it holds in memory now) or VmHWM (the most it has held)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def _answer(snapshot: Path, sql: str) -> Any:
    return Asking(snapshot, sql).result()


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    outcome = work()
    return time.perf_counter() - began, outcome


def _median(work: Callable[[], Any]) -> float:
    return statistics.median(_timed(work)[0] for _ in range(QUESTION_REPEATS))


def _peak_bytes() -> int:
    return status_bytes("self", "VmHWM")


if __name__ == "__main__":
    main()
