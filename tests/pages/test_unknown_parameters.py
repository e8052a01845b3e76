"""Parameters that a page does not know are named in one line; every saved link is known."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from pages.parts.shared.widgets import NAMES, unknown_text
from tests.pages.test_old_links import full_home, open_link  # noqa: F401 - the fixture of a full home
from tests.pages.test_page_state import CHANGED
from tests.support.page_app import words
from tests.support.page_links import LINKS

NO_SETTING = "This page has no setting"


def names_of(app: AppTest) -> set[str]:
    """What the page has declared as the names of its address."""
    return set(app.session_state["lab.visit"].notes[NAMES])


@pytest.mark.parametrize("page", CHANGED)
def test_an_unknown_parameter_is_named(page: str, full_home: object) -> None:  # noqa: F811
    text = words(open_link(f"{page}?zzz=1"))
    assert f"{NO_SETTING} zzz, as in the link." in text


@pytest.mark.parametrize("page", CHANGED)
def test_every_setting_of_a_page_is_declared(page: str, full_home: object) -> None:  # noqa: F811
    app = open_link(f"{page}?{CHANGED[page]}")
    assert set(app.session_state["lab.visit"].settings) <= names_of(app)
    assert set(app.query_params) <= names_of(app)


@pytest.mark.parametrize("link", [link for link, _ in LINKS])
def test_saved_links_have_no_unknown_parameter(link: str, full_home: object) -> None:  # noqa: F811
    assert NO_SETTING not in words(open_link(link))


def test_the_line_stays_until_the_visitor_leaves(full_home: object) -> None:  # noqa: F811
    app = open_link("memory?hardware=zzz")
    app.query_params.clear()
    assert f"{NO_SETTING} hardware" in words(app.run())
    assert NO_SETTING not in words(app.switch_page("pages/what_if.py").run())


def test_a_like_name_is_suggested() -> None:
    assert unknown_text(["run"], ("run_id", "unit")) == (
        "This page has no setting run, as in the link. Did you mean run_id?"
    )
    assert unknown_text(["slot", "zzz"], ("slots",)) == (
        "This page has no setting slot or zzz, as in the link. Did you mean slots?"
    )
    many = unknown_text([f"{n}{n}{n}" for n in range(7)], ())
    assert many == "This page has no setting 000 or 111 or 222 or 333 or 444 or 2 more, as in the link."
