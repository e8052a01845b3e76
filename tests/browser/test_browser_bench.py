"""Bench in a real browser, over the real worker and model: live view, crash, queue, cancel, links, narrow and dark."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlparse

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from engine.runlog.reader import RunLogReader
from tests.support.app_server import AppServer
from tests.support.bench_page import open_comparison, open_run, open_settings, typed
from tests.support.contrast import contrast
from tests.support.menu import open_group
from tests.support.patience import PATIENCE_MS
from tests.support.processes import await_end, wait_for, worker_of

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("own_locks")]

LONG = "?model=tiny-random&prompts=lengths&mix=p64&requests=64&budget=2000&slots=4"
SHORT = "?model=tiny-random&prompts=lengths&mix=p16&requests=4&budget=8"


@pytest.fixture(scope="module")
def app(own_locks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """One app, and its warm worker, for all tests here that do not close it. Each test ends the runs that it starts."""
    with AppServer(tmp_path_factory.mktemp("home")) as server:
        yield server


def folders(app: AppServer) -> set[Path]:
    """The folders of all runs so far."""
    return set(app.home.glob("runs/*"))


def pid_of(app: AppServer) -> int:
    assert app.process is not None
    return app.process.pid


def open_bench(page: Page, app: AppServer, query: str = "") -> None:
    page.goto(f"{app.url}/{query}")
    expect(page.get_by_role("button", name="Compare two engines")).to_be_enabled(timeout=PATIENCE_MS)


def start(page: Page, button: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()
    page.wait_for_url(re.compile(r"job="), timeout=PATIENCE_MS)


def await_tokens(page: Page) -> None:
    """Wait until the live view counts new tokens."""
    expect(page.get_by_text(re.compile(r"of \d+ requests finished, [\d,]+ tokens"))).to_be_visible(timeout=PATIENCE_MS)


def test_a_killed_worker_is_reported_and_the_next_run_works(page: Page, app: AppServer) -> None:
    before = folders(app)
    open_bench(page, app, LONG)
    start(page, "Run continuous")
    await_tokens(page)
    (folder,) = folders(app) - before
    wait_for(lambda: len(RunLogReader(folder).table("tokens")) > 0, PATIENCE_MS / 1000)
    os.kill(worker_of(pid_of(app)), signal.SIGKILL)
    crashed = page.get_by_text(re.compile(r"the worker was killed by SIGKILL. [\d,]+ tokens were logged and kept"))
    expect(crashed).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("link", name="Open the partial continuous run").click()
    page.wait_for_url(re.compile(r"/run\?run_id="))
    expect(page.get_by_text("crashed").first).to_be_visible(timeout=PATIENCE_MS)

    open_bench(page, app, SHORT)
    start(page, "Run continuous")
    open_run(page, "continuous", PATIENCE_MS)


def test_the_live_view_fills_and_its_run_is_marked_as_watched(page: Page, app: AppServer) -> None:
    before = folders(app)
    open_bench(page, app, LONG + "&engine=static")
    start(page, "Run static")
    await_tokens(page)
    expect(page.locator(".slots")).to_have_count(1)
    expect(page.locator(".slots .lane .decode").first).to_be_visible(timeout=PATIENCE_MS)
    answer = page.locator(".answer.running .text").first
    expect(answer).to_have_text(re.compile(r"\d+ \d+ \d+"), timeout=PATIENCE_MS)  # ids: no tokenizer
    top_px = page.get_by_text("Answers so far").bounding_box()
    page.wait_for_timeout(1500)
    assert page.get_by_text("Answers so far").bounding_box() == top_px
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Static was canceled")).to_be_visible(timeout=PATIENCE_MS)
    (folder,) = folders(app) - before
    assert (folder / "watched").exists()


def test_cancel_stops_the_run_and_keeps_what_was_logged(page: Page, app: AppServer) -> None:
    open_bench(page, app, LONG)
    start(page, "Compare two engines")
    await_tokens(page)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Static was canceled")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("Continuous was canceled")).to_be_visible()
    page.get_by_role("link", name="Open the partial static run").click()
    page.wait_for_url(re.compile(r"/run\?run_id="))
    expect(page.get_by_text("stopped").first).to_be_visible(timeout=PATIENCE_MS)


def test_a_pair_that_was_canceled_is_gone_on_with(page: Page, app: AppServer) -> None:
    before = folders(app)
    open_bench(page, app, "?model=tiny-random&prompts=lengths&mix=p16&requests=32&budget=1000&slots=4")
    start(page, "Compare two engines")
    await_tokens(page)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Static was canceled")).to_be_visible(timeout=PATIENCE_MS)
    (stopped,) = (folder.name for folder in folders(app) - before)
    page.get_by_role("button", name="Resume").click()
    open_comparison(page, 5 * PATIENCE_MS)
    runs = parse_qs(urlparse(page.url).query)["runs"][0].split(",")
    assert len(runs) == 2
    assert stopped not in runs
    assert {stopped, *runs} == {folder.name for folder in folders(app) - before}


def test_two_visitors_share_one_queue(browser: Browser, app: AppServer) -> None:
    contexts = [browser.new_context(viewport={"width": 1280, "height": 900}) for _ in range(2)]
    first, second = (context.new_page() for context in contexts)
    try:
        open_bench(first, app, LONG)
        start(first, "Run continuous")
        await_tokens(first)
        open_bench(second, app, SHORT)
        expect(second.get_by_text(re.compile("Now: continuous.*another visitor's"))).to_be_visible(timeout=PATIENCE_MS)
        start(second, "Run continuous")
        expect(second.get_by_text("Place 1 in the queue")).to_be_visible(timeout=PATIENCE_MS)
        expect(first.get_by_text(re.compile("Place 1: continuous.*another visitor's"))).to_be_visible(
            timeout=PATIENCE_MS
        )
        first.get_by_role("button", name="Cancel").click()
        open_run(second, "continuous", PATIENCE_MS)
    finally:
        for context in contexts:
            context.close()


def test_a_reload_keeps_following_the_job(page: Page, app: AppServer) -> None:
    open_bench(page, app, LONG)
    start(page, "Run continuous")
    await_tokens(page)
    page.reload()
    await_tokens(page)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Continuous was canceled")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_text("Continuous was canceled")).to_be_hidden()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_closing_the_app_leaves_no_worker(page: Page, lab_home: Path, how: signal.Signals) -> None:
    with AppServer(lab_home) as app:
        open_bench(page, app, LONG)
        start(page, "Run continuous")
        await_tokens(page)
        worker = worker_of(pid_of(app))
        app.stop(how)
        assert await_end(worker, within_s=30)


def test_a_second_app_on_the_same_home_says_who_holds_the_store(page: Page, app: AppServer) -> None:
    open_bench(page, app)
    with AppServer(app.home) as second:
        page.goto(second.url)
        expect(page.get_by_text("The store is in use")).to_be_visible(timeout=PATIENCE_MS)
        expect(page.get_by_text(str(pid_of(app)))).to_be_visible()
        expect(page.get_by_text("Traceback")).to_have_count(0)


def test_settings_travel_in_the_address_both_ways(page: Page, app: AppServer) -> None:
    open_bench(page, app, "?engine=static&slots=7&budget=12&form=timeout&prompts=lengths&mix=p32")
    expect(page.get_by_text("smollm2-135m in fp32 on cpu.")).to_be_visible()
    expect(
        page.get_by_text("8 requests with a prompt of exactly 32 tokens, 12 new tokens each, 96 in total.")
    ).to_be_visible()
    open_settings(page)
    expect(typed(page, "Slots: rows that run at once (max-num-seqs)")).to_have_value("7")
    page.get_by_role("radiogroup", name="Engine").get_by_role("radio", name="continuous").click()
    expect(page.get_by_role("button", name="Run continuous")).to_be_visible()
    page.wait_for_url(lambda url: "engine" not in url and "slots=7" in url)
    assert "engine" not in parse_qs(urlparse(page.url).query)


def test_bench_is_at_its_own_name_too(page: Page, app: AppServer) -> None:
    page.goto(f"{app.url}/bench?engine=static&slots=7&model=tiny-random")
    expect(page.get_by_role("button", name="Run static")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text("Page not found")).to_have_count(0)
    assert parse_qs(urlparse(page.url).query)["slots"] == ["7"]
    open_group(page, "Bench")
    expect(page.get_by_role("menuitem", name="Bench", exact=True)).to_have_count(1)


def test_back_from_the_results_to_bench_by_its_own_name_is_one_step(page: Page, app: AppServer) -> None:
    page.goto(f"{app.url}/bench{SHORT}")
    page.get_by_role("button", name="Compare two engines").click(timeout=PATIENCE_MS)
    open_comparison(page, PATIENCE_MS)
    expect(page.get_by_role("heading", level=1, name="Compare")).to_be_visible(timeout=PATIENCE_MS)
    page.go_back()
    expect(page.get_by_role("heading", level=1, name="Bench")).to_be_visible(timeout=PATIENCE_MS)
    asked = urlparse(page.url)
    assert (asked.path, "runs" in parse_qs(asked.query)) == ("/bench", False)
    expect(page.get_by_text("Measured as planned")).to_be_visible(timeout=PATIENCE_MS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(browser: Browser, app: AppServer, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    try:
        open_bench(page, app, SHORT)
        main = page.locator("[data-testid=stMain]")
        assert main.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
        ground = page.locator("[data-testid=stApp]").evaluate("e => getComputedStyle(e).backgroundColor")
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(14, 17, 23)"}[scheme]
    finally:
        context.close()


def test_the_app_process_never_loads_torch(page: Page, app: AppServer) -> None:
    open_bench(page, app, SHORT)
    start(page, "Run continuous")
    open_run(page, "continuous", PATIENCE_MS)
    maps = Path(f"/proc/{pid_of(app)}/maps").read_text()
    assert "libtorch" not in maps
    assert "libtorch" in Path(f"/proc/{worker_of(pid_of(app))}/maps").read_text()


def test_a_slider_redraws_the_planned_timelines(page: Page, app: AppServer) -> None:
    open_bench(page, app, "")
    expect(page.get_by_text("Static needs 87 forward passes, continuous 74")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("figure", name="Planned slot timeline of static")).to_be_visible()
    slots = page.get_by_role("slider", name="Slots")
    slots.focus()
    slots.press("ArrowRight")  # the next power of two
    expect(page.get_by_text("Static needs 47 forward passes, continuous 47 (the same)")).to_be_visible(
        timeout=PATIENCE_MS
    )
    page.wait_for_url(re.compile("slots=8"), timeout=PATIENCE_MS)
    page.get_by_role("button", name="Equal lengths").click()
    expect(page.get_by_text("no slot-step is dead")).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_url(lambda url: "mix=p64" in url and "slots" not in url, timeout=PATIENCE_MS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_captions_are_readable(browser: Browser, app: AppServer, scheme: Literal["light", "dark"]) -> None:
    """WCAG asks for a contrast of 4.5 between text and its background."""
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(app.url)
    caption = page.get_by_test_id("stCaptionContainer").first
    expect(caption).to_be_visible(timeout=PATIENCE_MS)
    color, opacity, ground = caption.evaluate(
        """element => {
          const style = getComputedStyle(element), app = document.querySelector('.stApp');
          return [style.color, Number(style.opacity), getComputedStyle(app).backgroundColor];
        }"""
    )
    text, behind = (np.array([int(part) for part in re.findall(r"\d+", each)[:3]]) for each in (color, ground))
    seen = opacity * text + (1 - opacity) * behind
    assert contrast(hex_of(seen), hex_of(behind)) >= 4.5
    context.close()


def hex_of(rgb: Any) -> str:
    return "#" + "".join(f"{round(float(part)):02x}" for part in rgb)


# Words with a letter that can be seen: without the names of icons, which the font draws as pictures.
COUNT_WORDS = """() => {
  const words = text => text.split(/\\s+/).filter(word => /[a-z]/i.test(word)).length;
  const icons = [...document.querySelectorAll('[data-testid=stIconMaterial]')];
  return words(document.body.innerText) - icons.reduce((sum, icon) => sum + words(icon.innerText), 0);
}"""


def test_bench_says_little_before_anything_is_opened(page: Page, app: AppServer) -> None:
    """The menu and the figures' legends and axes count too."""
    open_bench(page, app)
    expect(page.get_by_role("figure", name="Planned slot timeline of continuous")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("All settings", exact=True)).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_function(
        "() => document.querySelectorAll('.js-plotly-plot .legend').length === 2", timeout=PATIENCE_MS
    )
    words = page.evaluate(COUNT_WORDS)
    assert 50 < words < 150


