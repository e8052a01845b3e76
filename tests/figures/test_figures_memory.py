"""The memory bars, and estimates against measured runs: heights, cuts and marks, calculated by hand."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
import pytest

from engine.core.units import GIB
from pages.figures.colors import palette
from pages.figures.memory.measured import memory_measured
from pages.figures.memory.memory import BAR, TERMS, cut_sizes, memory_bars, sample_points
from pages.parts.memory.estimate import cut_text
from tests.support.figures import json_bytes
from tests.support.no_break import nb

CARD = 20 * GIB


def point(batch_size: int, terms: tuple[float, ...], **ended: object) -> dict[str, object]:
    """A batch with its terms in GiB."""
    sizes = {name: value * GIB for name, value in zip(TERMS, terms, strict=True)}
    return {"batch_size": batch_size, **sizes, "total_bytes": sum(terms) * GIB, "fits": not ended, **ended}


FITS = point(1, (2, 4, 6, 1, 2))
FAILS = point(2, (2, 8, 12, 2, 4), failing_term="mlp_activation", asked_bytes=4 * GIB, free_bytes=2 * GIB)
POOL = point(2, (2, 8, 3, 1, 1), failing_term="kv_pool", asked_bytes=8 * GIB, free_bytes=5 * GIB)
BOTH = pd.DataFrame([FAILS, FITS])
RAN = pd.DataFrame({"batch_size": [1, 7], "measured_bytes": [16 * GIB, GIB], "run": ["abc", "other"]})


def trace(figure: go.Figure, name: str) -> go.Bar:
    return next(each for each in figure.data if (each.name or "").startswith(name))


def test_terms_are_stacked_in_their_order() -> None:
    figure = memory_bars(BOTH, capacity_bytes=CARD)
    assert list(figure.layout.xaxis.ticktext) == ["1", "2"]
    stack = [(list(trace(figure, name).base), list(trace(figure, name).y)) for name in TERMS.values()]
    # the axis ends at 1.45 x the capacity
    assert stack == [([0, 0], [2, 2]), ([2, 2], [4, 8]), ([6, 10], [6, 12]), ([12, 22], [1, 2]), ([13, 24], [2, 4])]
    assert figure.layout.yaxis.range[1] == pytest.approx(29)


def test_a_bar_that_is_far_too_tall_is_cut_and_keeps_its_number() -> None:
    tall = pd.DataFrame(
        [FITS, point(4, (2, 98, 0, 0, 0), failing_term="kv_cache", asked_bytes=98 * GIB, free_bytes=GIB)]
    )
    figure = memory_bars(tall, capacity_bytes=CARD)
    assert figure.layout.yaxis.range[1] == pytest.approx(1.45 * 20)
    cache = trace(figure, "KV cache")
    assert cache.base[1] + cache.y[1] == pytest.approx(29)
    texts = {a.text: a.y for a in figure.layout.annotations}
    assert texts["100"] == pytest.approx(29)
    assert texts["15.0"] == 15


def test_a_cut_bar_has_a_zig_zag() -> None:
    """Of 15 and 100 GiB with a capacity of 20, the second is drawn as 29: a band with two edges across it only."""
    tall = pd.DataFrame(
        [FITS, point(4, (2, 98, 0, 0, 0), failing_term="kv_cache", asked_bytes=98 * GIB, free_bytes=GIB)]
    )
    assert cut_sizes(tall, capacity_bytes=CARD) == [4]
    for dark in (False, True):
        shapes = memory_bars(tall, capacity_bytes=CARD, dark=dark).layout.shapes
        assert [shape.fillcolor for shape in shapes] == [palette(dark).surface, None, None]
        corners = [tuple(map(float, corner.split(","))) for corner in shapes[1].path.removeprefix("M").split("L")]
        assert min(x for x, _ in corners) < 1 - BAR / 2
        assert max(x for x, _ in corners) > 1 + BAR / 2
        assert all(0.85 * 29 < y < 29 for _, y in corners)
        assert len({y for _, y in corners}) == 2
    assert not memory_bars(BOTH, capacity_bytes=CARD).layout.shapes
    assert cut_sizes(BOTH, capacity_bytes=CARD) == []


def test_a_run_above_the_axis_is_drawn_at_its_end_with_its_value() -> None:
    ran = pd.DataFrame({"batch_size": [1], "measured_bytes": [50 * GIB], "run": ["abc"]})
    mark = trace(memory_bars(BOTH, capacity_bytes=CARD, measured=ran), "measured")
    assert (list(mark.y), list(mark.customdata)) == ([29], [50])


def test_the_caption_says_which_bars_are_cut() -> None:
    assert cut_text([]) == ""
    assert cut_text([64]).startswith("The bar of 64 is cut off at the zig-zag")
    assert cut_text([64, 1024]).startswith("The bars of 64 and 1,024 are cut off at the zig-zag")


def hatched(figure: go.Figure) -> dict[str, list[int]]:
    """For each term, the bars in which it is hatched."""
    shapes = {name: trace(figure, name).marker.pattern.shape for name in TERMS.values()}
    return {name: [place for place, shape in enumerate(found) if shape == "/"] for name, found in shapes.items()}


def test_a_bar_is_hatched_from_the_failing_term_up() -> None:
    for dark in (False, True):
        figure = memory_bars(BOTH, capacity_bytes=CARD, dark=dark)
        assert hatched(figure) == {
            "weights": [],
            "KV cache": [],
            "MLP activation": [1],
            "logits": [1],
            "fp32 copy": [1],
        }
        assert all(trace(figure, name).marker.color != palette(dark).dead for name in TERMS.values())
        assert trace(figure, "hatched: does not fit").marker.pattern.shape == "/"
        assert (
            nb("does not fit: MLP activation needs 4.00 GiB in one allocation, 2.00 GiB free")
            in trace(figure, "logits").hovertext[1]
        )
    pool = memory_bars(pd.DataFrame([FITS, POOL]), capacity_bytes=CARD)
    assert [name for name, places in hatched(pool).items() if places] == list(TERMS.values())[1:]
    assert "does not fit: KV pool needs" in trace(pool, "logits").hovertext[1]
    fits = memory_bars(pd.DataFrame([FITS]), capacity_bytes=CARD)
    assert not any(hatched(fits).values())
    assert not any("does not fit" in (t.name or "") for t in fits.data)


def test_the_capacity_is_a_line_unless_every_bar_is_far_below() -> None:
    line = next(t for t in memory_bars(BOTH, capacity_bytes=CARD, capacity_name="a card").data if t.type == "scatter")
    assert list(line.y) == [20, 20]
    far = memory_bars(pd.DataFrame([FITS]), capacity_bytes=100 * GIB, capacity_name="a card")
    assert all(t.type == "bar" for t in far.data)
    assert nb("a card, 100 GiB: above this axis") in [a.text for a in far.layout.annotations]
    assert far.layout.yaxis.range[1] == pytest.approx(18)


def test_measured_runs_are_diamonds_at_their_batch_size() -> None:
    figure = memory_bars(BOTH, capacity_bytes=CARD, measured=RAN)
    ran = trace(figure, "measured")
    assert (list(ran.x), list(ran.y), list(ran.hovertext)) == ([0], [16], ["run abc"])
    total = next(a for a in figure.layout.annotations if a.text == "15.0")
    assert (total.y, total.yshift) == (16, 7)


def test_terms_of_zero_are_not_in_the_legend_and_colors_differ() -> None:
    figure = memory_bars(pd.DataFrame([point(1, (2, 4, 6, 1, 0))]), capacity_bytes=CARD)
    assert [trace(figure, name).showlegend for name in TERMS.values()] == [True, True, True, True, False]
    for dark in (False, True):
        figure = memory_bars(BOTH, capacity_bytes=CARD, dark=dark)
        assert len({trace(figure, name).marker.color for name in TERMS.values()}) == 5


def test_no_batch_gives_a_note_and_many_stay_small() -> None:
    assert memory_bars(pd.DataFrame(), capacity_bytes=CARD).layout.annotations[0].text == "No batch size to draw."
    assert json_bytes(memory_bars(sample_points(22.06 * GIB), capacity_bytes=22.06 * GIB)) < 50_000


def test_estimates_and_measurements_share_one_scale() -> None:
    rows = pd.DataFrame(
        {
            "engine": ["static", "serial"],
            "run": ["abc", "def"],
            "settings": ["p16, 4 rows", "p64, 1 row"],
            "predicted_bytes": [2 * GIB, 4 * GIB],
            "measured_bytes": [3 * GIB, 5 * GIB],
        }
    )
    figure = memory_measured(rows)
    assert figure.layout.xaxis.range == figure.layout.yaxis.range
    assert figure.layout.xaxis.range[1] == pytest.approx(5.4)
    assert trace(figure, "static").hovertext[0] == (
        nb("<b>abc</b>, p16, 4 rows<br>estimated 2.00 GiB, measured 3.00 GiB (+50.0 %)")
    )
    many = memory_measured(pd.concat([rows] * 30))
    assert len(trace(many, "static").x) == 30
    assert json_bytes(many) < 50_000
    assert trace(figure, "static").marker.symbol != trace(figure, "serial").marker.symbol
    assert "No run" in memory_measured(pd.DataFrame()).layout.annotations[0].text
