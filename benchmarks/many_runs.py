"""The store and the pages at scale: by default 1,000 synthetic runs with 10 M tokens, in a separate LAB_HOME.

    python -m benchmarks.many_runs [--runs 1000] [--tokens 10000000] [--large-tokens 1000000] [--home FOLDER] [--json]

Measured: ingest of all run logs; opening the store again; the snapshot and each prepared query; the pages' scripts
without a browser; and the pages in a real app and browser, from the request to the last element, with the app's memory
after each. The glossary page shows the app's own start-up time. Each page is loaded twice: `first` reads the store,
`again` the cache. With --home an existing folder is reused.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from benchmarks.large_store import status_bytes
from benchmarks.synthetic_logs import SyntheticRun, write_synthetic_run
from engine.core.units import MIB
from tests.conftest import CHROMIUM_FLAGS
from tests.support.app_server import AppServer
from tests.support.page_app import open_page

CHROMIUM = "/usr/bin/chromium"
BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
TOKENS_A_REQUEST = 160
WAIT_MS = 120_000
SCRIPTS_AGAIN = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=10_000_000)
    parser.add_argument("--large-tokens", type=int, default=1_000_000, help="tokens of one additional run; 0 for none")
    parser.add_argument("--home", type=Path, help="the folder to create or reuse")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=("logs", "ingest", "store", "scripts", "app"), help="run only one part")
    parser.add_argument("--scripts-of", nargs=3, metavar="RUN_ID", help="only time the pages' scripts, in this process")
    options = parser.parse_args()
    if options.scripts_of:
        print(json.dumps(time_scripts(options.home, *options.scripts_of)))
        return
    with tempfile.TemporaryDirectory() as folder:
        report = measure(options.home or Path(folder) / "home", options)
    if options.json:
        print(json.dumps(report))
    else:
        show(report)


def measure(home: Path, options: argparse.Namespace) -> dict[str, Any]:
    report: dict[str, Any] = {}
    parts: dict[str, Callable[[], Any]] = {
        "logs": lambda: write_logs(home, options.runs, options.tokens, options.large_tokens),
        "ingest": lambda: _alone("ingest", home),
        "store": lambda: _alone("query", home),
        "scripts": lambda: measure_scripts(home),
        "app": lambda: measure_app(home, options.large_tokens > 0),
    }
    for name, part in parts.items():
        if options.only in (None, name):
            report[name] = part()
    return report


def write_logs(home: Path, runs: int, tokens: int, large_tokens: int) -> dict[str, Any]:
    """Write pairs of a static and a continuous run of one workload, every other pair with arrivals; then a large
    run."""
    if (home / "runs").exists():
        return {"there_already": True}
    began = time.perf_counter()
    requests = max(2, tokens // runs // TOKENS_A_REQUEST)
    for i in range(runs):
        pair, is_second = divmod(i, 2)
        write_synthetic_run(
            home / "runs",
            SyntheticRun(
                engine=("static", "continuous")[is_second],
                requests=requests,
                tokens_a_request=TOKENS_A_REQUEST,
                slots=(4, 8, 16, 32)[pair % 4],
                seed=pair,
                created_at=BEGAN + timedelta(minutes=173 * i),
                experiment=f"pair{pair}",
                rate=2.0 + pair % 7 if pair % 2 else None,
            ),
        )
    for count, moment in ((400, 0), (large_tokens // TOKENS_A_REQUEST, 1)):
        if count:
            at = BEGAN + timedelta(minutes=173 * (runs + 1 + moment))
            large = SyntheticRun(
                engine="continuous",
                requests=count,
                tokens_a_request=TOKENS_A_REQUEST,
                slots=(16, 64)[moment],
                seed=runs + moment,
                created_at=at,
            )
            write_synthetic_run(home / "runs", large)
    return {"write_s": time.perf_counter() - began}


def measure_scripts(home: Path) -> Any:
    """The pages' scripts in a separate process, for a pair in the middle of the store and for the largest run."""
    run_ids = _run_ids(home)
    command = [sys.executable, "-m", "benchmarks.many_runs", "--home", str(home), "--scripts-of"]
    return json.loads(subprocess.check_output([*command, *_pair(run_ids), run_ids[-1]], stderr=subprocess.DEVNULL))


