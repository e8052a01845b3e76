"""The timeline as an instrument, in a real browser: click, cursor, play and step, folded lanes, links; offline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlparse

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.app_server import AppServer
from tests.support.runs.page_runs import config_of, write_run

pytestmark = pytest.mark.browser

PATIENCE_MS = 60_000
STATIC, CONTINUOUS = "Slot timeline of static", "Slot timeline of continuous"

# Where a lane and a step of a timeline are in the window.
PLACE = """(figure, [lane, step]) => {
    const plot = figure.querySelector('.js-plotly-plot'), box = plot.getBoundingClientRect();
    const {xaxis: x, yaxis: y} = plot._fullLayout;
    return [box.left + x._offset + x.d2p(step), box.top + y._offset + y.d2p(lane)];
}"""
# The step at the left edge of a drawn shape of the layer over a timeline.
STEP_OF = """(figure, name) => {
    const plot = figure.querySelector('.js-plotly-plot'), x = plot._fullLayout.xaxis;
    const shape = plot.querySelector(`.lab-overlay .${name}`);
    return shape && x.p2d(Number(shape.getAttribute('x') ?? shape.getAttribute('x1')) - x._offset);
}"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    home = tmp_path_factory.mktemp("home")
    write_run(home / "runs", "r1", "static")
    write_run(home / "runs", "r2", "continuous")
    write_run(home / "runs", "wide", "static", config=config_of("static", slots=64))
    with AppServer(home) as server:
        yield server


def timeline(page: Page, name: str) -> Locator:
    return page.get_by_role("figure", name=name, exact=True)


def open_player(page: Page, url: str) -> Locator:
    """The player of a page, when its timelines are drawn."""
    page.goto(url)
    expect(page.locator(".js-plotly-plot .lab-overlay").first).to_be_attached(timeout=PATIENCE_MS)
    player = page.get_by_role("group", name="Timeline player")
    expect(player).to_be_visible(timeout=PATIENCE_MS)
    return player


def point_at(page: Page, name: str, lane: int, step: float, *, click: bool = False) -> None:
    figure = timeline(page, name)
    figure.scroll_into_view_if_needed()
    x, y = figure.evaluate(PLACE, [lane, step])
    page.mouse.move(x, y)
    if click:
        page.mouse.click(x, y)


def step_of(page: Page, name: str, shape: str) -> float:
    found: float = timeline(page, name).evaluate(STEP_OF, shape)
    return found


def marks(page: Page, name: str) -> Locator:
    return timeline(page, name).locator(".lab-overlay .mark")


def test_a_click_marks_the_request_in_every_timeline_and_opens_its_answer(page: Page, served: AppServer) -> None:
    hosts = set()
    page.on("request", lambda request: hosts.add(urlparse(request.url).hostname))
    open_player(page, f"{served.url}/compare?runs=r1,r2")
    expect(page.get_by_text("Prompt of request")).to_have_count(0)
    point_at(page, STATIC, 0, 2.5, click=True)  # a dead slot: its request has ended
    expect(page.get_by_text("Prompt of request 0")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("Question 0?")).to_have_count(1)
    expect(page.get_by_text("2 tokens, waited 0 s, first token after 100 ms, complete after 200 ms")).to_have_count(2)
    expect(page).to_have_url(re.compile(r"[?&]request=0(&|$)"))
    # prefill, decode and dead in static; prefill and decode in continuous; two outlines each
    expect(marks(page, STATIC)).to_have_count(6)
    expect(marks(page, CONTINUOUS)).to_have_count(4)
    assert step_of(page, STATIC, "mark") == pytest.approx(0, abs=0.02)
    point_at(page, CONTINUOUS, 1, 2.5, click=True)
    expect(page.get_by_text("Prompt of request 1")).to_be_visible(timeout=PATIENCE_MS)
    expect(marks(page, STATIC)).to_have_count(4)
    page.keyboard.press("Escape")
    expect(page.get_by_text("Prompt of request")).to_have_count(0, timeout=PATIENCE_MS)
    expect(marks(page, STATIC)).to_have_count(0)
    expect(page).not_to_have_url(re.compile("request="))
    assert hosts == {"127.0.0.1"}


def test_a_link_opens_the_request_and_a_number_chooses_another(page: Page, served: AppServer) -> None:
    player = open_player(page, f"{served.url}/run?run_id=r1&request=1")
    expect(page.get_by_text("Prompt of request 1")).to_be_visible(timeout=PATIENCE_MS)
    expect(marks(page, "Slot timeline")).to_have_count(4)
    number = player.get_by_role("spinbutton", name="Request")
    expect(number).to_have_value("1")
    number.fill("0")
    number.press("Enter")
    expect(page).to_have_url(re.compile("request=0"), timeout=PATIENCE_MS)
    expect(marks(page, "Slot timeline")).to_have_count(6)
    # its time to the first token is marked in that figure, at 100 ms
    page.get_by_role("tab", name="Latencies").click()
    curve = page.locator(".st-key-run-figure_cdf_ttft")
    curve.scroll_into_view_if_needed()
    expect(curve.locator(".lab-overlay text")).to_have_text("request 0", timeout=PATIENCE_MS)


