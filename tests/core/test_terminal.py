"""Tables on the terminal: columns of equal width, every cell whole, and every cell there where tabulate is missing."""

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


def test_a_cell_is_neither_read_nor_cut_nor_marked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal's width is not asked for: what is piped into a file is as wide as it has to be."""
    monkeypatch.setenv("COLUMNS", "20")
    cells = ["1e3", "[red]007[/red]", "x" * 500, "5 "]
    assert table_lines([cells, ["", "", "", ""]], "lllr") == [f"1e3  [red]007[/red]  {'x' * 500}  5", ""]


def test_where_tabulate_is_missing_every_cell_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tabulate", None)
    assert table_lines([["static", "7"]], "lr", ["engine", "n"]) == ["engine  n", "static  7"]
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "the columns are not aligned: tabulate is missing, `pip install tabulate` adds it\n"


def test_tabulate_is_loaded_for_a_table_alone() -> None:
    """`--json` asks for no table, and a machine that only measures needs no tabulate."""
    code = "import sys; sys.modules['tabulate'] = None; from engine.cli import main; main(['models', '--json'])"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("[{")
