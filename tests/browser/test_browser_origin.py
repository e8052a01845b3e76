"""Which pages get a session: handshakes by hand against a running app, and Chromium under another name."""

from __future__ import annotations

import base64
import http.server
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from pages.parts.shared.origin import is_own_origin
from tests.conftest import CHROMIUM_FLAGS, PATIENCE_MS
from tests.support.app_server import AppServer, free_port

pytestmark = pytest.mark.browser

REFUSED = "Another site's page asked for this session"


class Snoop:
    """A proxy that answers nothing and counts who asks."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        calls = self.calls

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # noqa: N802 - the name that the base class calls
                calls.append(self.path)
                self.send_error(502)

            def do_CONNECT(self) -> None:  # noqa: N802
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture(scope="module")
def snoop() -> Iterator[Snoop]:
    """Where the app would send what it sends to the internet."""
    proxy = Snoop()
    yield proxy
    proxy.server.shutdown()


@pytest.fixture(scope="module")
def app(snoop: Snoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), snoop.url)
    with AppServer(tmp_path_factory.mktemp("home"), environment=proxies) as server:
        session_texts(server, origin=server.url)  # the first visit
        yield server


def handshake(app: AppServer, host: str, origin: str | None) -> int:
    """The status of a WebSocket handshake with these headers: 101 is accepted."""
    key = base64.b64encode(os.urandom(16)).decode()
    lines = ["GET /_stcore/stream HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade"]
    lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
    lines += [f"Origin: {origin}"] if origin else []
    with socket.create_connection(("127.0.0.1", app.port), timeout=60) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return int(connection.recv(64).split()[1])


def session_texts(app: AppServer, origin: str) -> str:
    """All that a session of a page from `origin` is sent, until its first run has ended."""
    url = f"ws://127.0.0.1:{app.port}/_stcore/stream"
    with connect(url, origin=Origin(origin), subprotocols=[Subprotocol("streamlit")], proxy=None) as session:
        session.send(run_message())
        received = []
        while True:
            data = session.recv(timeout=60)
            assert isinstance(data, bytes)
            received.append(data.decode(errors="replace"))
            if ForwardMsg.FromString(data).WhichOneof("type") == "script_finished":
                return "\n".join(received)


def run_message() -> bytes:
    """What a browser sends first: run the app."""
    message = BackMsg()
    message.rerun_script.query_string = ""
    return message.SerializeToString()


def test_the_apps_own_names_are_served(app: AppServer) -> None:
    for host in (f"127.0.0.1:{app.port}", f"localhost:{app.port}"):
        assert handshake(app, host, f"http://{host}") == 101
        assert handshake(app, host, None) == 101  # no browser
    assert "Bench" in session_texts(app, app.url)


@pytest.mark.parametrize("host", ["evil.example:{port}", "evil.example", "127.0.0.1.evil.example:{port}", "10.1.2.3"])
def test_another_host_is_refused_and_the_terminal_says_so(app: AppServer, host: str) -> None:
    named = host.format(port=app.port)
    assert handshake(app, named, f"http://{named}") == 403
    assert f"host={named}" in app.log.read_text()


def test_another_origin_is_refused_and_nobody_is_asked_about_it(app: AppServer, snoop: Snoop) -> None:
    for origin in ("http://evil.example", "https://127.0.0.1.evil.example", "null", "file://"):
        assert handshake(app, f"127.0.0.1:{app.port}", origin) == 403
    assert snoop.calls == []


@pytest.mark.parametrize(
    "origin", ["http://localhost:9999", "http://127.0.0.1:1", "http://0.0.0.0:8080", "http://localhost"]
)
def test_another_local_servers_page_gets_one_line_and_no_page(app: AppServer, origin: str) -> None:
    sent = session_texts(app, origin)
    assert REFUSED in sent
    assert "Bench" not in sent
    assert f"Refused a session of a page from {origin}" in app.log.read_text()


def test_origin_and_host_are_compared_in_full() -> None:
    assert is_own_origin({})
    assert is_own_origin({"Origin": "http://Lab.School:8501", "Host": "lab.school:8501"})
    assert is_own_origin({"Origin": "https://lab.school", "Host": "lab.school"})
    assert not is_own_origin({"Origin": "http://lab.school:8502", "Host": "lab.school:8501"})
    assert not is_own_origin({"Origin": "http://evil.example", "Host": "lab.school"})
    assert not is_own_origin({"Origin": "null", "Host": "lab.school"})
    assert not is_own_origin({"Origin": "http://lab.school"})


def test_a_page_whose_name_was_rebound_to_this_machine_shows_nothing(
    app: AppServer, browser: Browser, chromium: str
) -> None:
    rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    rebound = browser.browser_type.launch(executable_path=chromium, args=[*CHROMIUM_FLAGS, rules])
    try:
        page = rebound.new_page()
        refused: list[str] = []
        page.on("websocket", lambda opened: opened.on("socketerror", lambda why: refused.append(why)))
        page.goto(f"http://evil.example:{app.port}")
        deadline_s = time.monotonic() + PATIENCE_MS / 1000
        while not refused and time.monotonic() < deadline_s:
            page.wait_for_timeout(100)
        assert refused
        expect(page.get_by_role("heading", name="Bench")).to_have_count(0)
        page.goto(app.url)
        expect(page.get_by_role("heading", name="Bench")).to_be_visible(timeout=PATIENCE_MS)
    finally:
        rebound.close()


def test_another_local_page_in_the_browser_gets_no_session(app: AppServer, browser: Browser, tmp_path: Path) -> None:
    """A page of another port opens the app's WebSocket and runs it: it is sent the one line, and no page."""
    (tmp_path / "index.html").write_text("<title>another server</title>")
    handler = lambda *args: http.server.SimpleHTTPRequestHandler(*args, directory=str(tmp_path))  # noqa: E731
    server = http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page()
    try:
        page.goto(f"http://localhost:{server.server_address[1]}/")
        sent = page.evaluate(
            """([url, run]) => new Promise((done, failed) => {
                const session = new WebSocket(url, ["streamlit"]), texts = [];
                session.binaryType = "arraybuffer";
                session.onopen = () => session.send(Uint8Array.from(run));
                session.onerror = failed;
                session.onmessage = event => {
                    texts.push(new TextDecoder().decode(event.data));
                    if (/Another site|Bench/.test(texts.join())) done(texts.join());
                };
            })""",
            [f"ws://127.0.0.1:{app.port}/_stcore/stream", list(run_message())],
        )
        assert REFUSED in sent
    finally:
        page.close()
        server.shutdown()
