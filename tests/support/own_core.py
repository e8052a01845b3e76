"""Gives each of several processes that share the tests (pytest-xdist) a core of its own.

With a thread a core in each, the threads of one process would wait for those of another at every operation. Imported
before torch, which counts the cores when it is loaded. Processes that a test starts stay on the same core.
"""

from __future__ import annotations

import os

_worker = os.environ.get("PYTEST_XDIST_WORKER", "")  # gw0, gw1, …
if _worker and hasattr(os, "sched_setaffinity"):
    _cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {_cores[int(_worker.removeprefix("gw")) % len(_cores)]})
