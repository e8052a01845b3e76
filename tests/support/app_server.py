"""The app as its users run it: a `streamlit run` of its own on a free port, over a LAB_HOME of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class AppServer:
    """A running app. `with AppServer(home) as app:` serves at `app.url`; its output is in `home`/app.log.

    `environment` is set for the app alone. `root` is the checkout that is served.
    """

    def __init__(
        self,
        home: Path,
        *,
        timeout_s: float = 60,
        environment: Mapping[str, str] | None = None,
        root: Path = ROOT,
    ) -> None:
        self.home = home
        self.root = root
        self.environment = environment or {}
        self.timeout_s = timeout_s
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = home / "app.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the app and wait until it answers. RuntimeError with its output where it does not."""
        self.home.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(self.port)]
        with self.log.open("ab") as log:
            environment = os.environ | {"LAB_HOME": str(self.home)} | self.environment
            self.process = subprocess.Popen(command, cwd=self.root, stdout=log, stderr=log, env=environment)
        deadline_s = time.monotonic() + self.timeout_s
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline_s:
                self.stop()
                raise RuntimeError(f"the app did not start:\n{self.log.read_text(errors='replace')}")
            time.sleep(0.1)
        return self

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> None:
        """End the app by a signal and wait for it; by SIGKILL where ten seconds were not enough."""
        if self.process is None:
            return
        self.process.send_signal(with_signal)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
