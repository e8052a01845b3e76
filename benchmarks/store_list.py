"""`store list` without the app: seconds of the command over many runs, at first, unchanged, and after one run changed.

    python -m benchmarks.store_list [--runs 1000] [--home FOLDER] [--repeats 5] [--json]

Each figure is of a whole process, Python's start and imports included; CPU seconds count where other programs are at
work. Runs are synthetic, about 100 tokens each. With --home an existing folder is reused.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.synthetic_logs import SyntheticRun, write_synthetic_run

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--home", type=Path, help="the folder to create or reuse")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = measure(options.home or Path(folder) / "home", options.runs, options.repeats)
    if options.json:
        print(json.dumps({what: {"s": s, "cpu_s": cpu_s} for what, (s, cpu_s) in report.items()}))
    for what, (s, cpu_s) in report.items() if not options.json else ():
        print(f"{what}: {s:.2f} s, {cpu_s:.2f} s of CPU")


def measure(home: Path, runs: int, repeats: int) -> dict[str, tuple[float, float]]:
    """Seconds, and seconds of CPU: the first list, the median of the unchanged ones, and one after a change."""
    if not (home / "runs").exists():
        for number in range(runs):
            created_at = BEGAN + timedelta(minutes=number)
            run = SyntheticRun(
                engine="static", requests=2, tokens_a_request=50, slots=2, seed=number, created_at=created_at
            )
            write_synthetic_run(home / "runs", run)
    report = {"imports alone": timed(home, "-c", "import store.cli.main"), "first": timed(home, "-m", "store", "list")}
    unchanged = [timed(home, "-m", "store", "list") for _ in range(repeats)]
    report["unchanged, median"] = (
        statistics.median(s for s, _ in unchanged),
        statistics.median(s for _, s in unchanged),
    )
    one = sorted((home / "runs").iterdir())[0]
    os.utime(one / "tokens.arrows")
    report["one run changed"] = timed(home, "-m", "store", "list")
    return report


def timed(home: Path, *arguments: str) -> tuple[float, float]:
    """Seconds and CPU seconds of one process of Python."""
    began, used = time.perf_counter(), _cpu_s()
    subprocess.run(
        [sys.executable, *arguments], env=os.environ | {"LAB_HOME": str(home)}, stdout=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - began, _cpu_s() - used


def _cpu_s() -> float:
    """CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
