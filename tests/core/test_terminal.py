"""Tables on the terminal: aligned columns, complete cells, also without tabulate."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine.core.terminal import table_lines
from tests.support.app_server import ROOT


def test_columns_are_of_equal_width_two_spaces_apart() -> None:
    assert table_lines([["static", "7", "x"], ["a", "1,234", ""]], "lrl", ["engine", "n", ""]) == [
        "engine      n",
        "static      7  x",
        "a       1,234",
    ]


def test_without_a_header_and_without_rows() -> None:
    assert table_lines([["a", "b"]], "ll") == ["a  b"]
    assert table_lines([], "ll", ["a", "b"]) == ["a  b"]
    assert table_lines([], "ll") == []


def test_a_cell_is_neither_parsed_nor_cut_nor_marked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal's width does not matter, so output in a file is complete."""
    monkeypatch.setenv("COLUMNS", "20")
    cells = ["1e3", "[red]007[/red]", "x" * 500, "5 "]
    assert table_lines([cells, ["", "", "", ""]], "lllr") == [f"1e3  [red]007[/red]  {'x' * 500}  5", ""]


def test_without_tabulate_every_cell_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tabulate", None)
    assert table_lines([["static", "7"]], "lr", ["engine", "n"]) == ["engine  n", "static  7"]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "the columns are not aligned: tabulate is missing, `pip install tabulate` adds it\n"


def test_tabulate_is_loaded_only_for_a_table() -> None:
    """`--json` prints no table, so a machine that only measures needs no tabulate."""
    code = "import sys; sys.modules['tabulate'] = None; from engine.cli import main; main(['models', '--json'])"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("[{")
