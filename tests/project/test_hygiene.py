"""The project's own rules about its text: short functions, short files, words about itself alone."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.app_server import ROOT
from tests.support.project_files import tracked_python, tracked_texts

MAX_FUNCTION_LINES = 50
MAX_FILE_LINES = 450  # a guide is 400; over this a file has a second noun

# What only makes sense on one machine, in one tracker or in one conversation. Written so that no pattern finds itself.
FOREIGN = {
    "a machine's own path": re.compile(r"/(?:work|root|opt/wheels|opt/pypi)/(?!\*)|/home/\w+/"),
    "a package registry's host": re.compile(r"\bpypi[.]org|pythonhosted[.]org|deb\.debian[.]org|npmjs[.]"),
    "a tracker's number": re.compile(r"\b(?:issue|ticket|pull request)s? *#?\d|(?<![\w&\"'#/=(-])#\d{1,4}\b", re.I),
    "working notes": re.compile(r"contract" r"\.md|\.scra" r"tch|shared/(?:seeds|design|facts|asks|claims|style)"),
}


def test_texts_speak_of_the_project_alone() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {what}: {line.strip()}"
        for path in tracked_texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for what, pattern in FOREIGN.items()
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a machine's own path", "see /wo" + "rk/main/app.py"),
        ("a machine's own path", "/ro" + "ot/.cache"),
        ("a package registry's host", "https://py" + "pi.org/simple"),
        ("a tracker's number", "closes #" + "12"),
        ("a tracker's number", "as iss" + "ue 2 asks"),
        ("working notes", "see contract" + ".md"),
    ],
)
def test_foreign_text_would_be_found(what: str, text: str) -> None:
    assert FOREIGN[what].search(text)


@pytest.mark.parametrize("text", ['decode="#1d7f55"', "## 0.1.0", "page #bench", "/dev/shm", "issues a kernel"])
def test_the_projects_own_text_passes(text: str) -> None:
    assert not any(pattern.search(text) for pattern in FOREIGN.values())


def test_files_fit_a_reader() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in tracked_python()}
    assert lengths
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_functions_fit_a_screen() -> None:
    too_long = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path in tracked_python()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert not too_long, "\n".join(too_long)


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in tracked_python()
        if not path.name.startswith("__") and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("text", "home"),
    [("datetime.now(", "engine/core/run_id.py"), ("0-9A-Za-z_-]{1,64}", "engine/runlog/reader.py")],
)
def test_a_fact_has_one_home(text: str, home: str) -> None:
    names = {path.relative_to(ROOT).as_posix(): path.read_text() for path in tracked_python()}
    found = [n for n, source in names.items() if text in source and n.startswith(("engine/", "store/", "pages/"))]
    assert found == [home]


def test_pages_ask_the_store_and_write_no_sql() -> None:
    pages = [path for path in tracked_python() if path.relative_to(ROOT).as_posix().startswith("pages/")]
    found = [path.relative_to(ROOT).as_posix() for path in pages if ".cursor()" in path.read_text()]
    assert [name for name in found if not name.startswith("pages/parts/bench/")] == []
