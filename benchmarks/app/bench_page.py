"""The server's time from a slider's release to Bench's new plan: two engines, 64 requests of up to 256 tokens.

    python -m benchmarks.app.bench_page [--changes 20]

Each change moves a slider to a value that was not drawn before, so no plan comes from a cache. Prints JSON: the median
and the longest time of a change, in seconds by the clock and in seconds of CPU time, which other work on the machine
disturbs less; `plan_s` is the CPU time of the two plans alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from typing import Any

from engine.core.config import RunConfig, WorkloadConfig
from pages.parts.bench.plan import make_plan
from pages.parts.shared.workloads import workload_of
from tests.support.page_app import open_page

REQUESTS, TOKENS = 64, 256
AGAIN = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--changes", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["LAB_HOME"] = home
        times = [changed_s(change) for change in _changes(options.changes)]
        os._exit(_report(times))  # the app's threads have nothing to save


def _report(times: list[tuple[float, float]]) -> int:
    wall_s, cpu_s = zip(*times, strict=True)
    report: dict[str, Any] = {
        "changes": len(times),
        "median_s": statistics.median(wall_s),
        "longest_s": max(wall_s),
        "median_cpu_s": statistics.median(cpu_s),
        "longest_cpu_s": max(cpu_s),
        "plan_s": plan_s(),
    }
    print(json.dumps({name: round(value, 4) for name, value in report.items()}), flush=True)
    return 0


def _changes(count: int) -> list[int]:
    """Numbers of slots, none of them twice."""
    return [slots for slots in range(3, 3 + count + 1) if slots != 4][:count]


class _Bench:
    """Bench as it is open in one browser."""

    def __init__(self) -> None:
        self.app = open_page("bench", prompts="lengths", mix="p16,p64", requests=str(REQUESTS), budget=f"1-{TOKENS}")
        self.app.run()


_opened: list[_Bench] = []


def changed_s(slots: int) -> tuple[float, float]:
    """Seconds by the clock and of CPU time from a changed slider to the page's last element."""
    if not _opened:
        _opened.append(_Bench())
    app = _opened[0].app
    app.number_input(key="bench.slots").set_value(slots)
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    app.run()
    spent = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    assert not app.exception, app.exception[0].value
    assert len(app.get("plotly_chart")) == 2
    return spent


def plan_s() -> float:
    """CPU seconds of the two plans, without the page."""
    workload = WorkloadConfig(prompts="p16,p64", requests=REQUESTS, budget=f"1-{TOKENS}")
    times = []
    for _ in range(AGAIN):
        began_s = time.process_time()
        for engine in ("static", "continuous"):
            make_plan(RunConfig(engine=engine, slots=8, workload=workload), workload_of(workload))
        times.append(time.process_time() - began_s)
    return statistics.median(times)


if __name__ == "__main__":
    main()
