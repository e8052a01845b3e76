"""The lab's scripts in a page: pictures of figures with title and caption, and CSV files of tables. They work offline.

app.py draws them once; reports contain the same ones.
"""

from __future__ import annotations

import json
from pathlib import Path

import streamlit as st

from engine.core.format import FORMULA_SIGNS

FOLDER = Path(__file__).parent


def draw_page_scripts() -> None:
    """Put the scripts into the page. Each of them starts once, however often the page is drawn."""
    scripts = (script("picture.js"), script("figure_downloads.js"), table_script())
    st.html(f"<script>{''.join(scripts)}</script>", unsafe_allow_javascript=True)


def table_script() -> str:
    """The script of tables, with the signs that begin a formula."""
    return script("table_csv.js").replace("LAB_FORMULA_SIGNS", json.dumps(FORMULA_SIGNS))


def script(name: str) -> str:
    """A script of the lab by its file's name."""
    return (FOLDER / name).read_text(encoding="utf-8")
