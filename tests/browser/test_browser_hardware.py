"""Bench in simulation in a real browser: from the switch to a simulated run, and from there to its repeat."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.app_server import AppServer

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("own_locks")]


WORKER_MS = 400_000  # a busy machine needs minutes to start the worker


@pytest.fixture(scope="module")
def app(own_locks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    with AppServer(tmp_path_factory.mktemp("home")) as server:
        yield server


def test_a_gpu_by_simulation_leads_to_a_simulated_run_that_repeats(page: Page, app: AppServer) -> None:
    page.goto(app.url)
    page.get_by_text("A GPU by simulation", exact=True).click()
    page.wait_for_url(re.compile("hardware=h100"))
    expect(page.get_by_text("Bits per weight", exact=True)).to_be_visible()
    page.get_by_role("combobox", name=re.compile("Model")).click()
    page.get_by_role("option", name="llama-3.1-8b", exact=True).click()
    page.wait_for_url(re.compile("model=llama-3.1-8b"))
    expect(page.get_by_text(re.compile("3, 5, 6 and 7 cannot divide the 8 KV heads"))).to_be_visible()
    expect(page.get_by_role("button", name="3", exact=True)).to_be_disabled()
    page.get_by_role("button", name="2", exact=True).click()
    page.wait_for_url(re.compile("tensor_parallel_size=2"))
    expect(page.get_by_text(re.compile(r"on 2 x NVIDIA H100 SXM, 80 GB, simulated"))).to_be_visible()
    page.get_by_role("button", name="Simulate continuous").click()
    page.get_by_role("link", name="Open the continuous run").click(timeout=WORKER_MS)
    expect(page.locator(".stMarkdownBadge", has_text="simulated").first).to_be_visible()
    expect(page.get_by_text(re.compile("llama-3.1-8b in bf16 on 2 x NVIDIA H100"))).to_be_visible()
    page.get_by_role("link", name="Repeat on Bench").click()
    page.wait_for_url(re.compile("hardware=h100"))
    expect(page.get_by_role("button", name="Simulate continuous")).to_be_enabled()
    assert {"model=llama-3.1-8b", "tensor_parallel_size=2"} <= set(page.url.partition("?")[2].split("&"))
