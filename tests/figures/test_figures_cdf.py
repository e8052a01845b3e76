"""Latency CDFs: steps, marks, the chosen axis, and labels that do not overlap."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from pages.figures.latency.cdf import latency_cdf
from pages.figures.latency.curves import step_points
from tests.support.figures import json_bytes
from tests.support.no_break import nb


def samples(**series: list[float]) -> pd.DataFrame:
    frames = [pd.DataFrame({"series": name, "value_s": values}) for name, values in series.items()]
    return pd.concat(frames, ignore_index=True)


def line(figure: go.Figure, index: int = 0) -> go.Scatter:
    return [trace for trace in figure.data if trace.mode == "lines"][index]


def texts(figure: go.Figure) -> list[str]:
    return [annotation.text for annotation in figure.layout.annotations]


def test_the_step_line_rises_by_one_nth_at_each_value() -> None:
    drawn = line(latency_cdf(samples(static=[0.4, 0.1, 0.2, 0.2]), title="t"))
    assert list(drawn.x) == pytest.approx([100, 100, 200, 200, 400])  # milliseconds
    assert list(drawn.y) == [0, 0.25, 0.5, 0.75, 1.0]
    assert drawn.line.shape == "hv"


def test_p50_and_p95_interpolate_linearly_and_are_written_out() -> None:
    figure = latency_cdf(samples(static=[0.01 * place for place in range(1, 22)]), title="t")
    marks = [(trace.x[0], trace.y[0]) for trace in figure.data if trace.mode == "markers"]
    assert marks[0] == pytest.approx((110, 0.5))
    assert marks[1] == pytest.approx((200, 0.95))
    assert {nb("p50 110 ms"), nb("p95 200 ms"), "<b>static</b>  n = 21"} <= set(texts(figure))


def test_fewer_than_20_samples_have_no_p95() -> None:
    figure = latency_cdf(samples(static=[0.1, 0.2, 0.3, 0.4, 0.5]), title="t")
    marks = [(trace.x[0], trace.y[0]) for trace in figure.data if trace.mode == "markers"]
    assert marks == [pytest.approx((300, 0.5))]
    assert not any("p95" in text for text in texts(figure))


def test_missing_values_are_left_out_and_not_counted() -> None:
    figure = latency_cdf(samples(static=[0.1, np.nan, 0.3], serial=[np.nan]), title="t")
    assert "<b>static</b>  n = 2" in texts(figure)
    assert not any("serial" in text for text in texts(figure))


@pytest.mark.parametrize(
    "frame", [samples(static=[np.nan]), pd.DataFrame(columns=["series", "value_s"]), pd.DataFrame()]
)
def test_no_value_gives_a_note(frame: pd.DataFrame) -> None:
    figure = latency_cdf(frame, title="Gaps", counted="gaps")
    assert texts(figure) == ["No gaps with this value yet."]


@pytest.mark.parametrize(
    ("values", "is_log"),
    [
        ([0.01, 0.99], False),
        ([0.01, 1.01], True),
        ([0.0, 0.5, 1.0], False),  # zeros do not count for the decades
        ([0.0, 0.00002, 0.5, 1.0], False),  # nor do values too short to measure
        ([0.0, 0.004, 1.0], True),
        ([0.0, 0.0], False),
    ],
)
def test_over_two_decades_the_axis_is_logarithmic(values: list[float], is_log: bool) -> None:
    figure = latency_cdf(samples(static=values), title="t")
    assert (figure.layout.xaxis.type == "log") is is_log
    assert ("logarithmic" in figure.layout.xaxis.title.text) is is_log


def test_zeros_on_a_logarithmic_axis_are_drawn_at_its_left_edge() -> None:
    figure = latency_cdf(samples(static=[0.0, 0.0, 0.004, 1.0]), title="t")
    drawn, left = line(figure), 10 ** figure.layout.xaxis.range[0]
    assert list(drawn.x[:3]) == pytest.approx([left] * 3)
    assert list(drawn.y[:3]) == [0, 0.25, 0.5]
    assert len(figure.layout.xaxis.tickvals) >= 3


def test_long_values_are_drawn_in_seconds() -> None:
    assert latency_cdf(samples(static=[0.1, 1.8]), title="t").layout.xaxis.title.text == "milliseconds"
    figure = latency_cdf(samples(static=[0.1, 4.0]), title="t")
    assert figure.layout.xaxis.title.text == "seconds"
    assert max(line(figure).x) == 4.0


def test_a_fixed_range_is_kept_in_the_unit_of_the_axis() -> None:
    ranges = [latency_cdf(samples(s=v), title="t", x_range=(0, 1.5)).layout.xaxis.range for v in ([0.1], [0.2, 1.4])]
    assert ranges == [(0, 1500), (0, 1500)]
    figure = latency_cdf(samples(s=[0.1, 1.0]), title="t", log=True, x_range=(0.01, 10.0))
    assert figure.layout.xaxis.range == pytest.approx((-2, 1))
    assert figure.layout.xaxis.title.text == "seconds, logarithmic axis"


def test_each_end_label_has_a_separate_row() -> None:
    frame = samples(static=[1.0, 2.0], continuous=[1.0, 2.0], serial=[0.5, 2.0], other=[1.9])
    figure = latency_cdf(frame, title="t")
    rows = [a.yshift for a in figure.layout.annotations if "n = " in a.text]
    assert len(rows) == len(set(rows)) == 4
    assert min(np.diff(sorted(rows))) >= 16  # a line of 12 px text
    assert figure.layout.margin.t >= max(rows) + 9  # and space for it above


def test_texts_at_equal_marks_are_one_below_the_other() -> None:
    figure = latency_cdf(samples(static=[0.02] * 40 + [0.2], continuous=[0.02] * 40 + [0.2]), title="t")
    p50 = [a for a in figure.layout.annotations if a.text.startswith("p50")]
    assert len(p50) == 2
    assert abs(p50[0].yshift - p50[1].yshift) >= 15


def test_many_samples_are_thinned_and_keep_their_extremes() -> None:
    values = np.random.default_rng(0).lognormal(-3, 1, 64_000)
    x, share = step_points(values)
    assert len(x) <= 5000
    assert (x[0], x[-1]) == (values.min(), values.max())
    assert (share[0], share[-1]) == (1 / 64_000, 1.0)
    assert np.interp(0.5, share, x) == pytest.approx(np.median(values), rel=1e-3)
    frame = pd.concat([samples(**{name: list(values)}) for name in ("static", "continuous", "serial", "other")])
    assert json_bytes(latency_cdf(frame, title="Gaps", counted="gaps")) < 2_000_000


def test_unbounded_samples_count_and_the_line_ends_below_one() -> None:
    figure = latency_cdf(samples(static=[0.1, 0.2, 0.4, np.inf]), title="t")
    assert list(line(figure).y) == [0, 0.25, 0.5, 0.75]
    assert "<b>static</b>  n = 4, 1 unbounded" in texts(figure)
    marks = [(trace.x[0], trace.y[0]) for trace in figure.data if trace.mode == "markers"]
    assert marks == [(pytest.approx(300), 0.5)]  # the 95th percentile lies between 0.4 s and infinity


def test_a_series_of_unbounded_samples_has_no_line() -> None:
    figure = latency_cdf(samples(static=[np.inf, np.inf], serial=[0.1]), title="t")
    assert [trace.name for trace in figure.data if trace.mode == "lines"] == ["serial"]
    assert texts(latency_cdf(samples(static=[np.inf]), title="t")) == ["All requests are unbounded."]


def test_a_subset_of_the_samples_with_ranks_draws_the_whole_series() -> None:
    few = pd.DataFrame(
        {"series": "a", "value_s": [0.1, 0.3, 0.9], "rank": [1, 50, 98], "n": 100, "p50_s": 0.31, "p95_s": 0.8}
    )
    figure = latency_cdf(few, title="t")
    assert list(line(figure).y) == [0, 0.01, 0.5, 0.98]
    assert "<b>a</b>  n = 100, 2 unbounded" in texts(figure)
    assert {nb("p50 310 ms"), nb("p95 800 ms")} <= set(texts(figure))
