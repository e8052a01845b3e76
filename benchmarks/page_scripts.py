"""The duration of the pages' scripts without a browser.

    python -m benchmarks.page_scripts LAB_HOME RUN_ID RUN_ID LARGE_RUN_ID

Prints JSON: seconds of the first visit, which reads the store, and the median of three more. Compare gets the first two
runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time

from tests.support.page_app import open_page

AGAIN = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("home")
    parser.add_argument("run_ids", nargs=3)
    options = parser.parse_args()
    os.environ["LAB_HOME"] = options.home
    first, second, large = options.run_ids
    visit("glossary")  # opens the app's services and imports modules
    visit("run", run_id=second)
    visits = {
        "history": ("history", {}),
        "run": ("run", {"run_id": first}),
        "run_counted_otherwise": ("run", {"run_id": first, "failures": "infinite", "itl": "mean"}),
        "compare": ("compare", {"runs": f"{first},{second}"}),
        "run_large": ("run", {"run_id": large}),
        "run_large_counted_otherwise": ("run", {"run_id": large, "failures": "infinite"}),
    }
    report = {name: measure(page, query) for name, (page, query) in visits.items()}
    print(json.dumps(report))


def measure(page: str, query: dict[str, str]) -> dict[str, float]:
    first = visit(page, **query)
    return {"first_s": first, "again_s": statistics.median(visit(page, **query) for _ in range(AGAIN))}


def visit(page: str, **query: str) -> float:
    began = time.perf_counter()
    app = open_page(page, **query)
    assert not app.exception, app.exception[0].value
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
