"""The store owner's socket: while the app has the store open, `python -m store` connects here. One JSON line each way.

A request is `{"command": "list" | "ingest" | "export" | …, …}`; the reply is `{"ok": …}`, or `{"error": …}` with
one line. The socket is a file in LAB_HOME that only its user may open.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.core.errors import first_line
from store.cli.commands import READ_ONLY, answer
from store.store import Store

SOCKET = "store.sock"
MAX_PATH_BYTES = 100  # the system's own limit is 108
MAX_REQUEST_BYTES = 1 << 20
PATIENCE_S = 5.0  # with a client that connects and sends nothing


class OwnerSocket:
    """Serves requests for `store` until it is stopped. `on_change` is called after each request that changes the
    store."""

    def __init__(self, store: Store, on_change: Callable[[], None]) -> None:
        self.path = store.home / SOCKET
        self._store = store
        self._on_change = on_change
        self._server: socketserver.ThreadingUnixStreamServer | None = None

    def start(self) -> None:
        """Serve requests in background threads. Replaces the socket file of a dead owner."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        with _short(self.path) as address:
            self._server = _Server(address, self._store, self._on_change)
        self.path.chmod(0o600)
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="store-socket", daemon=True).start()

    def stop(self) -> None:
        """Stop after the current requests. Stopping twice does no harm."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()


def ask_owner(home: Path, request: Mapping[str, Any], timeout_s: float = 600.0) -> Any:
    """The owner's reply. ConnectionError if no process listens; ValueError with the owner's error line."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        try:
            with _short(home / SOCKET) as address:
                connection.connect(address)
        except OSError as error:
            raise ConnectionError(f"no process listens at {home / SOCKET}") from error
        with connection.makefile("rwb") as stream:
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
            line = stream.readline()
    if not line:
        raise ConnectionError(f"no answer at {home / SOCKET}")
    reply = json.loads(line)
    if "error" in reply:
        raise ValueError(reply["error"])
    return reply["ok"]


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = False  # closing the server waits for its requests; the store is closed after that

    def __init__(self, address: str, store: Store, on_change: Callable[[], None]) -> None:
        self.store = store
        self.on_change = on_change
        super().__init__(address, _Handler)


class _Handler(socketserver.StreamRequestHandler):
    server: _Server
    timeout = PATIENCE_S

    def handle(self) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
            line = self.rfile.readline(MAX_REQUEST_BYTES)
            self.wfile.write(json.dumps(self._reply(line)).encode() + b"\n")

    def _reply(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ValueError("a request is a JSON object")
            reply = answer(self.server.store, request)
            if request["command"] not in READ_ONLY:
                self.server.on_change()
            return {"ok": reply}
        except Exception as error:  # any failure goes to the client
            return {"error": first_line(error)}


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """An address of the socket within the system's length limit, for a folder of any depth."""
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        yield str(path)
        return
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise ConnectionError(f"no process listens at {path}") from error
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
