"""The worker as a child process: commands in, events out, stderr kept for the day it dies.

The worker ends when its stdin closes, and nobody else holds that pipe's other end: however this process ends, by any
signal, the worker follows. It runs in a session of its own, so that a Ctrl-C in the terminal reaches the app alone.
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

import engine
from engine.hardware.threads import brief_spinning
from engine.launcher.messages import Died, Event, parse_event

WORKER_COMMAND = (sys.executable, "-m", "engine.runtime.worker")
STDERR_KEPT_BYTES = 64 * 1024


class WorkerProcess:
    """One worker. `on_event` is called from the process's own threads, in order, `Died` last and exactly once."""

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
        """Give a command. A worker that is dead or dying does not take it; its `Died` says so."""
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
        """Close its stdin and wait for it to leave; kill it when it does not."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # a command that was never taken: the process is gone
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
        """The readers end with the pipes, unless a grandchild keeps one open: they get a moment, not for ever."""
        returncode = self.process.wait()
        for reader in readers:
            reader.join(timeout=1.0)
        self._on_event(self, Died(returncode=returncode, stderr=self._stderr.decode(errors="replace")))


def _environment(home: Path) -> dict[str, str]:
    """This process's own, with LAB_HOME settled and the engine importable whatever the current folder is."""
    root = str(Path(engine.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    own = {"LAB_HOME": str(home), "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    return os.environ | brief_spinning(os.environ) | own