def time_scripts(home: Path, first: str, second: str, large: str) -> dict[str, dict[str, float]]:
    """Seconds of each script: of the first visit, which reads the store, and the median of SCRIPTS_AGAIN more."""
    os.environ["LAB_HOME"] = str(home)
    script_s("glossary")  # opens the app's services and imports modules
    script_s("run", run_id=second)
    visits = {
        "history": ("history", {}),
        "run": ("run", {"run_id": first}),
        "run_counted_otherwise": ("run", {"run_id": first, "failures": "infinite", "itl": "mean"}),
        "compare": ("compare", {"runs": f"{first},{second}"}),
        "run_large": ("run", {"run_id": large}),
        "run_large_counted_otherwise": ("run", {"run_id": large, "failures": "infinite"}),
    }
    return {
        name: {
            "first_s": script_s(page, **query),
            "again_s": statistics.median(script_s(page, **query) for _ in range(SCRIPTS_AGAIN)),
        }
        for name, (page, query) in visits.items()
    }


def script_s(page: str, **query: str) -> float:
    """Seconds of a page's whole script, without a browser."""
    began = time.perf_counter()
    app = open_page(page, **query)
    assert not app.exception, app.exception[0].value
    return time.perf_counter() - began


def measure_app(home: Path, has_large: bool) -> dict[str, Any]:
    """Pages of a real app in a real browser: seconds to the page's last element, and the app's memory after it."""
    run_ids = _run_ids(home)
    pair = _pair(run_ids)
    medium = run_ids[-2] if has_large else run_ids[-1]
    with AppServer(home) as app, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        assert app.process is not None
        pid = app.process.pid
        visits: dict[str, tuple[str, str]] = {
            "glossary": ("glossary", "Tables, figures and the command line use these names"),
            "bench": ("", "Compare two engines"),
            "history": ("history", "Runs from the command line appear automatically"),
            "run": (f"run?run_id={pair[0]}", "Counted and attributed waste"),
            "run_400_requests": (f"run?run_id={medium}", "Counted and attributed waste"),
            "compare": (f"compare?runs={','.join(pair)}", "Counted and attributed waste"),
            "query": ("query?question=waste_by_engine", "rows in"),
        }
        if has_large:
            visits["run_large"] = (f"run?run_id={run_ids[-1]}", "Counted and attributed waste")
        report: dict[str, Any] = {"rss_at_start_bytes": status_bytes(pid, "VmRSS")}
        visit(
            page, f"{app.url}/glossary", "Tables, figures and the command line use these names"
        )  # the browser loads the app's scripts
        for name, (address, last) in visits.items():
            first = visit(page, f"{app.url}/{address}", last)
            again = visit(page, f"{app.url}/{address}", last)
            report[name] = {"first_s": first, "again_s": again, "rss_bytes": status_bytes(pid, "VmRSS")}
        report["peak_rss_bytes"] = status_bytes(pid, "VmHWM")
        browser.close()
    return report


def _run_ids(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "runs").iterdir())


def _pair(run_ids: Sequence[str]) -> Sequence[str]:
    """A static and a continuous run of one workload, from the middle of the store."""
    middle = len(run_ids) // 4 * 2
    return run_ids[middle : middle + 2]


def visit(page: Page, url: str, last: str) -> float:
    """Seconds from the request until the page's last text is present and no script runs."""
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.get_by_text(last).first.wait_for(state="attached", timeout=WAIT_MS)
    page.locator('[data-testid="stStatusWidgetRunningIcon"]').wait_for(state="detached", timeout=WAIT_MS)
    return time.perf_counter() - began


def show(report: dict[str, Any], indent: str = "") -> None:
    for name, value in report.items():
        if isinstance(value, dict):
            print(f"{indent}{name}")
            show(value, f"{indent}  ")
        elif name.endswith("_bytes"):
            print(f"{indent}{name:<28} {value / MIB:,.0f} MiB")
        else:
            print(f"{indent}{name:<28} {value:,.3g}" if isinstance(value, float) else f"{indent}{name:<28} {value:,}")


def _alone(part: str, home: Path) -> Any:
    """A part of `large_store` in its own process."""
    return json.loads(subprocess.check_output([sys.executable, "-m", "benchmarks.large_store", part, str(home)]))


if __name__ == "__main__":
    main()
