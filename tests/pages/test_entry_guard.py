"""Every page is entered through app.py, also as the first request of a fresh app."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.app_server import ROOT
from tests.support.page_app import open_page
from tests.support.patience import PATIENCE_S

PAGES = re.findall(r'st\.Page\("(pages/\w+\.py)"', (ROOT / "app.py").read_text(encoding="utf-8"))
SOURCES = [ROOT / "app.py", *sorted((ROOT / "pages").rglob("*.py"))]
PUBLIC = {
    "streamlit",
    "streamlit.delta_generator",  # for annotations only
}

PRIVATE = {
    "pages/parts/shared/page_state.py": ["streamlit.runtime.scriptrunner"],  # held by test_page_state
    "pages/parts/shared/components/registration.py": [  # held by test_browser_timeline and test_browser_query
        "streamlit.errors",
        "streamlit.components.v2.get_bidi_component_manager",
        "streamlit.components.v2.manifest_scanner",
    ],
}


def test_the_app_names_its_pages() -> None:
    assert len(PAGES) >= 6


@pytest.mark.parametrize("path", PAGES)
def test_a_page_ends_with_the_entry_guard(path: str) -> None:
    """Without it, a fresh app runs this page without app.py."""
    assert (ROOT / path).read_text(encoding="utf-8").rstrip().endswith("\nentry_guard(render)")


def test_a_page_requested_first_has_the_labs_layout(home: Path) -> None:
    """In a fresh app Streamlit does not know app.py's pages yet, and runs the page's file by itself."""
    for app in (open_page("glossary"), open_page("glossary").run()):
        assert [title.value for title in app.title] == ["Glossary"]
        assert not app.exception
        assert ".stMainBlockContainer" in str([element.proto.body for element in app.get("html")])


def test_a_page_that_runs_without_app_py_runs_app_py(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit treats files in pages/ as pages until app.py names its own. If this fails, Streamlit has changed: check
    whether pages.parts.shared.entry_guard is still needed."""
    monkeypatch.setattr("pages.parts.shared.entry_guard.APP", ROOT / "tests" / "no_app.py")
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S)
    app.switch_page("pages/glossary.py")
    app.run()
    assert "no_app.py" in str(app.exception[0].value)


def private_names(source: Path) -> list[str]:
    """What a file uses of Streamlit that is not documented: its submodules, and names that begin with `_`."""
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


def test_pages_use_documented_names_of_streamlit_only(tmp_path: Path) -> None:
    private = {str(source.relative_to(ROOT)): found for source in SOURCES if (found := private_names(source))}
    assert private == PRIVATE
    planted = tmp_path / "planted.py"
    planted.write_text(
        "import streamlit as st\nfrom streamlit.runtime import get_instance\nst._main\nst.runtime.exists()\n"
    )
    assert private_names(planted) == ["streamlit.runtime", "st._main", "st.runtime"]
