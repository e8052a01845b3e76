"""Deleting an experiment from its page in a real browser: the address goes along to History."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.app_server import AppServer
from tests.support.patience import PATIENCE_MS
from tests.support.runs.repeats_experiments import repeats_plan, write_repeats

pytestmark = pytest.mark.browser


@pytest.fixture
def full_app(lab_home: Path) -> Iterator[AppServer]:
    write_repeats(lab_home / "runs", repeats_plan(), only=[])  # cut off before its first run
    write_repeats(lab_home / "runs", repeats_plan("rep2"), with_runs=range(6))
    with AppServer(lab_home) as server:
        yield server


def test_the_address_follows_a_deleted_experiment_to_history(page: Page, full_app: AppServer) -> None:
    for experiment_id, runs in (("rep2", "6 runs"), ("rep1", "0 runs")):
        page.goto(f"{full_app.url}/repeats?experiment={experiment_id}")
        page.get_by_role("button", name="Delete …").click(timeout=PATIENCE_MS)
        expect(page.get_by_text(f"The experiment and {runs}")).to_be_visible(timeout=PATIENCE_MS)
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(page.get_by_role("heading", level=1, name="History")).to_be_visible(timeout=PATIENCE_MS)
        expect(page.get_by_text("moved to the trash")).to_be_visible(timeout=PATIENCE_MS)
        expect(page).to_have_url(re.compile(r"/history$"))
