"""The run's clock: seconds since the measured part began, and a wait that a cancel can cut short."""

from __future__ import annotations

import time
from collections.abc import Callable

WAKE_S = 0.02  # how long a wait sleeps before it looks at the cancel flag again


class RunClock:
    """Zero at construction. Monotonic."""

    def __init__(self) -> None:
        self._zero = time.perf_counter()

    def now_s(self) -> float:
        return time.perf_counter() - self._zero

    def wait_until(self, when_s: float, should_stop: Callable[[], bool]) -> None:
        """Sleep until `when_s`: measured against the intended time, so that waits never add up to a drift."""
        while not should_stop():
            left_s = when_s - self.now_s()
            if left_s <= 0:
                return
            time.sleep(min(left_s, WAKE_S))
