"""How many runs of an experiment began on a busy machine, from each run's log, valid or not."""

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
def test_the_load_is_read_if_logged(environment: Any, load: tuple[float, int] | None) -> None:
    assert load_of({"environment": environment}) == load
    assert load_of({}) is None


def test_busy_runs_are_counted_among_those_with_a_known_load() -> None:
    # 1.5 per core is the load of a run and the run before it.
    assert busy_machine_text([(3.0, 2), None, (0.1, 2)]) == ""
    assert busy_machine_text([(3.1, 2), None, (0.1, 2), (7.25, 2)]) == (
        "The machine was busy when 2 of 3 runs began (load up to 7.25 on 2 cores): "
        "timings may include other processes' work."
    )
    assert busy_machine_text([]) == ""