def test_the_keys_reveal_the_timelines_step_by_step(page: Page, served: AppServer) -> None:
    player = open_player(page, f"{served.url}/compare?runs=r1,r2")
    values = player.get_by_role("status")
    expect(values).to_contain_text("static")
    player.focus()
    page.keyboard.press("Home")
    expect(values).to_contain_text("up to step 0 of 3")
    expect(values.locator(".pass")).to_have_text(["no pass yet", "no pass yet"])
    page.keyboard.press("ArrowRight")
    expect(values).to_contain_text("up to step 1 of 3")
    expect(values.locator(".pass")).to_have_text(["decode · 2 rows · 0 waiting · 100 ms · at 0.1 s"] * 2)
    page.keyboard.press("ArrowRight")
    second = [
        "decode · 2 rows, 1 dead · 0 waiting · 100 ms · at 0.2 s",
        "decode · 1 row · 0 waiting · 50 ms · at 0.2 s",
    ]
    expect(values.locator(".pass")).to_have_text(second)
    for name in (STATIC, CONTINUOUS):
        assert step_of(page, name, "veil") == pytest.approx(2, abs=0.02)
        assert step_of(page, name, "cursor") == pytest.approx(2, abs=0.02)
    page.keyboard.press("ArrowLeft")
    expect(values).to_contain_text("up to step 1 of 3")
    page.keyboard.press("End")
    expect(values.locator(".pass")).to_have_text(["ends at step 3", "ends at step 3"])
    expect(page.locator(".lab-overlay .veil")).to_have_count(0)


def test_play_runs_to_the_end_and_pause_stays(page: Page, served: AppServer) -> None:
    player = open_player(page, f"{served.url}/compare?runs=r1,r2")
    values = player.get_by_role("status")
    player.get_by_role("button", name="Play").click()
    expect(page.locator(".lab-overlay .veil")).to_have_count(2)
    player.get_by_role("button", name="Pause").click()
    expect(player.get_by_role("button", name="Play")).to_be_visible()
    stopped = values.inner_text()
    page.wait_for_timeout(400)
    assert values.inner_text() == stopped
    player.focus()
    page.keyboard.press("Space")
    expect(player.get_by_role("button", name="Pause")).to_be_visible()
    expect(values.locator(".pass").first).to_have_text("ends at step 3", timeout=PATIENCE_MS)
    expect(player.get_by_role("button", name="Play")).to_be_visible()


def test_one_cursor_passes_through_all_timelines(page: Page, served: AppServer) -> None:
    player = open_player(page, f"{served.url}/compare?runs=r1,r2")
    point_at(page, CONTINUOUS, 1, 1.5)
    expect(player.get_by_role("status")).to_contain_text("step 1")
    for name in (STATIC, CONTINUOUS):
        expect(timeline(page, name).locator(".cursor")).to_have_count(1)
        assert step_of(page, name, "cursor") == pytest.approx(1.5, abs=0.05)
    # the pass of step 1, which begins at 0.2 s in both
    expect(player.locator(".pass").last).to_have_text("decode · 1 row · 0 waiting · 50 ms · at 0.2 s")
    expect(page.locator(".hoverlayer .hovertext").first).to_be_visible()  # Plotly's own text stays
    page.mouse.move(2, 2)
    expect(page.locator(".lab-overlay .cursor")).to_have_count(0)


def test_in_seconds_a_step_is_the_next_end_of_a_pass(page: Page, served: AppServer) -> None:
    player = open_player(page, f"{served.url}/compare?runs=r1,r2&unit=seconds")
    values = player.get_by_role("status")
    player.focus()
    page.keyboard.press("Home")
    for at in ("0.1", "0.2", "0.25", "0.3", "0.4"):  # static ends passes at 0.1 s steps, continuous also at 0.25 s
        if at == "0.4":
            expect(values.locator(".pass").last).to_have_text("decode · 1 row · 0 waiting · 50 ms · step 2")
        page.keyboard.press("ArrowRight")
        if at != "0.4":
            expect(values).to_contain_text(f"{at} s of 0.4 s")
    expect(values.locator(".pass").first).to_have_text("ends at 0.4 s")


def test_unused_lanes_open_by_a_switch_and_by_a_link(page: Page, served: AppServer) -> None:
    open_player(page, f"{served.url}/run?run_id=wide")
    figure = timeline(page, "Slot timeline")
    expect(figure).to_contain_text("62 more lanes were never used")
    page.get_by_text("Show 62 unused lanes").click()
    expect(page).to_have_url(re.compile("lanes=all"), timeout=PATIENCE_MS)
    expect(figure).not_to_contain_text("never used", timeout=PATIENCE_MS)
    open_player(page, f"{served.url}/run?run_id=wide&lanes=all")
    expect(timeline(page, "Slot timeline")).not_to_contain_text("never used")


def test_without_the_player_the_timelines_are_drawn(page: Page, served: AppServer) -> None:
    page.route("**/timeline_player.js", lambda route: route.abort())
    page.goto(f"{served.url}/run?run_id=r1&request=1")
    expect(timeline(page, "Slot timeline").locator(".js-plotly-plot")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("Prompt of request 1")).to_be_visible(timeout=PATIENCE_MS)
