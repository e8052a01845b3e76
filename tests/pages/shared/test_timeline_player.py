"""What the timeline player is given: the passes under its cursor, a request's marks and wait, and what a click hits."""

from __future__ import annotations

import pandas as pd
import pytest

from pages.figures.timeline.spans import COLUMNS
from pages.parts.shared.components.timeline_player import (
    MOST_PASSES,
    marks_of,
    pass_values,
    request_at,
    wait_of,
)

# Step 0 has a prefill and a decode pass, step 1 one decode pass with a dead row.
PASSES = pd.DataFrame(
    {
        "step": [0, 0, 1],
        "kind": ["prefill", "decode", "decode"],
        "start_s": [0.0, 0.1, 0.3],
        "end_s": [0.1, 0.3, 0.35],
        "rows": [2, 2, 2],
        "live_rows": [2, 2, 1],
        "queue_depth": [1, 1, 0],
    }
)


def spans(*rows: tuple[int, int | None, str, float, float]) -> pd.DataFrame:
    """Rows of lane, request, phase, start and end in steps; seconds are a tenth of the steps."""
    table = [
        (lane, lane, request, phase, start, end, start / 10, end / 10, 16, 1, None)
        for lane, request, phase, start, end in rows
    ]
    return pd.DataFrame(table, columns=list(COLUMNS))


SPANS = spans((0, 0, "prefill", 0, 0.5), (0, 0, "decode", 0.5, 2), (0, 0, "dead", 2, 4), (1, 1, "decode", 1, 3))


def test_the_passes_by_step_have_their_seconds() -> None:
    assert pass_values(PASSES, "step") == {
        "end": 2.0,
        "thinned": False,
        "x": [0.0, 0.5, 1.0],
        "kind": ["prefill", "decode", "decode"],
        "rows": [2, 2, 2],
        "live": [2, 2, 1],
        "queue": [1, 1, 0],
        "ms": [100.0, 200.0, 50.0],
        "other": [0.0, 0.1, 0.3],
    }


def test_the_passes_by_second_have_their_steps_and_a_plan_has_no_times() -> None:
    by_second = pass_values(PASSES, "second")
    assert (by_second["x"], by_second["other"], by_second["end"]) == ([0.0, 0.1, 0.3], [0, 0, 1], 0.35)
    planned = pass_values(PASSES, "pass")
    assert (planned["x"], planned["ms"], planned["other"]) == ([0.0, 0.5, 1.0], [], [])


def test_no_pass_and_a_pass_that_still_runs_are_left_out() -> None:
    nothing = pass_values(PASSES.head(0), "step")
    assert nothing["end"] == 0
    assert nothing["x"] == []
    assert pass_values(PASSES.assign(end_s=[0.1, 0.3, None]), "step")["x"] == [0.0, 0.5]


def test_many_passes_are_thinned_and_keep_the_end() -> None:
    count = 3 * MOST_PASSES
    many = pd.DataFrame({"step": range(count), "start_s": [i / 100 for i in range(count)], "kind": "decode"})
    many = many.assign(end_s=many["start_s"] + 0.01, rows=1, live_rows=1, queue_depth=0)
    values = pass_values(many, "step")
    assert 0 < len(values["x"]) <= MOST_PASSES
    assert values["end"] == count
    assert values["thinned"]


def test_the_marks_of_a_request_include_its_dead_span() -> None:
    assert marks_of(SPANS, 0, "step") == [(0, 0.0, 0.5), (0, 0.5, 2.0), (0, 2.0, 4.0)]
    assert marks_of(SPANS, 1, "second") == [(1, pytest.approx(0.1), pytest.approx(0.3))]
    assert marks_of(SPANS, 2, "step") == []
    assert marks_of(SPANS.head(0), 0, "step") == []


@pytest.mark.parametrize(
    ("lane", "at", "request_id"),
    [(0, 0.2, 0), (0, 3.9, 0), (0, 4.5, None), (1, 0.5, None), (1, 1.5, 1), (2, 1.0, None)],
)
def test_a_click_hits_the_request_that_holds_the_lane(lane: int, at: float, request_id: int | None) -> None:
    assert request_at(SPANS, lane, at, "step") == request_id
    assert request_at(SPANS, lane, at / 10, "second") == request_id


def test_where_two_spans_touch_the_later_one_is_hit() -> None:
    touching = spans((0, 3, "decode", 0, 2), (0, 4, "prefill", 2, 3))
    assert request_at(touching, 0, 2.0, "step") == 4


def test_a_request_waits_from_its_arrival_to_its_first_span() -> None:
    marks = [(0, 1.0, 2.0)]
    # it arrives at 0.05 s: the next pass begins at 0.1 s, which is the position 0.5 on the axis of steps
    assert wait_of(PASSES, marks, 0.05, "step") == (0.5, 1.0)
    assert wait_of(PASSES, [(0, 0.3, 0.35)], 0.05, "second") == (0.05, 0.3)
    assert wait_of(PASSES, marks, 0.3, "step") is None
    assert wait_of(PASSES, [], 0.0, "step") is None
