"""The pass trace and the queue over time, against values calculated by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from pages.figures.timeline.passes import pass_trace, thinned
from pages.figures.timeline.queue import MAX_POINTS, changes_only, queue_depth, queue_from_passes
from tests.support.figures import json_bytes

PASSES = pd.DataFrame(
    {
        "pass_index": [0, 1, 2, 3],
        "step": [0, 0, 1, 2],
        "kind": ["prefill", "decode", "decode", "decode"],
        "start_s": [0.0, 0.2, 0.25, 0.3],
        "end_s": [0.2, 0.25, 0.3, 0.36],
        "rows": [2, 2, 2, 2],
        "live_rows": [2, 2, 1, 1],
        "width": [10, 11, 12, 13],
        "queue_depth": [3, 3, 1, 0],
    }
)


def many_passes(count: int) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = rng.integers(2, 33, count)
    start_s = np.arange(count) * 0.04
    return pd.DataFrame(
        {
            "step": np.arange(count),
            "kind": np.where(np.arange(count) % 10 == 0, "prefill", "decode"),
            "start_s": start_s,
            "end_s": start_s + rng.lognormal(-3.5, 0.3, count),
            "rows": rows,
            "live_rows": rng.integers(1, rows + 1),
            "width": rng.integers(16, 4352, count),
            "queue_depth": rng.integers(0, 900, count),
        }
    )


def named(figure: go.Figure, name: str) -> object:
    return next(trace for trace in figure.data if (trace.name or "").startswith(name))


def test_each_pass_is_a_bar_as_wide_as_its_duration_in_the_color_of_its_kind() -> None:
    figure = pass_trace(PASSES)
    prefill, decode = named(figure, "prefill pass"), named(figure, "decode pass")
    assert list(prefill.y) == pytest.approx([200])  # type: ignore[attr-defined]
    assert list(decode.y) == pytest.approx([50, 50, 60])  # type: ignore[attr-defined]
    assert list(prefill.x) == pytest.approx([0.1])  # type: ignore[attr-defined]
    assert prefill.marker.color != decode.marker.color  # type: ignore[attr-defined]


def test_by_step_the_two_passes_of_a_step_share_its_width() -> None:
    figure = pass_trace(PASSES, unit="step")
    assert list(named(figure, "prefill pass").x) == [0.25]  # type: ignore[attr-defined]
    assert list(named(figure, "decode pass").x) == [0.75, 1.5, 2.5]  # type: ignore[attr-defined]
    assert figure.layout.xaxis.range == (0, 3)


def test_rows_and_width_have_separate_panels() -> None:
    figure = pass_trace(PASSES)
    live, rows, width = (named(figure, name) for name in ("decode rows", "dead rows", "width"))
    assert (list(live.x), list(live.y)) == ([0.0, 0.25, 0.36], [2, 1, 1])  # type: ignore[attr-defined]
    assert list(rows.y) == [2, 2]  # type: ignore[attr-defined]
    assert rows.fillpattern.shape == "/"  # type: ignore[attr-defined]
    assert list(width.y) == [10, 11, 12, 13, 13]  # type: ignore[attr-defined]
    assert len({live.yaxis, width.yaxis, "y"}) == 3  # type: ignore[attr-defined]
    assert figure.layout.xaxis.anchor == "y3"  # one x axis under all three


def test_dense_traces_are_webgl_thinned_and_lose_no_spike() -> None:
    passes = many_passes(64_000)
    passes.loc[31_234, "end_s"] += 9.0
    figure = pass_trace(passes)
    decode = named(figure, "decode pass")
    assert decode.type == "scattergl"  # type: ignore[attr-defined]
    assert max(decode.y) > 9000  # type: ignore[attr-defined]
    assert json_bytes(figure) < 2_000_000


def test_thinning_keeps_the_longest_and_shortest_of_every_stretch() -> None:
    passes = pd.DataFrame({"duration_ms": [5.0, 1.0, 3.0, 9.0, 2.0, 4.0, 4.0, 7.0]})
    assert thinned(passes, 4)["duration_ms"].tolist() == [1.0, 9.0, 2.0, 7.0]
    assert thinned(passes, 8) is passes


def test_the_queue_has_a_point_per_pass_and_one_at_the_end() -> None:
    queue = queue_from_passes(PASSES)
    assert queue["step"].tolist() == [0.0, 0.5, 1.0, 2.0, 3.0]
    assert queue["time_s"].tolist() == [0.0, 0.2, 0.25, 0.3, 0.36]
    assert queue["queue_depth"].tolist() == [3, 3, 1, 0, 0]


def test_a_step_line_is_drawn_from_its_changes() -> None:
    x, y = changes_only(np.arange(6.0), np.array([4.0, 4.0, 2.0, 2.0, 2.0, 2.0]))
    assert (x.tolist(), y.tolist()) == ([0, 2, 5], [4, 2, 2])
    x, y = changes_only(np.arange(1e5), np.tile([0.0, 1.0, 5.0, 2.0], 25_000))
    assert len(x) <= MAX_POINTS
    assert (x[0], x[-1], y.min(), y.max()) == (0, 99_999, 0, 5)


def test_queues_of_two_runs_share_axes_and_differ_in_dash() -> None:
    both = pd.concat([queue_from_passes(PASSES).assign(series=name) for name in ("static", "continuous")])
    figure = queue_depth(both, x_range=(0, 2.0))
    assert figure.layout.xaxis.range == (0, 2.0)
    assert len({trace.line.dash for trace in figure.data}) == 2
    assert json_bytes(queue_depth(queue_from_passes(many_passes(64_000)))) < 2_000_000


@pytest.mark.parametrize("draw", [pass_trace, queue_depth])
def test_no_data_gives_a_note(draw: object) -> None:
    for frame in (pd.DataFrame(), PASSES.head(0).assign(delivered_s=[])):
        figure = draw(frame)  # type: ignore[operator]
        assert len(figure.layout.annotations) == 1
        assert figure.layout.annotations[0].text.endswith(".")


def test_a_single_pass_is_drawn() -> None:
    assert len(named(pass_trace(PASSES.head(1)), "prefill pass").x) == 1  # type: ignore[attr-defined]
    assert queue_from_passes(PASSES.head(1))["queue_depth"].tolist() == [3, 3]
