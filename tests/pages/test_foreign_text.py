"""Text from elsewhere stays text: in Markdown, buttons, tooltips, HTML and figures of every page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from google.protobuf.message import Message
from streamlit.testing.v1 import AppTest

from pages.parts.shared.lab import lab
from tests.pages.test_old_links import open_link
from tests.pages.test_pages_query import settled
from tests.support.page_app import figures
from tests.support.runs.hostile_texts import EVIL, write_hostile_home

# What Streamlit shows as it is: values of inputs, options of menus, code, tables, files, and names for the computer.
LITERAL = {
    ("bidi_component", "json"),  # components draw texts as text nodes
    ("text_input", "default"), ("text_area", "default"), ("text_input", "value"), ("text_area", "value"),
    ("selectbox", "options"), ("multiselect", "options"), ("selectbox", "raw_value"), ("multiselect", "raw_values"),
    ("code", "code_text"), ("plotly_chart", "alt"),
    ("dataframe", "columns"), ("download_button", "url"), ("page_link", "query_string"),
}  # fmt: skip
SPAN = re.compile(r"`[^`]*`")
RAW_MARKDOWN = re.compile(r"(?<!\\)(\*evil|\$evil|\[evil|<u>)")
RAW_HTML = re.compile(r"<u>|</u>")


@pytest.fixture(scope="module", autouse=True)
def hostile_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(home))
        write_hostile_home(home)
        yield home
        lab().close()
        st.cache_resource.clear()
        st.cache_data.clear()


def texts(message: Message, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every text of a message with the names of the fields that lead to it."""
    for field, value in message.ListFields():
        for each in value if field.is_repeated else [value]:
            if isinstance(each, str):
                yield (*path, field.name), each
            elif isinstance(each, Message):
                yield from texts(each, (*path, field.name))


def leaks(app: AppTest) -> list[str]:
    """Each place where foreign text is drawn as anything but text."""
    assert not app.exception, app.exception[0].value
    found = []
    for node in app._tree:
        kind, proto = node.type, getattr(node, "proto", None)
        if not isinstance(proto, Message):
            continue
        for path, text in texts(proto):
            if (kind, path[-1]) in LITERAL or path[-1] in ("id", "element_id", "form_id", "user_key"):
                continue
            drawn = figure_strings(text) if kind == "plotly_chart" and path[-1] == "spec" else [text]
            rule = RAW_HTML if kind in ("plotly_chart", "html") else RAW_MARKDOWN
            found += [f"{kind}.{'.'.join(path)}: {each[:300]}" for each in drawn if rule.search(SPAN.sub("", each))]
    return found


def figure_strings(spec: str) -> Iterator[str]:
    """Every text that Plotly draws. `meta` is for pictures, whose script escapes it."""
    figure = json.loads(spec)
    figure.get("layout", {}).pop("meta", None)
    return strings(figure)


def strings(value: Any) -> Iterator[str]:
    """Every text within a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


PAGES = [
    "run?run_id=h1", "run?run_id=h3&unit=seconds", "run?run_id=h4", "run?run_id={evil}",
    "compare?runs=h1,h2", "compare?runs=h1,h2&anyway=true", "compare?runs=h1,h2,h3,h4&anyway=true",
    "compare?runs=h1,{evil}",
    "repeats", "repeats?experiment={evil}&metric={evil}", "sweep", "sweep?experiment={evil}&model={evil}",
    "load", "load?experiment={evil}&model={evil}&at={evil}", "memory", "memory?model={evil}&card={evil}",
    "roofline?run=h1", "roofline?runs=h1,h2,h3", "roofline?experiment=rep1", "roofline?run={evil}&card={evil}",
    "what_if?model={evil}&card={evil}", "predictions", "predictions?show={evil}&prediction={evil}",
    "history", "history?text={evil}&engine={evil}&tag={evil}&since={evil}", "query", "query?question={evil}",
    "query?sql={evil}", "glossary?term={evil}", "bench?model={evil}&engine={evil}&budget={evil}&mix={evil}",
    "bench?prompts=lengths&mix={evil}&arrival={evil}", "bench?job={evil}", "bench?{evil}={evil}",
]  # fmt: skip


def test_an_answer_is_drawn_as_text() -> None:
    """Column names, values and errors of a query, in its chart, caption, table and message."""
    app = open_link("query")
    quoted = EVIL.replace('"', '""')
    app.text_area(key="query.sql").set_value(
        f"""SELECT '{EVIL}' || n AS "{quoted}", n AS "{quoted}2" FROM range(3) t(n)"""
    )
    next(button for button in app.button if button.label == "Run").click()
    app = settled(app.run())
    assert figures(app)
    found = leaks(app)
    assert not found, "\n".join(found)
    app.text_area(key="query.sql").set_value(f'SELECT "{quoted}" FROM runs')
    next(button for button in app.button if button.label == "Run").click()
    found = leaks(settled(app.run()))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("link", PAGES)
def test_foreign_text_is_drawn_as_text(link: str) -> None:
    found = leaks(open_link(link.replace("{evil}", EVIL)))
    assert not found, "\n".join(found)
