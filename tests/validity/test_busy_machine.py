"""How many of an experiment's runs began on a busy machine, from what each noted, however odd that is."""

from __future__ import annotations

from typing import Any

import pytest

from engine.validity.machine_checks import busy_machine_text, load_of


@pytest.mark.parametrize(
    ("environment", "load"),
    [
        ({"load_average_1min": 3.5, "cpu_count": 2}, (3.5, 2)),
        ({"load_average_1min": None, "cpu_count": 2}, None),
        ({"load_average_1min": 3.5, "cpu_count": 0}, None),
        ({"load_average_1min": 3.5, "cpu_count": True}, None),
        ("busy", None),
        ([1], None),
        (None, None),
    ],
)
def test_a_load_is_read_where_there_is_one(environment: Any, load: tuple[float, int] | None) -> None:
    assert load_of({"environment": environment}) == load
    assert load_of({}) is None


def test_the_busy_ones_are_counted_of_those_that_are_known() -> None:
    # One and a half a core is what a run and the one before it make by themselves.
    assert busy_machine_text([(3.0, 2), None, (0.1, 2)]) == ""
    assert busy_machine_text([(3.1, 2), None, (0.1, 2), (7.25, 2)]) == (
        "The machine was busy when 2 of 3 runs began (load up to 7.25 on 2 cores): "
        "timings may include other processes' work."
    )
    assert busy_machine_text([]) == ""
