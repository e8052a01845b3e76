"""Widget values and address settings belong to their page: no page sees those of another."""

from __future__ import annotations

from dataclasses import fields
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.runtime.scriptrunner import ScriptRunContext
from streamlit.testing.v1 import AppTest

from tests.pages.test_old_links import full_home, open_link  # noqa: F401 - the fixture of a full home
from tests.support.page_links import held

# Settings of each page that are not its defaults, among them those whose name other pages use too.
CHANGED = {
    "bench": "engine=static&slots=7&model=tiny-random&prompts=lengths&mix=p32&budget=12&requests=12&dtype=fp32",
    "sweep": "engine=paged&model=tiny-random&prompts=p8&batch_size=1,2&budget=8&dtype=bf16&pool_gib=0.5&repeats=2",
    "load": "model=tiny-random&prompts=p4&budget=8&rates=4&requests=12&slots=2&ttft_within_s=0.5",
    "repeats": "metric=duration",
    "memory": "model=llama-3.1-8b&dtype=fp32&card=rtx3060&engine=chunked&budget=1&largest=64&weights=8&pool_gib=2",
    "what_if": "model=qwen2.5-1.5b&card=rtx3060&largest=8&weights=8&execution=eager&q2_a=80",
    "history": "engine=static&model=tiny-random&text=tiny&status=completed&pinned=true",
    "run": "run_id=r1&unit=seconds&ttft=admission&failures=infinite&tab=latencies",
    "compare": "runs=r1,r2&unit=seconds&itl=mean&tab=latencies",
    "roofline": "run=r1&card=h100",
    "predictions": "show=open",
    "glossary": "term=dead",
    "query": "question=waste_by_engine",
}
PLACES = {"run_id", "runs", "run", "experiment", "prediction", "question", "sql"}


def by_the_menu(app: AppTest, page: str) -> AppTest:
    """Open a page by the menu: without a query."""
    app.query_params.clear()
    return app.switch_page(f"pages/{page}.py").run()


def by_a_link(app: AppTest, link: str) -> AppTest:
    """Follow a link within the app."""
    page, _, query = link.partition("?")
    app.query_params = dict(parse_qsl(query))
    return app.switch_page(f"pages/{page}.py").run()


def settings(app: AppTest) -> dict[str, Any]:
    """The values of the page's settings, except those that name a run or an experiment."""
    assert not app.exception, app.exception[0].value
    return {name: value for name, value in held(app).items() if name not in PLACES}


@pytest.fixture(scope="module")
def defaults(full_home: object) -> dict[str, dict[str, Any]]:  # noqa: F811
    """The values of every page's settings for an empty address."""
    return {page: settings(open_link(page)) for page in CHANGED}


@pytest.mark.parametrize("first", CHANGED)
def test_every_other_page_then_opens_with_its_defaults(first: str, defaults: dict[str, dict[str, Any]]) -> None:
    app = open_link(f"{first}?{CHANGED[first]}")
    changed = settings(app)
    assert changed != defaults[first] or first == "query"
    for second in (page for page in CHANGED if page != first):
        assert settings(by_the_menu(app, second)) == defaults[second], f"{first}, then {second}"
        assert set(app.query_params) <= PLACES, f"{first}, then {second}"
    again = settings(by_a_link(app, f"{first}?{CHANGED[first]}"))
    assert {name: again.get(name) for name in changed} == changed


def test_no_two_pages_share_a_key(full_home: object) -> None:  # noqa: F811
    for page, query in CHANGED.items():
        app = open_link(f"{page}?{query}")
        kinds = (app.text_input, app.number_input, app.selectbox, app.multiselect, app.segmented_control, app.button)
        keys = [str(widget.key).removeprefix("FormSubmitter:") for kind in kinds for widget in kind if widget.key]
        assert [key for key in keys if not key.startswith(f"{page}.")] == []


def test_a_widget_writes_the_address_and_its_default_leaves_it() -> None:
    app = open_link("bench?engine=static&slots=7")
    app.number_input(key="bench.slots").set_value(9).run()
    assert app.query_params == {"engine": "static", "slots": "9"}
    app.segmented_control(key="bench.engine").set_value("continuous").run()
    app.number_input(key="bench.slots").set_value(4).run()
    assert app.query_params == {}


def test_another_address_of_the_page_sets_its_widgets() -> None:
    app = open_link("memory?card=h100&prompt=64")
    app.query_params.clear()
    app.query_params["prompt"] = "2048"
    app.run()
    assert (held(app)["card"], held(app)["prompt"]) == ("a10", 2048)


def test_a_browser_with_the_older_address_changes_nothing() -> None:
    app = open_link("bench?slots=7")
    app.number_input(key="bench.slots").set_value(9).run()
    app.query_params = {"slots": "7"}  # as the browser sends it until the new address has come
    app.number_input(key="bench.requests").set_value(3).run()
    assert (held(app)["slots"], held(app)["requests"]) == (9, 3)
    assert app.query_params == {"slots": "9", "requests": "3"}
    app.run()  # it has come
    app.query_params = {"slots": "7"}
    app.run()
    assert (held(app)["slots"], held(app)["requests"]) == (7, 8)


def test_a_default_in_a_link_is_left_out_and_a_bad_value_is_reported_once() -> None:
    app = open_link("sweep?budget=32&repeats=none&seed=5")
    assert [warning.value for warning in app.warning][0].count("repeats") == 1
    assert {name: value for name, value in app.query_params.items() if name not in PLACES} == {"seed": "5"}


def test_a_field_that_is_hidden_keeps_its_value() -> None:
    app = open_link("bench?prompts=lengths&mix=p32")
    app.segmented_control(key="bench.prompts").set_value("chat").run()
    app.segmented_control(key="bench.prompts").set_value("lengths").run()
    assert held(app)["mix"] == "p32"


def test_streamlit_marks_runs_caused_by_back_or_forward() -> None:
    assert "is_history_navigation" in {field.name for field in fields(ScriptRunContext)}


def test_back_is_followed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_link("bench?slots=7")
    app.number_input(key="bench.slots").set_value(9).run()
    monkeypatch.setattr("pages.parts.shared.page_state._is_history_step", lambda: True)
    app.query_params = {"slots": "7"}
    assert held(app.run())["slots"] == 7
