"""The slot timeline in both densities: what is drawn where, and its axes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from pages.figures.colors import DARK, LIGHT, PHASES
from pages.figures.sample import sample_run
from pages.figures.timeline.overview import phase_shares
from pages.figures.timeline.queue import queue_from_passes
from pages.figures.timeline.spans import COLUMNS
from pages.figures.timeline.timeline import (
    NO_SPANS,
    lane_px,
    number_px,
    round_end,
    shared_range,
    slot_timeline,
    unused_lanes,
)
from tests.support.figures import json_bytes

STATIC, CONTINUOUS = sample_run("static"), sample_run("continuous")
LIMIT_BYTES = 2_000_000


def bars(figure: go.Figure) -> dict[str, go.Bar]:
    """The bar traces by the first word of their names."""
    return {trace.name.split("\u00a0")[0].split()[0]: trace for trace in figure.data if trace.type == "bar"}


def many_spans(count: int, lanes: int) -> pd.DataFrame:
    """Spans of one step, phases in turn, so dense that single ones cannot be drawn."""
    order = np.arange(count)
    lane, step = order % lanes, (order // lanes).astype(float)
    phase = np.array(["prefill", "decode", "dead"])[(order // lanes) % 3]
    columns = [lane, lane, order // lanes // 3 * lanes + lane, phase, step, step + 1, step / 50, (step + 1) / 50]
    return pd.DataFrame(dict(zip(COLUMNS[:-1], [*columns, np.full(count, 20), np.full(count, 7)], strict=True)))


def test_one_trace_per_phase_and_the_dead_area_of_the_static_sample() -> None:
    drawn = bars(slot_timeline(STATIC.spans))
    assert set(drawn) == set(PHASES)
    # requests 0..3 end at steps 19, 43, 11, 30 of a batch of 43; 4..7 at 90, 51, 78, 59 of one that ends at 90
    assert sorted(drawn["dead"].x) == [12, 13, 24, 31, 32, 39]
    assert sum(drawn["dead"].x) == 24 + 32 + 13 + 39 + 12 + 31
    assert drawn["dead"].marker.pattern.shape == "/"
    assert sum(drawn["prefill"].x) == 8 * 0.5


def test_continuous_has_no_dead_bar_but_a_legend_entry_for_it() -> None:
    drawn = bars(slot_timeline(CONTINUOUS.spans))
    assert [value for value in drawn["dead"].x if value is not None] == []
    assert all(trace.showlegend for trace in drawn.values())
    # request 4 moved from slot 3 to slot 0: still one bar of 46.5 steps
    assert 46.5 in list(drawn["decode"].x)
    assert len(drawn["decode"].x) == 8


def test_more_than_four_unused_lanes_are_one_line_of_text() -> None:
    # the sample uses lanes 0 to 3
    assert [unused_lanes(STATIC.spans, lanes) for lanes in (None, 4, 8, 9, 64)] == [0, 0, 0, 5, 60]
    four, folded = slot_timeline(STATIC.spans), slot_timeline(STATIC.spans, num_lanes=64)
    assert folded.layout.height == four.layout.height + 20
    assert list(folded.layout.yaxis.range) == pytest.approx([4 - 0.45 + 20 / 34, -0.55])
    assert list(folded.layout.yaxis.tickvals) == [0, 1, 2, 3]
    [line] = folded.layout.annotations
    assert line.text == "60 more lanes were never used"
    assert 3.5 < line.y < 4 - 0.45 + 20 / 34
    assert max(lane for trace in folded.data if trace.type == "bar" for lane in trace.y if lane is not None) == 3
    assert not four.layout.annotations


def test_unused_lanes_are_drawn_where_asked_few_or_nothing_has_run() -> None:
    assert slot_timeline(STATIC.spans, num_lanes=64, folds=False).layout.yaxis.range[0] == 64 - 0.45
    assert slot_timeline(STATIC.spans, num_lanes=8).layout.yaxis.range[0] == 8 - 0.45
    assert slot_timeline(STATIC.spans.head(0), num_lanes=64).layout.yaxis.range[0] == 64 - 0.45


def test_every_request_is_numbered_once() -> None:
    for run in (STATIC, CONTINUOUS):
        texts = [text for trace in bars(slot_timeline(run.spans)).values() for text in trace.text or () if text]
        assert sorted(texts, key=int) == [str(n) for n in range(8)]


def test_a_request_of_one_token_is_numbered_in_its_prefill() -> None:
    drawn = bars(slot_timeline(sample_run("continuous", budgets=(1, 3), slots=2).spans))
    assert [text for text in drawn["prefill"].text if text] == ["0"]
    assert [text for text in drawn["decode"].text if text] == ["1"]


def test_compared_timelines_share_one_axis() -> None:
    shared = shared_range([STATIC.spans, CONTINUOUS.spans])
    assert shared == (0.0, 90.0)
    figures = [slot_timeline(run.spans, x_range=shared) for run in (STATIC, CONTINUOUS)]
    assert {figure.layout.xaxis.range for figure in figures} == {(0.0, 90.0)}
    assert shared_range([STATIC.spans, CONTINUOUS.spans], "second") == (0.0, STATIC.spans["end_s"].max())
    assert shared_range([]) == (0.0, 1.0)


@pytest.mark.parametrize(("newest", "end"), [(0.3, 0.3), (61.0, 80.0), (80.0, 80.0), (101.0, 150.0), (9.5, 10.0)])
def test_a_live_axis_ends_at_a_round_number(newest: float, end: float) -> None:
    assert round_end(newest) == pytest.approx(end)


def test_seconds_draw_the_same_spans_by_the_clock() -> None:
    drawn = bars(slot_timeline(STATIC.spans, unit="second"))
    dead = STATIC.spans[STATIC.spans["phase"] == "dead"]
    assert sum(drawn["dead"].x) == pytest.approx((dead["end_s"] - dead["start_s"]).sum())


def test_the_height_depends_only_on_the_lanes() -> None:
    queue, none = queue_from_passes(STATIC.passes), queue_from_passes(STATIC.passes.head(0))
    heights = {
        slot_timeline(STATIC.spans, queue=queue, num_lanes=4).layout.height,
        slot_timeline(STATIC.spans, queue=none, num_lanes=4).layout.height,
        slot_timeline(STATIC.spans.head(0), queue=none, num_lanes=4).layout.height,
        slot_timeline(many_spans(30_000, 4), queue=queue, num_lanes=4).layout.height,
    }
    assert len(heights) == 1
    assert slot_timeline(STATIC.spans, num_lanes=8).layout.height == slot_timeline(STATIC.spans).layout.height + 4 * 34
    assert (lane_px(1), lane_px(4), lane_px(32), lane_px(4096)) == (34, 34, 22, pytest.approx(0.293, abs=1e-3))
    assert (number_px(lane_px(4)), number_px(lane_px(32)), number_px(lane_px(256))) == (12, 8, 0)


def test_the_queue_strip_shows_the_deepest_queue_of_the_window() -> None:
    queue = pd.DataFrame({"step": [0.0, 10.0, 20.0], "time_s": [0.0, 1.0, 2.0], "queue_depth": [7.0, 3.0, 0.0]})
    whole = slot_timeline(STATIC.spans, queue=queue)
    assert list(whole.layout.yaxis2.ticktext) == ["0", "7"]
    assert list(slot_timeline(STATIC.spans, queue=queue, x_range=(12.0, 60.0)).layout.yaxis2.ticktext) == ["0", "3"]
    strip = whole.layout.yaxis2.domain
    assert strip[0] > whole.layout.yaxis.domain[1]
    assert (strip[1] - strip[0]) < 0.3


def test_no_spans_give_a_note() -> None:
    figure = slot_timeline(STATIC.spans.head(0), note="Starts next.", num_lanes=4)
    assert "Starts next." in [a.text for a in figure.layout.annotations]
    assert slot_timeline(pd.DataFrame()).layout.annotations[0].text == NO_SPANS


@pytest.mark.parametrize("unit", ["step", "second"])
def test_dense_runs_become_a_small_overview_with_a_title_that_says_so(unit: str) -> None:
    figure = slot_timeline(many_spans(100_000, 32), unit=unit, queue=queue_from_passes(STATIC.passes))  # type: ignore[arg-type]
    assert [trace.type for trace in figure.data].count("heatmap") == 2
    assert "binned by" in figure.layout.xaxis.title.text
    assert json_bytes(figure) < LIMIT_BYTES
    assert set(bars(figure)) == set(PHASES)  # the legend's entries


def test_a_window_into_a_dense_run_shows_its_spans_again() -> None:
    figure = slot_timeline(many_spans(100_000, 32), x_range=(100.0, 150.0))
    assert "heatmap" not in {trace.type for trace in figure.data}
    assert sum(len(trace.x) for trace in bars(figure).values() if trace.x[0] is not None) == 32 * 50


@pytest.mark.parametrize(("count", "lanes"), [(3_999, 64), (4_096, 4096)])
def test_the_largest_figures_stay_small(count: int, lanes: int) -> None:
    assert json_bytes(slot_timeline(many_spans(count, lanes))) < LIMIT_BYTES


def test_phase_shares_of_bins_by_hand() -> None:
    spans = pd.DataFrame(
        {
            "lane": [0, 0, 1],
            "phase": ["prefill", "decode", "dead"],
            "start_step": [0.0, 0.5, 3.25],
            "end_step": [0.5, 3.0, 4.0],
        }
    )
    shares = phase_shares(spans, unit="step", window=(0.0, 4.0), num_lanes=2, num_bins=4)
    assert shares[:, 0].tolist() == [[0.5, 0, 0, 0], [0.5, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert shares[:, 1].tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0.75], [1, 1, 1, 0.25]]
    half = phase_shares(spans, unit="step", window=(1.0, 3.0), num_lanes=2, num_bins=1)
    assert half[:, 0, 0].tolist() == [0, 1, 0, 0]


def test_light_and_dark_differ_only_in_color() -> None:
    light, dark = (slot_timeline(STATIC.spans, dark=is_dark) for is_dark in (False, True))
    assert bars(light)["decode"].marker.color == LIGHT.decode
    assert bars(dark)["decode"].marker.color == DARK.decode
    assert light.layout.paper_bgcolor == dark.layout.paper_bgcolor == "rgba(0,0,0,0)"
    assert list(bars(light)["dead"].x) == list(bars(dark)["dead"].x)
