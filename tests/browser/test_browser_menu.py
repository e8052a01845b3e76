"""A walk through the menu in a real browser: settings stay with their page; the address has only its page's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlparse

import pytest
from playwright.sync_api import Page, expect

from tests.support.app_server import AppServer
from tests.support.bench_page import open_run, open_settings, typed
from tests.support.menu import MENU, go
from tests.support.patience import PATIENCE_MS

pytestmark = pytest.mark.browser

# Where the menu leads from Bench, and what each page then says of its own defaults.
PAGES = {
    "Sweep": "10 runs: 2 prompt lengths x 5 batch sizes.",
    "Load": "48 requests per run, chat questions.",
    "Memory": "qwen2.5-1.5b in fp16, static engine.",
    "What if": "Free until about 53.3",
    "Run": "There is no run yet",
    "Compare": "There is no run yet",
    "Repeats": "No repeats experiment yet",
    "Roofline": "There is no run yet",
    "Predictions": "No predictions yet",
    "History": "There is no run yet",
    "Query": "There is no run yet",
    "Glossary": "KV cache",
}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """One app without runs. The last two tests need the run that the first of them makes."""
    with AppServer(tmp_path_factory.mktemp("home")) as server:
        yield server


def asked(page: Page) -> dict[str, str]:
    """The parameters of the page's address."""
    return dict(parse_qsl(urlparse(page.url).query, keep_blank_values=True))


def enter(page: Page, label: str, value: str) -> None:
    """Type a value into a field."""
    field = page.get_by_label(label, exact=True)
    field.fill(value)
    field.press("Enter")


def test_every_page_opens_with_its_defaults_after_bench(page: Page, app: AppServer) -> None:
    page.goto(app.url)
    for title, said in PAGES.items():
        expect(page.get_by_role("heading", level=1, name="Bench")).to_be_visible(timeout=PATIENCE_MS)
        open_settings(page)
        typed(page, "Requests").fill("12")
        typed(page, "Requests").press("Enter")
        page.wait_for_url(re.compile("requests=12"), timeout=PATIENCE_MS)
        page.get_by_role("radiogroup", name="Engine").get_by_role("radio", name="static").click()
        page.wait_for_url(re.compile("engine=static"), timeout=PATIENCE_MS)
        go(page, title)
        expect(page.get_by_text(said).first).to_be_visible(timeout=PATIENCE_MS)
        expect(page.get_by_text("Traceback")).to_have_count(0)
        assert asked(page) == {}, title
        go(page, "Bench")
        expect(page.get_by_text("8 chat questions").first).to_be_visible(timeout=PATIENCE_MS)
        assert asked(page) == {}, title


def test_the_menu_names_the_product_and_fits_a_projector(page: Page, app: AppServer) -> None:
    page.set_viewport_size({"width": 1024, "height": 768})
    page.goto(f"{app.url}/glossary")
    expect(page.get_by_test_id("stTopNavSection")).to_have_text(list(MENU), timeout=PATIENCE_MS)
    page.get_by_test_id("stLogoLink").click()  # the product's name leads to Bench
    expect(page.get_by_role("heading", level=1, name="Bench")).to_be_visible(timeout=PATIENCE_MS)


def test_on_a_phone_the_menu_says_menu_and_leads_to_a_page(page: Page, app: AppServer) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(app.url)
    expect(page.get_by_role("heading", level=1, name="Bench")).to_be_visible(timeout=PATIENCE_MS)
    button = page.get_by_test_id("stExpandSidebarButton")
    assert button.evaluate("button => getComputedStyle(button, '::after').content") == '"Menu"'
    button.click()
    menu = page.get_by_test_id("stSidebarNav")
    expect(menu.get_by_test_id("stNavSectionHeader")).to_contain_text(list(MENU))
    menu.get_by_role("link", name="Glossary").click()
    expect(page.get_by_role("heading", level=1, name="Glossary")).to_be_visible(timeout=PATIENCE_MS)


def test_a_reload_keeps_settings_and_back_leads_to_them(page: Page, app: AppServer) -> None:
    page.goto(f"{app.url}/memory?dtype=bf16")
    expect(page.get_by_text("qwen2.5-1.5b in bf16, static engine.")).to_be_visible(timeout=PATIENCE_MS)
    enter(page, "Prompt, tokens", "64")
    page.wait_for_url(re.compile("prompt=64"), timeout=PATIENCE_MS)
    enter(page, "Output tokens (budget)", "32")
    page.wait_for_url(re.compile("budget=32"), timeout=PATIENCE_MS)
    settings = {"dtype": "bf16", "prompt": "64", "budget": "32"}
    assert asked(page) == settings
    page.reload()
    expect(page.get_by_label("Prompt, tokens", exact=True)).to_have_value("64", timeout=PATIENCE_MS)
    assert asked(page) == settings
    go(page, "What if")
    page.go_back()  # one step, whatever was set on the page
    expect(page.get_by_role("heading", level=1, name="Memory")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_label("Prompt, tokens", exact=True)).to_have_value("64", timeout=PATIENCE_MS)
    expect(page.get_by_label("Output tokens (budget)", exact=True)).to_have_value("32")
    assert asked(page) == settings
    page.go_forward()
    expect(page.get_by_role("heading", level=1, name="What if")).to_be_visible(timeout=PATIENCE_MS)
    assert asked(page) == {}


def test_a_value_just_typed_is_the_one_that_runs(page: Page, app: AppServer) -> None:
    page.goto(f"{app.url}/?model=tiny-random&prompts=lengths&mix=p16&requests=4&budget=8")
    button = page.get_by_role("button", name="Run continuous")
    expect(button).to_be_enabled(timeout=PATIENCE_MS)
    open_settings(page)
    typed(page, "Requests").fill("3")
    button.click()  # which ends the typing; the address follows only after it
    open_run(page, "continuous", PATIENCE_MS)
    expect(page.get_by_text(re.compile("3 requests")).first).to_be_visible(timeout=PATIENCE_MS)


def test_one_back_leads_away_from_run(page: Page, app: AppServer) -> None:
    """Run was opened without a run and put its newest one into its own address: that is no step."""
    page.goto(f"{app.url}/glossary")
    expect(page.get_by_role("heading", level=1, name="Glossary")).to_be_visible(timeout=PATIENCE_MS)
    go(page, "Run")
    page.wait_for_url(re.compile(r"/run\?run_id="), timeout=PATIENCE_MS)
    page.go_back()
    expect(page.get_by_role("heading", level=1, name="Glossary")).to_be_visible(timeout=PATIENCE_MS)
