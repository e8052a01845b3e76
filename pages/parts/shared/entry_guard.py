"""Every page is entered through app.py, also when a page's link is the first request of a fresh app.

Until app.py has named its pages, Streamlit treats each file in pages/ as an app of its own and runs it without app.py:
without the navigation, the layout, or the message about a store that another app holds. So app.py marks the pages that
it runs, and a page that runs without the mark runs app.py.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

APP = Path(__file__).resolve().parents[3] / "app.py"
_is_entered: ContextVar[bool] = ContextVar("is_entered", default=False)  # per script run of a visitor


def enter(run_page: Callable[[], None]) -> None:
    """For app.py: run the file of the page that the address names."""
    token = _is_entered.set(True)
    try:
        run_page()
    finally:
        _is_entered.reset(token)


def entry_guard(render: Callable[[], None]) -> None:
    """For a page's last line: draw the page, or run app.py where Streamlit runs the page's file by itself."""
    if _is_entered.get():
        render()
    else:
        runpy.run_path(str(APP), run_name="__main__")
