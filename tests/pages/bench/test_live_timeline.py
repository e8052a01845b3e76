"""The live timeline: bars from spans by hand, a constant height, and escaped text."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from pages.parts.bench.live_timeline import MAX_BARS, join_spans, live_timeline

NOTHING = pd.DataFrame()


def spans(*rows: tuple[int, float, float | None, str, int | None]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["lane", "start_step", "end_step", "phase", "request_id"])
    return frame.assign(tokens_so_far=7)


def shape(bars: list) -> list[tuple[int, float, float, str, int | None]]:
    return [(bar.lane, bar.start, bar.end, bar.phase, bar.request) for bar in bars]


def test_open_spans_end_at_the_newest_step_and_a_move_is_joined() -> None:
    frame = spans(
        (1, 0.0, 0.5, "prefill", 3),
        (1, 0.5, 4.0, "decode", 3),
        (1, 4.0, None, "decode", 3),
        (0, 0.0, 9.0, "decode", 2),
        (0, 9.0, None, "dead", 2),
        (2, 0.0, None, "empty", None),
    )
    assert shape(join_spans(frame, (0, 10), 3)) == [
        (0, 0.0, 9.0, "decode", 2),
        (0, 9.0, 9.0, "dead", 2),
        (1, 0.0, 0.5, "prefill", 3),
        (1, 0.5, 9.0, "decode", 3),
    ]


def test_places_are_shares_of_the_window() -> None:
    text = live_timeline(spans((0, 5.0, 10.0, "decode", 4)), NOTHING, window=(0, 20), num_lanes=1, title="static")
    assert '<div class="decode" style="left:25.000%;width:25.000%"' in text
    assert 'title="request 4: decode, 7 tokens so far, steps 5 to 10">4</div>' in text


def test_very_many_spans_become_few_bars() -> None:
    rows = [(lane, float(i), float(i + 1), "decode", i) for lane in range(4) for i in range(2000)]
    bars = join_spans(spans(*rows), (0, 2000), 4)
    assert MAX_BARS / 2 < len(bars) < MAX_BARS * 1.2
    assert bars[-1].end == 2000
    assert sum(bar.end - bar.start for bar in bars) == pytest.approx(8000)


def test_the_queue_is_drawn_while_requests_wait() -> None:
    passes = pd.DataFrame({"step": [0, 0, 1, 2, 3], "queue_depth": [4, 4, 4, 2, 0]})
    text = live_timeline(NOTHING, passes, window=(0, 4), num_lanes=1, title="static")
    columns = re.findall(r'style="left:([\d.]+)%;width:([\d.]+)%;height:(\d+)%" title="(\d+) waiting"', text)
    assert columns == [("0.000", "50.000", "100", "4"), ("50.000", "25.000", "50", "2")]


def test_empty_lanes_have_a_note() -> None:
    empty = live_timeline(NOTHING, NOTHING, window=(0, 4), num_lanes=4, title="static", note="No request <yet>.")
    assert empty.count('class="lane"') == 4
    assert "No request &lt;yet&gt;." in empty
    drawn = live_timeline(spans((0, 0.0, 1.0, "decode", 0)), NOTHING, window=(0, 4), num_lanes=4, title="x", note="No")
    assert drawn.count('class="lane"') == 4
    assert 'class="note"' not in drawn


def test_chunks_stay_separate_and_are_numbered() -> None:
    frame = spans((0, 0.0, 1.0, "prefill", 4), (0, 1.0, 2.0, "prefill", 4), (0, 2.0, 3.0, "decode", 4))
    frame = frame.assign(chunk=[0, 1, None])
    assert [(bar.start, bar.end, bar.chunk) for bar in join_spans(frame, (0, 4), 1)] == [
        (0.0, 1.0, 0),
        (1.0, 2.0, 1),
        (2.0, 3.0, None),
    ]
    text = live_timeline(frame, NOTHING, window=(0, 4), num_lanes=1, title="chunked")
    assert 'title="request 4: prefill, chunk 2, 7 tokens so far, steps 1 to 2"' in text


def test_very_narrow_bars_have_no_edge_line() -> None:
    frame = spans((0, 0.0, 1.0, "prefill", 4), (0, 1.0, 500.0, "decode", 4))
    text = live_timeline(frame, NOTHING, window=(0, 1000), num_lanes=1, title="chunked")
    assert '<div class="prefill" style="left:0.000%;width:0.100%;border:0"' in text
    assert '<div class="decode" style="left:0.100%;width:49.900%"' in text


def test_a_preemption_is_marked_in_its_lane() -> None:
    lost = pd.DataFrame({"lane": [1], "request_id": [6], "blocks": [3], "tokens": [40], "step": [2.0]})
    frame = spans((0, 0.0, 4.0, "decode", 5), (1, 0.0, 2.0, "decode", 6))
    text = live_timeline(frame, NOTHING, window=(0, 4), num_lanes=2, title="paged", preemptions=lost)
    lanes = text.split('<div class="lane">')
    assert "▼" not in lanes[1]
    mark = 'style="left:50.000%;width:0.000%" title="request 6 preempted: 3 blocks freed, 40 positions to recompute'
    assert mark in lanes[2]
    assert "▼ preempted" in lanes[0]  # the legend
    calm = live_timeline(frame, NOTHING, window=(0, 4), num_lanes=2, title="paged")
    assert "preempted" not in calm.split("<style>")[0]


def test_the_axis_has_a_title() -> None:
    assert '<div class="across">step</div>' in live_timeline(NOTHING, NOTHING, window=(0, 4), num_lanes=1, title="x")
