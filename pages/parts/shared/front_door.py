"""Every page is entered through app.py, also by a link that is the first thing a freshly started app is asked for.

Until app.py has named its pages once, Streamlit takes each file in pages/ for an app of its own and runs it without
app.py: without the lab's navigation, its layout, or its message about a store that is held by another app. So app.py
says when it runs a page, and a page that runs without that runs app.py.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

APP = Path(__file__).resolve().parents[3] / "app.py"
_is_entered: ContextVar[bool] = ContextVar("is_entered", default=False)  # of the script run of one visitor's page


def enter(run_page: Callable[[], None]) -> None:
    """For app.py: run the file of the page that the address names, which then draws itself."""
    token = _is_entered.set(True)
    try:
        run_page()
    finally:
        _is_entered.reset(token)


def front_door(render: Callable[[], None]) -> None:
    """Draw the page; where Streamlit runs its file without app.py, run app.py, which enters it again."""
    if _is_entered.get():
        render()
    else:
        runpy.run_path(str(APP), run_name="__main__")
