"""Names say what a thing is about, no two classes of a layer share one, and a folder stays small enough to read."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.app_server import ROOT
from tests.support.project_files import tracked_python

VAGUE = re.compile(r"(?:^|_)(?:words|data|head|parts|facts|said|told|things)$")
WORDS_OF_A_PAGE = "tests/support/page_app.py"  # `words`, which most tests of pages call
LAYERS = ("engine", "store", "pages")
MAX_MODULES = 20  # of a folder, beside __init__ and __main__

Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def definitions() -> Iterator[tuple[Path, Named]]:
    for path in tracked_python():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Named):
                yield path, node


def test_no_name_is_vague() -> None:
    modules = [name_of(path) for path in tracked_python() if VAGUE.search(path.stem)]
    defined = [
        f"{name_of(path)}:{node.lineno}: {node.name}"
        for path, node in definitions()
        if VAGUE.search(node.name) and (name_of(path), node.name) != (WORDS_OF_A_PAGE, "words")
    ]
    assert not modules + defined, "\n".join(modules + defined)


@pytest.mark.parametrize("name", ["run_words", "_told", "RunText_head", "page_parts", "parts", "head"])
def test_a_vague_name_is_found(name: str) -> None:
    assert VAGUE.search(name)


@pytest.mark.parametrize("name", ["dataframe", "header", "words_per_s", "part_bars", "test_parts_add_up"])
def test_a_name_that_is_not_vague_passes(name: str) -> None:
    assert not VAGUE.search(name)


@pytest.mark.parametrize("layer", LAYERS)
def test_no_two_classes_of_a_layer_share_a_name(layer: str) -> None:
    files = defaultdict(list)
    for path, node in definitions():
        if isinstance(node, ast.ClassDef) and path.relative_to(ROOT).parts[0] == layer:
            files[node.name].append(name_of(path))
    assert files
    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}


def test_folders_fit_a_reader() -> None:
    modules = Counter(name_of(path.parent) for path in tracked_python() if not path.name.startswith("__"))
    assert modules["engine/core"] > 0
    assert {folder: count for folder, count in modules.items() if count > MAX_MODULES} == {}
