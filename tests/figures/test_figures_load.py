"""The figures of a load test: points, failed points, logarithmic axes, steady windows, hover texts."""

import json
import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from pages.figures.load.axes import Scale, at_rates, log_ticks, scale_of
from pages.figures.load.latency import QUEUE, TTFT, floor_text, latency_over_offered
from pages.figures.load.queue import queue_with_windows
from pages.figures.load.rates import EMPTY, GOODPUT, achieved_over_offered
from pages.figures.load.sample import CAPACITIES, RATES, sample_load, sample_queues
from tests.support.figures import json_bytes
from tests.support.no_break import nb

SAMPLE = sample_load()


def traces(figure: go.Figure) -> dict[str, dict[str, Any]]:
    """Traces by name and mode, without the spaces after legend names."""
    drawn = json.loads(figure.to_json())["data"]
    return {f"{trace['name'].strip(chr(160))} {trace['mode']}": trace for trace in drawn}


def notes(figure: go.Figure) -> list[str]:
    return [note.text for note in figure.layout.annotations]


def test_points_are_at_the_offered_rate() -> None:
    drawn = traces(achieved_over_offered(SAMPLE, CAPACITIES))
    for engine in ("static", "continuous"):
        assert drawn[f"{engine} lines+markers"]["x"] == pytest.approx([0.97 * rate for rate in RATES])
    assert drawn["static lines+markers"]["y"][2:] == pytest.approx([0.66] * 4)
    assert drawn["static markers"]["x"] == pytest.approx([0.97 * 0.9 * 0.66, 0.97 * 1.1 * 0.66])


def test_a_failed_point_is_a_cross_at_the_requested_rate() -> None:
    drawn = traces(achieved_over_offered(SAMPLE, CAPACITIES))
    assert drawn["failed markers"]["x"] == [9.0]
    assert "out of memory: prefill asked for 4.4 GiB" in drawn["failed markers"]["text"][0]
    assert "failed markers" in traces(latency_over_offered(SAMPLE, TTFT))


def test_the_diagonal_is_offered_equals_achieved_and_capacities_are_labeled_lines() -> None:
    figure = achieved_over_offered(SAMPLE, CAPACITIES)
    drawn = traces(figure)
    assert drawn["achieved = offered lines"]["x"] == drawn["achieved = offered lines"]["y"]
    assert drawn["static, capacity lines"]["y"] == [0.66, 0.66]
    assert sorted(notes(figure)) == ["capacity 0.660", "capacity 1.25"]


def test_hover_has_the_requested_the_offered_and_the_achieved_rate() -> None:
    text = traces(achieved_over_offered(SAMPLE, CAPACITIES))["continuous lines+markers"]["text"][1]
    assert text == (
        nb(
            "<b>continuous, 1 request/s requested</b><br>0.970 requests/s offered<br>0.980 requests/s achieved (101 %)"
            "<br>0.931 to 1.02 over repeats<br>the queue does not grow"
        )
    )


def test_whiskers_are_drawn_only_where_repeats_differ() -> None:
    with_whiskers = traces(achieved_over_offered(SAMPLE))["static lines+markers"]
    assert with_whiskers["error_y"]["array"] == pytest.approx([0.04 * y for y in with_whiskers["y"]])
    single = SAMPLE.assign(achieved_low_per_s=SAMPLE["achieved_per_s"], achieved_high_per_s=SAMPLE["achieved_per_s"])
    assert "error_y" not in traces(achieved_over_offered(single))["static lines+markers"]


def test_latencies_around_saturation_are_logarithmic_and_p95_is_dashed() -> None:
    figure = latency_over_offered(SAMPLE, TTFT)
    assert figure.layout.yaxis.type == "log"
    assert figure.layout.yaxis.title.text == "TTFT, p50 and p95, s, logarithmic"
    dashes = [trace.line.dash for trace in figure.data if trace.mode == "lines+markers"]
    assert dashes == ["solid", "dash", "solid", "dash"]
    waits = [trace for trace in figure.data if trace.mode == "lines+markers" and trace.line.dash == "solid"]
    assert waits[1].y[0] == pytest.approx(0.07)  # in seconds


def test_short_waits_are_in_milliseconds_on_a_linear_axis() -> None:
    mild = SAMPLE.assign(queue_wait_p50_s=[0.010 + 0.001 * i for i in range(len(SAMPLE))])
    figure = latency_over_offered(mild, QUEUE)
    assert figure.layout.yaxis.title.text == "queue wait, p50, ms"
    assert figure.layout.yaxis.type is None
    assert figure.data[0].y[0] == pytest.approx(10.0)
    assert figure.layout.yaxis.range[0] == 0.0


def test_a_wait_of_zero_is_drawn_on_a_logarithmic_axis() -> None:
    waits = SAMPLE.assign(queue_wait_p50_s=SAMPLE["queue_wait_p50_s"].where(SAMPLE["rate_per_s"] != 0.5, 0.0))
    figure = latency_over_offered(waits, QUEUE)
    assert figure.layout.yaxis.type == "log"
    assert all(y is None or (y > 0 and math.isfinite(y)) for trace in figure.data for y in trace.y)
    assert floor_text(waits, QUEUE) == nb("Values below 1 ms are drawn at the lower edge.")
    assert floor_text(SAMPLE, QUEUE) == ""


