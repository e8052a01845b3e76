"""The Sweep and the Load page under test: open one over what is on disk, find its widgets, buttons and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from streamlit.testing.v1 import AppTest

from tests.support.page_app import open_page, take_in


def open_sweep(home: Path, **query: str) -> AppTest:
    """The page, once the store has taken in what is on disk."""
    take_in(home)
    return open_page("sweep", **query)


def open_load(home: Path, **query: str) -> AppTest:
    """As `open_sweep`."""
    take_in(home)
    return open_page("load", **query)


def widget(app: AppTest, key: str) -> Any:
    kinds = (app.text_input, app.number_input, app.selectbox)
    return next(found for kind in kinds for found in kind if str(found.key).partition(".")[2] == key)


def table(app: AppTest, column: str) -> pd.DataFrame:
    """The first table that has the column."""
    return next(frame.value for frame in app.dataframe if column in frame.value)


def buttons(app: AppTest) -> dict[str, bool]:
    return {button.label: not button.disabled for button in app.button}
