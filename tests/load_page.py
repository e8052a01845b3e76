"""The Load page under test: the page opened, its widgets and buttons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from tests.page_app import open_page, take_in


def opened(home: Path, **query: str) -> AppTest:
    take_in(home)
    return open_page("load", **query)


def widget(app: AppTest, key: str) -> Any:
    kinds = (app.text_input, app.number_input, app.selectbox)
    return next(found for kind in kinds for found in kind if found.key == key)


def buttons(app: AppTest) -> dict[str, bool]:
    return {button.label: not button.disabled for button in app.button}
