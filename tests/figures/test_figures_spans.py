"""Spans prepared for drawing: joined, closed and filled spans and hover texts, calculated by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pages.figures.timeline.spans import COLUMNS, closed_spans, fill_empty, hover_texts, merge_moves, visible_spans
from tests.support.no_break import nb

# lane, slot, request, phase, start_step, end_step, start_s, end_s, prompt_tokens, tokens_so_far
MOVED = [
    (0, 3, 5, "prefill", 4.0, 4.5, 0.40, 0.50, 47, 1),
    (0, 3, 5, "decode", 4.5, 7.0, 0.50, 0.80, 47, 4),
    (0, 1, 5, "decode", 7.0, 9.0, 0.80, 1.00, 47, 6),
    (0, 0, 5, "decode", 9.0, 10.0, 1.00, 1.10, 47, 7),
    (1, 2, 8, "decode", 4.0, 6.0, 0.40, 0.70, 12, 9),
]


def frame(rows: list[tuple[object, ...]]) -> pd.DataFrame:
    columns = list(COLUMNS)
    return pd.DataFrame(rows, columns=columns[: len(rows[0])] if rows else columns)


def test_a_slot_move_is_one_span_that_names_its_slots() -> None:
    merged = merge_moves(closed_spans(frame(MOVED)))
    assert merged[["lane", "phase", "start_step", "end_step", "slots"]].values.tolist() == [
        [0, "prefill", 4.0, 4.5, "3"],
        [0, "decode", 4.5, 10.0, "3, then 1, then 0"],
        [1, "decode", 4.0, 6.0, "2"],
    ]
    assert merged["tokens_so_far"].tolist() == [1, 7, 9]
    assert merged["end_s"].tolist() == [0.5, 1.1, 0.7]


def test_spans_apart_or_of_other_requests_or_phases_are_not_joined() -> None:
    rows = [
        (0, 0, 1, "decode", 0.0, 2.0, 0.0, 0.2, 5, 2),
        (0, 0, 1, "decode", 3.0, 4.0, 0.3, 0.4, 5, 3),  # a step later
        (0, 0, 2, "decode", 4.0, 5.0, 0.4, 0.5, 5, 1),  # another request
        (0, 0, 2, "dead", 5.0, 6.0, 0.5, 0.6, 5, 1),  # another phase
    ]
    assert len(merge_moves(closed_spans(frame(rows)))) == 4


def test_an_open_span_ends_at_the_latest_known_time() -> None:
    rows = [
        (0, 0, 1, "decode", 0.0, None, 0.0, None, 5, 2),
        (1, 1, 2, "decode", 0.0, 6.0, 0.0, 0.9, 5, 7),
        (2, 2, 3, "prefill", 7.0, None, 1.0, None, 5, None),
    ]
    closed = closed_spans(frame(rows))
    assert closed["end_step"].tolist() == [7.0, 6.0, 7.0]
    assert closed["end_s"].tolist() == [1.0, 0.9, 1.0]


def test_every_gap_is_filled_once_in_the_log_or_not() -> None:
    rows = [
        (0, 0, 1, "decode", 0.0, 4.0, 0.0, 0.4, 5, 4),
        (0, None, None, "empty", 4.0, 6.0, 0.4, 0.6, None, None),
        (0, 0, 2, "decode", 6.0, 10.0, 0.6, 1.0, 5, 4),
        (1, 1, 3, "decode", 2.0, 3.0, 0.2, 0.3, 5, 1),
    ]
    filled = fill_empty(merge_moves(closed_spans(frame(rows))), 3, "step")
    empty = filled[filled["phase"] == "empty"].sort_values(["lane", "start_step"])
    assert empty[["lane", "start_step", "end_step"]].values.tolist() == [
        [0, 4.0, 6.0],
        [1, 0.0, 2.0],
        [1, 3.0, 10.0],
        [2, 0.0, 10.0],  # a lane that no request ever had
    ]


def test_idle_time_is_a_gap_in_seconds_though_no_step_passed() -> None:
    rows = [
        (0, 0, 1, "decode", 0.0, 4.0, 0.0, 0.4, 5, 4),
        (0, 0, 2, "decode", 4.0, 5.0, 2.0, 2.1, 5, 1),
        (0, 0, 3, "decode", 5.0, 6.0, 2.1001, 2.2, 5, 1),  # 0.1 ms between two passes is not idle
    ]
    merged = merge_moves(closed_spans(frame(rows)))
    assert "empty" not in set(fill_empty(merged, 1, "step")["phase"])
    in_seconds = fill_empty(merged, 1, "second")
    assert in_seconds.loc[in_seconds["phase"] == "empty", ["start_s", "end_s"]].values.tolist() == [[0.4, 2.0]]


def test_hover_has_request_tokens_steps_seconds_and_slots() -> None:
    texts = hover_texts(merge_moves(closed_spans(frame(MOVED))))
    assert texts[1] == (
        nb(
            "<b>request 5</b>, decode<br>47 prompt tokens, 7 tokens so far<br>steps 4 to 9"
            "<br>500 ms to 1.10 s (600 ms)<br>lane 0, slot 3, then 1, then 0"
        )
    )
    assert "step 4<br>" in texts[0]
    assert "1 token so far" in texts[0]


def test_hover_of_dead_and_empty_explains_them() -> None:
    rows = [(0, 0, 1, "dead", 0.0, 1.0, 0.0, 0.1, 5, 2), (1, 1, 2, "decode", 0.0, 2.0, 0.0, 0.2, None, None)]
    texts = hover_texts(fill_empty(merge_moves(closed_spans(frame(rows))), 2, "step"))
    assert texts[0].startswith("<b>request 1</b>, dead: already finished<br>")
    assert "token counts not known yet" in texts[1]
    assert texts[2].startswith("<b>empty: no request</b><br>step 1<br>")


def test_a_window_shows_the_spans_that_overlap_it() -> None:
    spans = closed_spans(frame(MOVED))
    assert visible_spans(spans, "step", (7.0, 9.0))["start_step"].tolist() == [7.0]
    assert visible_spans(spans, "second", (0.75, 0.85))["start_step"].tolist() == [4.5, 7.0]
    assert len(visible_spans(spans, "step", None)) == 5


@pytest.mark.parametrize("rows", [[], [(0, 0, None, "empty", 0.0, 1.0, 0.0, 0.1, None, None)]])
def test_no_requests_give_no_spans(rows: list[tuple[object, ...]]) -> None:
    merged = merge_moves(closed_spans(frame(rows)))
    assert merged.empty
    assert fill_empty(merged, 4, "step").empty
    assert closed_spans(pd.DataFrame()).empty


def test_nullable_integer_columns_of_a_database_are_accepted() -> None:
    spans = frame(MOVED).astype({"slot": "Int32", "request_id": "Int32", "tokens_so_far": "Int64"})
    spans.loc[0, "tokens_so_far"] = pd.NA
    texts = hover_texts(merge_moves(closed_spans(spans)))
    assert texts[0].startswith("<b>request 5</b>, prefill<br>47 prompt tokens<br>")
    assert np.isfinite(merge_moves(closed_spans(spans))["end_s"]).all()


def test_chunks_of_a_prefill_stay_separate_and_are_numbered() -> None:
    rows = [
        (0, 0, 3, "prefill", 0.0, 1.0, 0.0, 0.1, 40, 0, 0),
        (0, 0, 3, "prefill", 1.0, 2.0, 0.1, 0.2, 40, 0, 1),
        (0, 0, 3, "prefill", 2.0, 3.0, 0.2, 0.3, 40, 1, 2),
        (0, 0, 3, "decode", 3.0, 4.0, 0.3, 0.4, 40, 2, None),
        (0, 0, 3, "decode", 4.0, 5.0, 0.4, 0.5, 40, 3, None),
    ]
    merged = merge_moves(closed_spans(frame(rows)))
    assert merged[["start_step", "end_step"]].values.tolist() == [[0, 1], [1, 2], [2, 3], [3, 5]]
    texts = hover_texts(merged)
    assert [text.split("<br>")[0] for text in texts] == [
        "<b>request 3</b>, prefill, chunk 1",
        "<b>request 3</b>, prefill, chunk 2",
        "<b>request 3</b>, prefill, chunk 3",
        "<b>request 3</b>, decode",
    ]
