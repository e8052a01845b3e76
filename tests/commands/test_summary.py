"""The summary of a run on the terminal: one label, one unit and one number format for `run` and `simulate`."""

from __future__ import annotations

from typing import Any

import pytest

from engine.commands import run, simulate
from engine.commands.summary import LINES, summary_lines
from tests.support.no_break import nb

REPORT: dict[str, Any] = {
    "output_tokens": 91,
    "duration_s": 0.0438,
    "output_tokens_per_s": 5214.9,
    "ttft_p50_s": None,
    "dead_fraction": 0.0,
    "padding_fraction": 0.4375,
}


@pytest.mark.parametrize("names", [run.SUMMARY, simulate.SUMMARY])
def test_figures_are_written_in_their_units(names: tuple[str, ...]) -> None:
    texts = {line[:18].strip(): " ".join(line[18:].split(" ")).strip() for line in summary_lines(REPORT, names)}
    assert texts == {
        "output tokens": "91",
        "duration": nb("43.8 ms"),
        "throughput": nb("5,210 tokens/s"),
        "dead fraction": nb("0 %"),
        "padding fraction": nb("43.8 %"),
    }


def test_every_line_is_used() -> None:
    assert {*run.SUMMARY, *simulate.SUMMARY} == set(LINES)