def test_from_a_scenario_to_the_measured_timelines_and_the_comparison(page: Page, app: AppServer) -> None:
    open_bench(page, app, "?model=tiny-random")
    page.get_by_role("button", name="Equal lengths").click()
    planned = page.get_by_text("Static needs 64 forward passes, continuous 64 (the same)")
    expect(planned).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("Measured as planned")).to_have_count(0)
    start(page, "Compare two engines")
    measured = page.get_by_text(re.compile("Measured as planned: static 64 forward passes in .*, continuous 64 in"))
    expect(measured).to_be_visible(timeout=2 * PATIENCE_MS)
    for engine in ("static", "continuous"):
        for what in ("Planned", "Measured"):
            expect(page.get_by_role("figure", name=f"{what} slot timeline of {engine}")).to_be_visible(
                timeout=PATIENCE_MS
            )
    page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot').length === 4", timeout=PATIENCE_MS)
    ranges = page.evaluate(
        "() => [...document.querySelectorAll('.js-plotly-plot')].map(p => p._fullLayout.xaxis.range)"
    )
    assert ranges == [[0, 64]] * 4
    slots = page.get_by_role("slider", name="Slots")
    slots.focus()
    slots.press("ArrowRight")  # other settings have no measured run
    expect(measured).to_be_hidden(timeout=PATIENCE_MS)
    slots.press("ArrowLeft")
    expect(measured).to_be_visible(timeout=PATIENCE_MS)
    open_comparison(page, PATIENCE_MS)
    expect(page.get_by_role("heading", level=1, name="Compare")).to_be_visible(timeout=PATIENCE_MS)


def test_calibrate_gives_the_plan_seconds(page: Page, lab_home: Path) -> None:
    with AppServer(lab_home) as app:
        open_bench(page, app, SHORT)
        page.get_by_role("button", name="Calibrate").click(timeout=PATIENCE_MS)
        expect(page.get_by_text(re.compile("static, planned: .* about .* TTFT"))).to_be_visible(timeout=3 * PATIENCE_MS)
        expect(page.get_by_role("button", name="Calibrate")).to_have_count(0)
        (file,) = lab_home.glob("calibrations/*.json")
        assert '"short": true' in file.read_text()


def test_a_profile_sets_published_lengths_and_names_their_source(page: Page, app: AppServer) -> None:
    open_bench(page, app, "?model=tiny-random")
    page.get_by_role("button", name="Profiles").click()
    page.get_by_role("button", name="Chat", exact=True).click()
    page.wait_for_url(lambda url: "budget=85-395" in url and "requests=10" in url, timeout=PATIENCE_MS)
    source = page.get_by_text(re.compile("Chat: Median 1,020 tokens in, 129 out, of 19,366 requests: Azure LLM"))
    expect(source).to_be_visible(timeout=PATIENCE_MS)