def test_hollow_marks_have_a_legend_entry_where_there_are_any() -> None:
    def names(rows: pd.DataFrame) -> list[str]:
        figures = (achieved_over_offered(rows), latency_over_offered(rows, QUEUE))
        return [trace.name for figure in figures for trace in figure.data if trace.showlegend is not False]

    assert [name.strip() for name in names(SAMPLE)].count("near capacity") == 2
    assert not any("near capacity" in name for name in names(SAMPLE[SAMPLE["role"] == "rate"]))


def test_goodput_is_drawn_the_same_way_without_capacities() -> None:
    figure = achieved_over_offered(SAMPLE, column=GOODPUT)
    assert figure.layout.yaxis.title.text == "requests/s within the limits"
    assert notes(figure) == []
    assert (
        nb("0.375 requests/s within the limits") in traces(figure)["continuous lines+markers"]["text"][2]
    )  # 0.3 of 1.25


@pytest.mark.parametrize("rows", [SAMPLE.head(0), SAMPLE.assign(status="pending", achieved_per_s=math.nan)])
def test_no_measurement_gives_a_note(rows: pd.DataFrame) -> None:
    for figure in (achieved_over_offered(rows), latency_over_offered(rows, QUEUE)):
        assert notes(figure) == [EMPTY]


def test_one_engine_at_one_rate_still_draws() -> None:
    one = SAMPLE[(SAMPLE["engine"] == "static") & (SAMPLE["rate_per_s"] == 1.0)]
    assert len(traces(achieved_over_offered(one))["static lines+markers"]["x"]) == 1
    assert latency_over_offered(one, QUEUE).data[0].y == (pytest.approx(75 * (1 - 0.66)),)


def test_all_failed_points_are_drawn_with_a_note() -> None:
    numbers = [name for name in SAMPLE if name.endswith("_s") and name != "rate_per_s"]
    failed = SAMPLE.assign(status="oom", error="no room", **dict.fromkeys(numbers, math.nan))
    figure = achieved_over_offered(failed)
    assert notes(figure) == ["No run completed."]
    assert len(traces(figure)["failed markers"]["x"]) == 17
    assert notes(latency_over_offered(failed, TTFT)) == ["No run completed."]


def test_all_at_once_is_not_at_a_rate() -> None:
    assert set(at_rates(SAMPLE)["role"]) == {"rate", "below", "above"}


def test_axes_turn_logarithmic_over_two_decades_and_have_ticks() -> None:
    assert scale_of(pd.Series([1.0, 99.0])).is_log is False
    wide = scale_of(pd.Series([0.01, 5.0]))
    assert wide.is_log
    assert wide.low < 0.01 < 5.0 < wide.high
    assert scale_of(pd.Series([], dtype=float)) == Scale(low=0.0, high=1.08, is_log=False)
    assert log_ticks(0.9, 200.0) == [1, 2, 5, 10, 20, 50, 100, 200]
    assert log_ticks(0.009, 120.0) == [0.01, 0.1, 1, 10, 100]
    far = SAMPLE.assign(offered_per_s=SAMPLE["offered_per_s"] ** 3)
    assert achieved_over_offered(far, CAPACITIES).layout.xaxis.type == "log"


def test_steady_windows_are_shaded_and_named_over_the_queue() -> None:
    queue, windows = sample_queues()
    figure = queue_with_windows(queue, windows)
    assert notes(figure) == [nb("static: steady window, 103 s"), nb("continuous: steady window, 79.0 s")]
    spans = [(shape.x0, shape.x1) for shape in figure.layout.shapes]
    assert spans == [(9.0, 112.0)] * 2 + [(5.0, 84.0)] * 2
    assert figure.layout.yaxis.range[1] > 1.2 * queue["queue_depth"].max()  # bars are above the deepest queue
    without = queue_with_windows(queue, windows.head(0))
    assert (len(without.layout.shapes), notes(without)) == (0, [])
    assert notes(queue_with_windows(queue.head(0), windows)) == ["No pass has run yet."]


def test_a_short_queue_has_ticks_at_whole_requests() -> None:
    queue, windows = sample_queues()
    few = queue.assign(queue_depth=queue["queue_depth"].clip(upper=2))
    assert queue_with_windows(few, windows).layout.yaxis.dtick == 1
    assert queue_with_windows(queue, windows).layout.yaxis.dtick is None


def test_figures_of_sixty_points_and_long_queues_are_small() -> None:
    many = pd.concat([SAMPLE.assign(rate_per_s=SAMPLE["rate_per_s"] + i / 10) for i in range(4)])
    assert json_bytes(achieved_over_offered(many, CAPACITIES)) < 200_000
    long = pd.DataFrame({"series": "static", "time_s": range(100_000), "queue_depth": [i % 7 for i in range(100_000)]})
    assert json_bytes(queue_with_windows(long, sample_queues()[1])) < 2_000_000


@pytest.mark.parametrize("dark", [False, True])
def test_dark_and_light_are_both_drawn(dark: bool) -> None:
    colors = {trace.line.color for trace in achieved_over_offered(SAMPLE, CAPACITIES, dark=dark).data}
    other = {trace.line.color for trace in achieved_over_offered(SAMPLE, CAPACITIES, dark=not dark).data}
    assert colors.isdisjoint(other - {None})
