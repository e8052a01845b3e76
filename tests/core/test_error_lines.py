"""Errors in one line: bounded, with the start and the end of a long one; without numbers for the file system's."""

from __future__ import annotations

import pytest

from engine.core.errors import MAX_LINE, first_line, shortened
from engine.core.terminal import OneLineParser


def test_a_long_line_keeps_its_start_and_its_end() -> None:
    line = shortened(f"seed {'9' * 5000}: use 0 to 4294967295")
    assert len(line) <= MAX_LINE
    assert line.startswith("seed 999")
    assert line.endswith("999: use 0 to 4294967295")
    assert "…" in line
    assert shortened("x" * MAX_LINE) == "x" * MAX_LINE


def test_an_error_is_its_first_line() -> None:
    assert first_line(ValueError("first\nsecond")) == "first"
    assert first_line(ValueError()) == "ValueError"
    assert first_line(FileNotFoundError(2, "No such file or directory", "/a")) == "/a: No such file or directory"
    assert first_line(OSError("plain")) == "plain"


def test_the_command_line_bounds_what_it_repeats(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        OneLineParser(prog="lab").parse_args([f"--{'x' * 10_000}"])
    line = capsys.readouterr().err
    assert line.endswith("; see lab --help\n")
    assert len(line) < MAX_LINE + 50
