"""The answer as a picture: what is suggested for which columns, what is drawn, and what the caption says of it."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from pages.figures.query.answer import (
    MAX_POINTS,
    Drawing,
    answer_caption,
    answer_chart,
    axis_columns,
    can_draw,
    drawn_kind,
    label_columns,
    numeric_columns,
    short_names,
    suggested,
)
from tests.support.figures import json_bytes

ENGINES = pd.DataFrame({"engine": ["static", "continuous"], "runs": [3, 4], "dead_fraction": [0.25, 0.0]})
ROWS = pd.DataFrame({"series": ["a, m", "a, m", "b, m"], "rows": [2, 1, 1], "pass_s": [0.2, 0.1, math.nan]})
WHEN = pd.DataFrame({"at": pd.to_datetime(["2026-11-02", "2026-11-01"]), "speed": [2.0, 1.0], "ok": [True, False]})


def test_columns_by_use() -> None:
    frame = WHEN.assign(
        name=["x", None], nothing=[None, None], run_id=["r1", "r2"], request_id=[1, 2], digest=["a", "b"]
    )
    assert numeric_columns(frame) == ["speed"]
    assert label_columns(frame) == ["ok", "name", "run_id", "digest"]
    assert axis_columns(frame) == ["at", "speed", "ok", "name"]


def test_suggested_drawings() -> None:
    assert suggested(ENGINES) == Drawing(kind="bar", x="engine", y="runs")
    assert suggested(WHEN) == Drawing(kind="line", x="at", y="speed", color="ok")
    assert suggested(ROWS) == Drawing(kind="points", x="rows", y="pass_s", color="series")


def test_ids_and_digests_are_on_no_axis() -> None:
    """Neither as suggested, nor as chosen: the first label or number takes their place."""
    frame = pd.DataFrame({"workload_digest": ["20c9d411", "77aa01bc"], "model": ["a", "b"], "ratio": [1.5, 2.0]})
    assert suggested(frame) == Drawing(kind="bar", x="model", y="ratio")
    assert not can_draw(frame, Drawing(kind="bar", x="workload_digest", y="ratio"))
    by_request = pd.DataFrame({"run_id": ["r1", "r1"], "request_id": [1, 2], "gap_s": [0.1, 0.2]})
    assert suggested(by_request) is None
    assert not can_draw(by_request, Drawing(kind="points", x="gap_s", y="request_id"))


def test_a_digest_under_another_name_is_on_no_axis_and_no_color() -> None:
    digests = ["20c9d41161330bac", "77aa01bc5d1e2f30"]
    frame = pd.DataFrame({"workload": digests, "model": ["a", "b"], "ratio": [1.5, 2.0]})
    assert axis_columns(frame) == ["model", "ratio"]
    assert suggested(frame) == Drawing(kind="bar", x="model", y="ratio")
    points = pd.DataFrame(
        {"workload": digests * 2, "model": ["a", "a", "b", "b"], "x": [1, 2, 3, 4], "y": [4, 3, 2, 1]}
    )
    assert suggested(points) == Drawing(kind="points", x="x", y="y", color="model")
    # words of these letters, and numbers as text, are labels
    assert axis_columns(pd.DataFrame({"word": ["deadbeefcafe", "202611300900"]})) == ["word"]


def test_long_and_foreign_texts_on_the_axis_stay_apart_and_stay_text() -> None:
    long = "the same beginning of a long text, then "
    frame = pd.DataFrame({"x": [f"{long}a", f"{long}b", "<b>c</b>{y}"], "n<i>": [1, 2, 3]})
    figure = answer_chart(frame, Drawing(kind="bar", x="x", y="n<i>"))
    assert list(figure.data[0].x) == [long[:28], f"{long[:28]} (2)", "&lt;b&gt;c&lt;/b&gt;&#123;y}"]
    assert figure.layout.yaxis.title.text == "n&lt;i&gt;"
    assert "<i>" not in figure.data[0].hovertemplate


@pytest.mark.parametrize(
    "frame",
    [
        ENGINES.head(1),
        ENGINES.head(0),
        ENGINES[["engine"]],
        pd.DataFrame({"request_id": [1, 2], "step": [3, 4]}),
        pd.DataFrame({"ok": [True, False]}),
    ],
)
def test_no_chart_where_a_table_is_better(frame: pd.DataFrame) -> None:
    assert suggested(frame) is None


def test_bars() -> None:
    figure = answer_chart(ENGINES, Drawing(kind="bar", x="engine", y="dead_fraction"))
    assert [trace.type for trace in figure.data] == ["bar"]
    assert list(figure.data[0].x) == ["static", "continuous"]
    assert list(figure.data[0].y) == [0.25, 0.0]
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("engine", "dead_fraction")
    assert figure.layout.showlegend is False


def test_a_line_per_series_along_x() -> None:
    drawing = Drawing(kind="line", x="rows", y="pass_s", color="series")
    figure = answer_chart(ROWS, drawing)
    assert [list(trace.x) for trace in figure.data] == [[1, 2]]
    whole = answer_chart(ROWS.fillna(0.3), drawing)
    assert [(trace.name.strip(), list(trace.x), list(trace.y)) for trace in whole.data] == [
        ("a", [1, 2], [0.1, 0.2]),
        ("b", [1], [0.3]),
    ]
    assert whole.layout.showlegend
    assert len({trace.line.dash for trace in whole.data}) == 2


def test_bars_that_would_cover_each_other_are_points() -> None:
    twice = pd.concat([ENGINES, ENGINES])
    drawing = Drawing(kind="bar", x="engine", y="runs")
    assert drawn_kind(ENGINES, drawing) == "bar"
    assert drawn_kind(twice, drawing) == "points"
    assert [trace.mode for trace in answer_chart(twice, drawing).data] == ["markers"]


def test_of_many_points_the_extremes_are_kept() -> None:
    y = np.sin(np.arange(60_000) / 50.0)
    y[12_345], y[54_321] = 40.0, -40.0
    frame = pd.DataFrame({"x": np.arange(60_000), "y": y})
    drawing = Drawing(kind="points", x="x", y="y")
    figure = answer_chart(frame, drawing)
    drawn = figure.data[0]
    assert 1000 < len(drawn.x) <= MAX_POINTS
    assert {12_345, 54_321} <= set(drawn.x)
    assert (max(drawn.y), min(drawn.y)) == (40.0, -40.0)
    assert json_bytes(figure) < 2_000_000
    caption = answer_caption(frame, drawing)
    assert caption.startswith("y: lowest -40 (x 54,321), highest 40 (x 12,345); ")
    assert f"{len(drawn.x):,} of 60,000 rows are drawn" in caption


def test_captions_give_the_extremes() -> None:
    assert answer_caption(ENGINES, Drawing(kind="bar", x="engine", y="dead_fraction")) == (
        "dead_fraction: lowest 0 (engine continuous), highest 0.250 (engine static)."
    )
    by_series = Drawing(kind="line", x="rows", y="pass_s", color="series")
    assert answer_caption(ROWS, by_series) == (
        "pass_s: lowest 0.100 (rows 1, a, m), highest 0.200 (rows 2, a, m); 1 row without one of the two values."
    )
    assert answer_caption(ENGINES.assign(runs=7), Drawing(kind="bar", x="engine", y="runs")) == "runs is 7 in all rows."


def test_nothing_to_draw_gives_a_note() -> None:
    empty = ENGINES.assign(dead_fraction=math.nan)
    drawing = Drawing(kind="bar", x="engine", y="dead_fraction")
    assert not can_draw(empty, drawing)
    assert not can_draw(ENGINES, Drawing(kind="bar", x="engine", y="nope"))
    assert not can_draw(ENGINES, Drawing(kind="bar", x="runs", y="engine"))
    assert can_draw(ENGINES, drawing)
    assert "No row has both values." in answer_chart(empty, drawing).layout.annotations[0].text
    assert answer_caption(empty, drawing) == "No row has both values."


def test_infinity_and_many_series_are_drawn() -> None:
    frame = pd.DataFrame({"name": [f"n{i}" for i in range(30)], "x": range(30), "y": [math.inf, *range(29)]})
    figure = answer_chart(frame, Drawing(kind="points", x="x", y="y", color="name"), dark=True)
    assert len(figure.data) == 29
    assert not figure.layout.showlegend


def test_names_lose_their_shared_ends() -> None:
    assert short_names(["static, m, cpu", "paged, m, cpu"]) == {"static, m, cpu": "static", "paged, m, cpu": "paged"}
    assert short_names(["a, m", "b, n"]) == {"a, m": "a, m", "b, n": "b, n"}
    assert short_names(["m, cpu"]) == {"m, cpu": "m, cpu"}
    assert short_names(["a", "a, b"]) == {"a": "a", "a, b": "a, b"}
