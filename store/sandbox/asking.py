"""Runs one query in the sandbox: a child process, killed at its time limit or on cancel.

The child may fail in any way; this process only waits for a bounded number of bytes from it. A query may have to wait
for its turn first; its time limit counts from its start.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import pyarrow as pa

from engine.core.errors import shortened
from engine.core.format import exact
from store.sandbox.answer import Answer, Place, Reason, Refusal, place_in, tidied
from store.sandbox.turns import Turns

CHILD = Path(__file__).parent / "child.py"
MAX_SQL_CHARACTERS = 20_000
MAX_ROWS = 1_000_000
MAX_TIMEOUT_S = 60.0
SLACK_BYTES = 1 << 20  # header, schema and padding beside the rows
NICENESS = 5  # a query must not take the CPU from a run that is being measured

MESSAGES = MappingProxyType(
    {
        "time": "Stopped after {timeout}. Query less data, or raise the time limit.",
        "memory": "Stopped: the query exceeded its memory limit. Query fewer rows or columns at once.",
        "canceled": "Canceled.",
        "broken": "Stopped: the query's process ended early.",
    }
)
# How the child's process ended without an answer, by the signal that ended it.
ENDS: Mapping[int, tuple[Reason, str]] = MappingProxyType(
    {
        signal.SIGALRM: ("time", MESSAGES["time"]),
        signal.SIGXCPU: ("time", "Stopped: the query used up its time on the CPU. Query less data."),
        signal.SIGKILL: (
            "memory",
            "Stopped by the system, most likely for want of memory. Query less at once.",
        ),
        signal.SIGABRT: (
            "broken",
            "Stopped: DuckDB gave up, most likely for want of memory. Query less at once.",
        ),
        signal.SIGSEGV: ("broken", "Stopped: DuckDB crashed on this query; deep nesting can do that. Simplify it."),
        signal.SIGBUS: ("broken", "Stopped: DuckDB crashed on this query (bus error). Simplify it."),
        signal.SIGXFSZ: ("statement", "Stopped: the query tried to write a file. Use a SELECT."),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one query. ValueError if one is out of range."""

    timeout_s: float = 5.0
    max_rows: int = 10_000
    max_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        if not 0.1 <= self.timeout_s <= MAX_TIMEOUT_S:
            raise ValueError(f"timeout {self.timeout_s:g}: use 0.1 to {MAX_TIMEOUT_S:g} seconds")
        if not 1 <= self.max_rows <= MAX_ROWS:
            raise ValueError(f"max rows {self.max_rows}: use 1 to {MAX_ROWS}")


DEFAULT_LIMITS = Limits()


class Asking:
    """A query that waits for its turn, then runs. `result` waits for its end, `cancel` ends it from any thread."""

    def __init__(self, snapshot: Path, sql: str, limits: Limits = DEFAULT_LIMITS, turns: Turns | None = None) -> None:
        if len(sql) > MAX_SQL_CHARACTERS:
            raise ValueError(f"The query has {len(sql):,} characters; use at most {MAX_SQL_CHARACTERS:,}.")
        if any("\ud800" <= character <= "\udfff" for character in sql):
            raise ValueError("The query is not UTF-8 text.")
        self.sql = sql
        self.limits = limits
        self.began: float | None = None  # its start on the monotonic clock, in seconds; None while it waits
        self._turns = turns or Turns(1)
        self._killed_for: Reason | None = None
        self._lock = threading.Lock()
        self._outcome: Answer | Refusal | None = None
        self._process: subprocess.Popen[bytes] | None = None
        order = {"path": str(snapshot), "sql": sql, "max_rows": limits.max_rows, "max_bytes": limits.max_bytes}
        self._thread = threading.Thread(target=self._run, args=(order,), name="asking", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for the end. Returns whether the query has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def pid(self) -> int | None:
        """The process id of the query's process; None while it waits for its turn."""
        return None if self._process is None else self._process.pid

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """End the query if it still waits or runs; `result` then raises a Refusal for it."""
        self._kill("canceled")
        self._turns.look_again()

    def result(self) -> Answer:
        """Wait for the answer. Refusal if there is none."""
        self._thread.join()
        assert self._outcome is not None
        if isinstance(self._outcome, Refusal):
            raise self._outcome
        return self._outcome

    def _run(self, order: dict[str, Any]) -> None:
        try:
            with self._turns.take(lambda: self._killed_for is not None):
                data = self._answer_of_process(order)
            self._outcome = self._parse(data)
        except Refusal as refusal:
            self._outcome = refusal
        except OSError as error:  # no process can be started
            self._outcome = Refusal(f"The query could not be started: {error.strerror or error}.", "broken")

    def _answer_of_process(self, order: dict[str, Any]) -> bytes:
        """Start the query's process and read what it writes; nothing for a query that was canceled before."""
        with self._lock:
            if self._killed_for is not None:
                return b""
            self._process = process = _start()
            self.began = time.monotonic()
        timer = threading.Timer(self.limits.timeout_s, self._kill, ("time",))
        timer.daemon = True
        timer.start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(order | {"timeout_s": self.limits.timeout_s}).encode() + b"\n")
                process.stdin.flush()  # it stays open: the process ends when it closes
            return self._read(process.stdout)
        finally:
            self._kill("broken", only_process=True)
            process.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
            timer.cancel()

    def _read(self, pipe: IO[bytes]) -> bytes:
        """The child's output, up to the size limit."""
        parts, size, most = [], 0, self.limits.max_bytes + SLACK_BYTES
        while part := os.read(pipe.fileno(), 1 << 20):
            parts.append(part)
            size += len(part)
            if size > most:
                self._kill("broken")
                break
        return b"".join(parts)

    def _parse(self, data: bytes) -> Answer:
        if self._killed_for is not None:
            timeout = exact(self.limits.timeout_s, "s")
            raise Refusal(MESSAGES[self._killed_for].format(timeout=timeout), self._killed_for)
        line, _, body = data.partition(b"\n")
        try:
            header = json.loads(line)
        except json.JSONDecodeError:  # the child died
            raise self._end_of_process() from None
        if header["outcome"] == "answer":
            table = tidied(pa.ipc.open_stream(body).read_all(), whole=header["whole"])
            return Answer(table=table, more=header["more"], seconds=header["seconds"])
        reason: Reason = header["reason"]
        lines = header["message"].splitlines()
        message = MESSAGES["memory"] if reason == "memory" else "\n".join(map(shortened, lines))
        raise Refusal(message, reason, self._place(header["place"]))

    def _end_of_process(self) -> Refusal:
        """Why the child ended without an answer, told by its exit status."""
        status = 0 if self._process is None else self._process.returncode or 0
        reason, message = ENDS.get(-status, ("broken", f"{MESSAGES['broken'][:-1]} (exit status {status})."))
        return Refusal(message.format(timeout=exact(self.limits.timeout_s, "s")), reason)

    def _place(self, place: list[int] | None) -> Place | None:
        return place_in(self.sql, place[0], place[1]) if place else None

    def _kill(self, reason: Reason, only_process: bool = False) -> None:
        with self._lock:
            if self.is_done or (self._process is not None and self._process.poll() is not None):
                return
            if not only_process:
                self._killed_for = self._killed_for or reason
            if self._process is not None:
                self._process.kill()


def _start() -> subprocess.Popen[bytes]:
    """Start the child: isolated Python, without this process's open files and most of its environment."""
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


def ask(snapshot: Path, sql: str, limits: Limits = DEFAULT_LIMITS) -> Answer:
    """Run a query and wait for its answer. Refusal if there is none, ValueError if the text is too long."""
    return Asking(snapshot, sql, limits).result()
