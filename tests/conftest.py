"""Fixtures that many tests share: a LAB_HOME of a test's own, an app, a browser and its pages.

Converted models stay in the user's cache folder (or LAB_CACHE), so that they are converted once and not once a test.
No test asks a model hub for anything.

Two processes share the tests (pytest-xdist). Each has a core and a lock of the device for itself, or
tests would wait for one another's threads and runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from playwright.sync_api import Browser, Page, expect, sync_playwright

import tests.support.own_core  # noqa: F401 - first: torch counts the cores when it is imported
import tests.support.triton_here  # noqa: F401 - then: whether Triton is interpreted is settled when it is imported
from engine.core.home import cache_folder
from engine.launcher.run_queue import RunQueue
from pages.parts.shared.lab import lab
from tests.support.app_server import AppServer
from tests.support.patience import PATIENCE_MS
from tests.support.processes import FAKE_WORKER

CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests first: their files take longest, and one that starts last would keep a single process waiting."""
    items.sort(key=lambda item: item.get_closest_marker("browser") is None)


@pytest.fixture(scope="session", autouse=True)
def shielded_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep every test, and every process that it starts, away from the user's runs and from the network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        if "PYTEST_XDIST_WORKER" in os.environ:
            patch.setenv("LAB_CACHE", str(_cache_with_own_locks(tmp_path_factory.mktemp("cache"))))
        yield


def _cache_with_own_locks(cache: Path) -> Path:
    """A cache folder whose models are everybody's."""
    models = cache_folder() / "models"
    models.mkdir(parents=True, exist_ok=True)
    (cache / "models").symlink_to(models)
    return cache


@pytest.fixture(scope="module")
def own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Locks of a module's own, with the user's models: its tests do not wait for a lab that is in use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_CACHE", str(_cache_with_own_locks(tmp_path_factory.mktemp("cache"))))
        yield


@pytest.fixture
def lab_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty LAB_HOME for this test alone."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("LAB_HOME", str(home))
    return home


@pytest.fixture
def home(lab_home: Path) -> Iterator[Path]:
    """A LAB_HOME without runs, for pages drawn in this process; the lab's services are closed at the end."""
    (lab_home / "runs").mkdir()
    yield lab_home
    lab().close()
    st.cache_resource.clear()
    st.cache_data.clear()


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[RunQueue]:
    """A queue of runs over a worker without an engine."""
    opened = RunQueue(tmp_path, command=FAKE_WORKER)
    yield opened
    opened.close()


@pytest.fixture
def app(lab_home: Path) -> Iterator[AppServer]:
    """A running app over this test's LAB_HOME."""
    with AppServer(lab_home) as server:
        yield server


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Debian's Chromium. Skips where it is missing; with CI set, fails."""
    path = shutil.which("chromium")
    if path is None:
        why = "no chromium on this machine (apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    return path


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """One headless Chromium for the whole session; every page has a context of its own."""
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MS)
        launched = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page, 1280 x 900, light."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()
