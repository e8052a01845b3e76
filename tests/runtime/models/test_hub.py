"""Fetching a model from a hub: one that this test serves itself, an unknown one, and a hub out of reach."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch

from engine.hardware.model_catalog import is_in_hub_cache
from engine.runtime.models.loading import load_model

HUB_FILES = ("config.json", "model.safetensors")


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Path:
    """The tiny model as a folder of safetensors, as anybody would save it."""
    folder = tmp_path / "tiny"
    loaded = load_model("tiny-random", torch.device("cpu"), torch.float32, lambda line, share: None)
    loaded.model.save_pretrained(folder)
    return folder


def load_from_hub(endpoint: str, cache: Path, name: str) -> subprocess.CompletedProcess[str]:
    """Load in a process of its own: the hub's address is read from the environment once."""
    code = (
        "import sys, torch\n"
        "from engine.runtime.models.loading import load_model\n"
        "try:\n"
        "    loaded = load_model(sys.argv[1], torch.device('cpu'), torch.float32, lambda line, share: None)\n"
        "    print(loaded.spec.source, loaded.spec.parameters)\n"
        "except ValueError as error:\n"
        "    print('refused:', error)\n"
    )
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(cache)}
    environment.pop("HF_HUB_OFFLINE", None)
    command = [sys.executable, "-c", code, name]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)


@pytest.fixture
def hub(tiny_folder: Path) -> Iterator[str]:
    """A hub with one model, small/tiny, on a free port of this machine."""
    commit = "5" * 40

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802, the base class's name
            path = self.path.split("?")[0]
            name = path.rpartition("/")[2]
            if path.startswith("/api/models/small/tiny/tree/"):
                sizes = [(n, (tiny_folder / n).stat().st_size) for n in HUB_FILES]
                self.send(json.dumps([{"type": "file", "path": n, "size": s, "oid": n} for n, s in sizes]).encode())
            elif path.startswith("/api/models/small/tiny"):
                siblings = [{"rfilename": n} for n in HUB_FILES]
                self.send(json.dumps({"id": "small/tiny", "sha": commit, "siblings": siblings}).encode())
            elif path.startswith(f"/small/tiny/resolve/{commit}/"):
                self.send((tiny_folder / name).read_bytes(), {"ETag": f'"{name}"', "X-Repo-Commit": commit})
            else:
                self.send(b"{}", {"X-Error-Code": "RepoNotFound"}, status=404)

        do_HEAD = do_GET  # noqa: N815

        def send(self, body: bytes, headers: dict[str, str] | None = None, status: int = 200) -> None:
            self.send_response(status)
            for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_hub_id_is_fetched_once_and_then_used_without_the_hub(
    hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = f"hub small/tiny at {'5' * 40} 151872\n"
    assert load_from_hub(hub, tmp_path / "hf", "small/tiny").stdout == expected
    assert load_from_hub("http://127.0.0.1:9", tmp_path / "hf", "small/tiny").stdout == expected
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    assert is_in_hub_cache("small/tiny")
    assert not is_in_hub_cache("small/other")


def test_a_model_that_the_hub_does_not_know(hub: str, tmp_path: Path) -> None:
    done = load_from_hub(hub, tmp_path / "hf", "small/other")
    assert done.stdout == "refused: model small/other: no such folder here and no such model on the hub\n"


def test_a_hub_that_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    done = load_from_hub("http://127.0.0.1:9", tmp_path / "hf", "small/tiny")
    assert done.stdout.startswith("refused: model small/tiny: no such folder here, and the hub is unreachable (")
    assert done.stdout.endswith("); download it first\n")
    assert done.stdout.count("\n") == 1
