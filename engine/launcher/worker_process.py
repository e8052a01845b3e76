"""The worker as a child process: commands in, events out, the end of its stderr kept for a crash report.

The worker ends when its stdin closes. Only this process holds the other end of that pipe, so the worker also ends when
this process is killed. While it has no run it also ends with the thread that started it: start it from a thread that
lasts. It runs in its own session, so that Ctrl-C in the terminal reaches only the app.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.core.home import importable
from engine.hardware.threads import brief_spinning
from engine.launcher.messages import Died, Event, parse_event

WORKER_COMMAND = (sys.executable, "-m", "engine.runtime")
STDERR_KEPT_BYTES = 64 * 1024


class WorkerProcess:
    """One worker. `on_event` is called from background threads, in order; `Died` comes last and exactly once."""

    def __init__(self, command: Sequence[str], home: Path, on_event: Callable[[WorkerProcess, Event], None]) -> None:
        self._on_event = on_event
        self._stderr = bytearray()
        self._sending = threading.Lock()
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(home),
            start_new_session=True,
        )
        readers = [threading.Thread(target=read, daemon=True) for read in (self._read_events, self._read_stderr)]
        for reader in readers:
            reader.start()
        threading.Thread(target=self._await_end, args=(readers,), daemon=True).start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def send(self, command: dict[str, Any]) -> None:
        """Send a command. A dead worker ignores it; its `Died` event follows."""
        assert self.process.stdin is not None
        line = json.dumps(command).encode() + b"\n"
        with self._sending:
            try:
                self.process.stdin.write(line)
                self.process.stdin.flush()
            except (BrokenPipeError, ValueError):
                return

    def kill(self) -> None:
        self.process.kill()

    def close(self, patience_s: float = 5.0) -> None:
        """Close its stdin and wait for its end; kill it after `patience_s`."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # an unread command of a dead process
            self.process.stdin.close()
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _read_events(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            text = line.decode(errors="replace")
            try:
                event = parse_event(text)
            except ValueError:
                self._keep(line)
                continue
            self._on_event(self, event)

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while chunk := os.read(self.process.stderr.fileno(), 65536):
            self._keep(chunk)

    def _keep(self, chunk: bytes) -> None:
        self._stderr.extend(chunk)
        del self._stderr[:-STDERR_KEPT_BYTES]

    def _await_end(self, readers: Sequence[threading.Thread]) -> None:
        """Wait for the end. The readers end with the pipes; they get one second, as a grandchild may keep a pipe
        open."""
        returncode = self.process.wait()
        for reader in readers:
            reader.join(timeout=1.0)
        self._on_event(self, Died(returncode=returncode, stderr=self._stderr.decode(errors="replace")))


def _environment(home: Path) -> dict[str, str]:
    """This process's environment, with LAB_HOME set and the engine importable from any folder."""
    own = {"LAB_HOME": str(home), "PYTHONUNBUFFERED": "1"}
    return importable(os.environ) | brief_spinning(os.environ) | own
