"""Every page is entered through app.py, also by a link that is the first thing a freshly started app is asked for.

Until app.py has named its pages once, Streamlit takes each file in pages/ for an app of its own and runs it without
app.py: without the lab's navigation, its layout, or its message about a store that is held by somebody else.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

from streamlit.runtime.pages_manager import PagesManager

APP = Path(__file__).resolve().parent.parent.parent / "app.py"


def front_door(render: Callable[[], None]) -> None:
    """Draw the page; where app.py has not run yet, run app.py, which then draws the page that the address names."""
    if PagesManager.uses_pages_directory:
        runpy.run_path(str(APP), run_name="__main__")
    else:
        render()
