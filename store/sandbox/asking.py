"""One question put to the sandbox: a process of its own, killed when its time is over or when nobody wants it any more.

Whatever a statement does to that process, this one only waits for a bounded number of bytes from it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import pyarrow as pa

from engine.core.format import exact
from store.sandbox.answer import Answer, Place, Reason, Refusal, place_in, tidied

CHILD = Path(__file__).parent / "child.py"
MAX_SQL_CHARACTERS = 20_000
MAX_ROWS = 1_000_000
MAX_TIMEOUT_S = 60.0
SLACK_BYTES = 1 << 20  # header, schema and padding beside the rows
NICENESS = 5  # a question must not take the processor from a run that is being measured

WORDS = MappingProxyType(
    {
        "time": "Stopped after {timeout}. Ask for less, or allow it more time.",
        "memory": "Stopped: it needed more memory than a question may have. Ask for fewer rows or columns at once.",
        "cancelled": "Canceled.",
        "broken": "Stopped: the question's own process ended in the middle of it, most likely for want of memory.",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one question may take. ValueError where that is out of bounds."""

    timeout_s: float = 5.0
    max_rows: int = 10_000
    max_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        if not 0.1 <= self.timeout_s <= MAX_TIMEOUT_S:
            raise ValueError(f"timeout {self.timeout_s:g}: give seconds from 0.1 to {MAX_TIMEOUT_S:g}")
        if not 1 <= self.max_rows <= MAX_ROWS:
            raise ValueError(f"max rows {self.max_rows}: give 1 to {MAX_ROWS}")


USUAL = Limits()


class Asking:
    """A question under way. It begins at once; `result` waits for its end, `cancel` ends it from any thread."""

    def __init__(self, snapshot: Path, sql: str, limits: Limits = USUAL) -> None:
        if len(sql) > MAX_SQL_CHARACTERS:
            raise ValueError(f"a question of {len(sql):,} characters: {MAX_SQL_CHARACTERS:,} is the most")
        self.sql = sql
        self.limits = limits
        self.began = time.monotonic()
        self._killed_for: Reason | None = None
        self._lock = threading.Lock()
        self._outcome: Answer | Refusal | None = None
        self._process = _start()
        self._timer = threading.Timer(limits.timeout_s, self._kill, ("time",))
        self._timer.daemon = True
        self._timer.start()
        order = {"path": str(snapshot), "sql": sql, "max_rows": limits.max_rows, "max_bytes": limits.max_bytes}
        self._thread = threading.Thread(target=self._run, args=(order,), name="asking", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end, so long at most. Whether it has come."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def pid(self) -> int:
        """The number of the question's process."""
        return self._process.pid

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Kill it, if it still goes on; `result` then raises a Refusal that says so."""
        self._kill("cancelled")

    def result(self) -> Answer:
        """The answer, once it is there. Refusal where there is none."""
        self._thread.join()
        assert self._outcome is not None
        if isinstance(self._outcome, Refusal):
            raise self._outcome
        return self._outcome

    def _run(self, order: dict[str, Any]) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(json.dumps(order | {"timeout_s": self.limits.timeout_s}).encode())
            data = self._read(process.stdout)
        finally:
            self._kill("broken", only_process=True)
            process.stdout.close()
            process.wait()
            self._timer.cancel()
        try:
            self._outcome = self._understood(data)
        except Refusal as refusal:
            self._outcome = refusal

    def _read(self, pipe: IO[bytes]) -> bytes:
        """All that comes, but never more than may come."""
        parts, size, most = [], 0, self.limits.max_bytes + SLACK_BYTES
        while part := os.read(pipe.fileno(), 1 << 20):
            parts.append(part)
            size += len(part)
            if size > most:
                self._kill("broken")
                break
        return b"".join(parts)

    def _understood(self, data: bytes) -> Answer:
        if self._killed_for is not None:
            raise Refusal(WORDS[self._killed_for].format(timeout=exact(self.limits.timeout_s, "s")), self._killed_for)
        line, _, body = data.partition(b"\n")
        try:
            header = json.loads(line)
        except json.JSONDecodeError:  # it died by itself: of memory, as a rule, or of the system's bound on its time
            raise Refusal(WORDS["broken"], "broken") from None
        if header["outcome"] == "answer":
            table = tidied(pa.ipc.open_stream(body).read_all())
            return Answer(table=table, more=header["more"], seconds=header["seconds"])
        reason: Reason = header["reason"]
        message = WORDS["memory"] if reason == "memory" else header["message"]
        raise Refusal(message, reason, self._place(header["place"]))

    def _place(self, place: list[int] | None) -> Place | None:
        return place_in(self.sql, place[0], place[1]) if place else None

    def _kill(self, reason: Reason, only_process: bool = False) -> None:
        with self._lock:
            if self._process.poll() is not None:
                return
            if not only_process:
                self._killed_for = self._killed_for or reason
            self._process.kill()


def _start() -> subprocess.Popen[bytes]:
    """The sandbox's process: Python alone, none of this process's files, and hardly any of its environment."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
    return subprocess.Popen(
        ["nice", "-n", str(NICENESS), sys.executable, "-I", str(CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=kept | {"PATH": os.defpath, "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"},
        start_new_session=True,
    )


def ask(snapshot: Path, sql: str, limits: Limits = USUAL) -> Answer:
    """Put a question and wait for its answer. Refusal where there is none, ValueError where the text is too long."""
    return Asking(snapshot, sql, limits).result()
