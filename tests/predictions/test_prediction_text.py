"""A prediction's text: the measured value beside its range, and the simulator's note with a command to type."""

from __future__ import annotations

from typing import Any

import pytest

from pages.parts.predictions.text import outcome_text, simulated_text
from tests.support.no_break import nb


def graded(**other: Any) -> dict[str, Any]:
    """A graded row with the columns that its text needs."""
    row = {"unit": "tokens/s", "low": 10.0, "high": 400.0, "measured": 13.04, "outcome": "held", "simulated": None}
    return row | {"question": '{"measure": "metric", "metric": "output_tokens_per_s"}'} | other


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({}, nb("13.0 tokens/s, within 10.0 to 400 tokens/s, 3.04 tokens/s above its lowest value.")),
        (
            {"experiment_kind": "repeats", "high": None},
            nb(
                "13.0 tokens/s (median over its repeats), 3.04 tokens/s above the lowest value expected, 10.0 tokens/s."
            ),
        ),
        (
            {"outcome": "missed", "high": 12.0},
            nb("13.0 tokens/s, 1.04 tokens/s (8.67 %) above the highest value expected."),
        ),
        (
            {"unit": "s", "low": 0.9, "high": 20.0},
            nb("13.0 s, within 900 ms to 20.0 s, 6.96 s below its highest value."),
        ),
        ({"high": 13.04}, nb("13.0 tokens/s, exactly at an end of the range.")),
    ],
)
def test_a_measured_figure_is_compared_with_its_range(other: dict[str, Any], text: str) -> None:
    assert outcome_text(graded(**other)) == f"Measured: {text}"


def test_the_simulators_command_is_one_that_can_be_typed() -> None:
    note = "no calibration here; run `python -m engine calibrate --model m`, or use `--hardware a10`"
    assert simulated_text(graded(simulated_note=note)) == (
        "No prediction by the simulator: no calibration here; run .venv/bin/python -m engine calibrate --model m, "
        "or use --hardware a10."
    )
