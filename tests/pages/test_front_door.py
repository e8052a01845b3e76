"""Every page with an address is entered through app.py, whichever is asked for first."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.app_server import ROOT
from tests.support.page_app import open_page

PAGES = re.findall(r'st\.Page\("(pages/\w+\.py)"', (ROOT / "app.py").read_text(encoding="utf-8"))
SOURCES = [ROOT / "app.py", *sorted((ROOT / "pages").rglob("*.py"))]
PUBLIC = {
    "streamlit",
    "streamlit.delta_generator",  # for annotations alone: the type of a container has no other name
}


def test_the_app_names_its_pages() -> None:
    assert len(PAGES) >= 6


@pytest.mark.parametrize("path", PAGES)
def test_a_page_ends_with_the_front_door(path: str) -> None:
    """Without it, a fresh app that is asked for this page shows its files as pages, and not the lab."""
    assert (ROOT / path).read_text(encoding="utf-8").rstrip().endswith("\nfront_door(render)")


def test_a_page_that_is_asked_for_first_comes_with_the_lab_around_it(home: Path) -> None:
    """As in a fresh app: Streamlit has not heard of app.py's pages, and runs the page's file by itself."""
    for app in (open_page("glossary"), open_page("glossary").run()):
        assert [title.value for title in app.title] == ["Glossary"]
        assert not app.exception
        assert ".stMainBlockContainer" in str([element.proto.body for element in app.get("html")])


def test_a_file_that_streamlit_runs_without_app_py_does_run_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit takes files in pages/ for pages until app.py names its own. Where this fails, it no longer does, or
    enters a page otherwise: see whether pages.parts.shared.front_door is still needed."""
    monkeypatch.setattr("pages.parts.shared.front_door.APP", ROOT / "tests" / "no_app.py")
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    app.switch_page("pages/glossary.py")
    app.run()
    assert "no_app.py" in str(app.exception[0].value)


def private_names(source: Path) -> list[str]:
    """What a file takes from Streamlit beside what is documented: modules below it, and names that begin with `_`."""
    found = []
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.startswith("streamlit.")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "streamlit":
            found += [] if node.module in PUBLIC else [str(node.module)]
            found += [name.name for name in node.names if name.name.startswith("_")]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "st":
            found += [f"st.{node.attr}"] if node.attr.startswith("_") or node.attr == "runtime" else []
    return found


def test_the_pages_keep_to_what_streamlit_documents(tmp_path: Path) -> None:
    private = {str(source.relative_to(ROOT)): found for source in SOURCES if (found := private_names(source))}
    assert private == {}
    planted = tmp_path / "planted.py"
    planted.write_text(
        "import streamlit as st\nfrom streamlit.runtime import get_instance\nst._main\nst.runtime.exists()\n"
    )
    assert private_names(planted) == ["streamlit.runtime", "st._main", "st.runtime"]
