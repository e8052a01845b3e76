"""Turns for queries: a few run at once, the others wait in the order in which they were asked."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Turns:
    """`at_once` turns at a time. All methods are thread-safe."""

    def __init__(self, at_once: int) -> None:
        assert at_once > 0
        self._free = at_once
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def take(self, gave_up: Callable[[], bool]) -> Iterator[bool]:
        """Wait for a turn and hold it. False, without a turn, once `gave_up` is true; `look_again` makes it look."""
        has_turn = self._wait(gave_up)
        try:
            yield has_turn
        finally:
            if has_turn:
                with self._changed:
                    self._free += 1
                    self._changed.notify_all()

    def look_again(self) -> None:
        """Wake those who wait: one of them has given up."""
        with self._changed:
            self._changed.notify_all()

    def _wait(self, gave_up: Callable[[], bool]) -> bool:
        me = object()
        with self._changed:
            self._waiting.append(me)
            try:
                self._changed.wait_for(lambda: gave_up() or (self._free > 0 and self._waiting[0] is me))
                if gave_up():
                    return False
                self._free -= 1
                return True
            finally:
                self._waiting.remove(me)
                self._changed.notify_all()
