"""KV positions by layout: parts calculated by hand, comparable bars, and the caption that ranks the layouts."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
import pytest

from pages.figures.sample import sample_run
from pages.figures.waste.kv_layouts import NO_POSITIONS, kv_layouts, kv_layouts_caption, kv_shares
from pages.figures.waste.waste import waste_breakdown
from tests.support.no_break import nb

STATIC = {
    "series": "static",
    "kv_reserved_position_s": 200.0,
    "kv_padding_position_s": 40.0,
    "kv_dead_position_s": 60.0,
    "kv_fragment_position_s": 0.0,
    "kv_room_position_s": 20.0,
    "kv_unused_position_s": 120.0,
    "computed_positions": 1000,
    "padding_positions": 250,
    "dead_positions": 250,
}
PAGED = {
    **STATIC,
    "series": "paged",
    "kv_reserved_position_s": 100.0,
    "kv_padding_position_s": 0.0,
    "kv_dead_position_s": 0.0,
    "kv_fragment_position_s": 20.0,
    "kv_room_position_s": 0.0,
    "computed_positions": 500,
    "padding_positions": 0,
    "dead_positions": 0,
}
BOTH = pd.DataFrame([STATIC, PAGED])


def bar(figure: go.Figure, name: str) -> go.Bar:
    return next(trace for trace in figure.data if trace.name.startswith(name))


def test_the_parts_of_what_was_held_and_computed() -> None:
    parts = kv_shares(BOTH)
    held = parts[parts["heading"].str.startswith("KV memory")]
    assert held[["series", "part", "amount"]].values.tolist() == [
        ["static", "used", 80.0],
        ["static", "padding", 40.0],
        ["static", "dead", 60.0],
        ["static", "fragment", 0.0],
        ["static", "room", 20.0],
        ["paged", "used", 80.0],
        ["paged", "padding", 0.0],
        ["paged", "dead", 0.0],
        ["paged", "fragment", 20.0],
        ["paged", "room", 0.0],
    ]
    assert set(held["scale"]) == {200.0}
    assert parts.loc[parts["heading"].str.startswith("Computed"), "amount"].tolist() == [500, 250, 250, 500, 0, 0]


def test_bars_of_a_group_share_one_axis_and_have_their_shares_as_text() -> None:
    figure = kv_layouts(BOTH)
    fragment, dead = bar(figure, "block ends"), bar(figure, "dead")
    assert (list(fragment.base), list(fragment.x)) == ([pytest.approx(0.4)], [pytest.approx(0.1)])
    assert (list(dead.base), list(dead.x)) == ([pytest.approx(0.6), 0.75], [pytest.approx(0.3), 0.25])
    assert dead.marker.pattern.shape == "/"
    assert fragment.marker.pattern.shape == "x"
    texts = [annotation.text for annotation in figure.layout.annotations]
    assert texts == [
        "<b>KV memory held over time, in position-seconds</b>",
        "<b>Computed token positions</b>",
        *("<b>static</b>  200", nb("real tokens 40.0 %, padding 20.0 %, dead 30.0 %, reserved ahead 10.0 %")),
        *("<b>paged</b>  100", nb("real tokens 80.0 %, block ends 20.0 %")),
        *("<b>static</b>  1,000", nb("real tokens 50.0 %, padding 25.0 %, dead 25.0 %")),
        *("<b>paged</b>  500", nb("real tokens 100 %")),
    ]
    assert figure.layout.xaxis.range == (0, 1)


def test_a_run_that_did_not_log_what_its_memory_held_has_one_unused_part() -> None:
    old = pd.DataFrame([{**STATIC, "kv_room_position_s": None}, PAGED])
    parts = kv_shares(old)
    assert parts.loc[parts["series"] == "static", "part"].tolist() == ["used", "unused", "useful", "padding", "dead"]
    assert nb("real tokens 40.0 %, unused 60.0 %") in [a.text for a in kv_layouts(old).layout.annotations]


def test_the_caption_gives_real_tokens_and_each_ratio_to_the_first() -> None:
    assert kv_layouts_caption(BOTH) == (
        nb(
            "Real tokens, share of KV memory held over time: static 40.0 %, paged 80.0 %; paged held 0.500x as much "
            "as static. Real tokens, share of positions computed: static 50.0 %, paged 100 %; paged computed 0.500x as "
            "much as static."
        )
    )
    swapped = BOTH.iloc[::-1]
    assert nb("paged 80.0 %, static 40.0 %; static held 2.00x as much as paged") in kv_layouts_caption(swapped)
    single = kv_layouts_caption(BOTH.tail(1).assign(series=""))
    assert single.startswith(nb("Real tokens, share of KV memory held over time: 80.0 %."))


@pytest.mark.parametrize("frame", [pd.DataFrame(), pd.DataFrame([{"series": "static"}]), BOTH.head(0)])
def test_no_data_gives_a_note(frame: pd.DataFrame) -> None:
    assert kv_layouts(frame).layout.annotations[0].text == NO_POSITIONS
    assert kv_layouts_caption(frame) == NO_POSITIONS


def test_the_layouts_of_the_schedulers_waste_what_they_should() -> None:
    """Eight unequal requests: paging wastes only block ends, slots reserve KV, a padded batch also pads and is dead."""
    runs = pd.concat([sample_run(name).totals.assign(series=name) for name in ("static", "continuous", "paged")])
    parts = kv_shares(runs)
    present = parts[parts["amount"] > 0].groupby("series", sort=False)["part"].apply(set).to_dict()
    assert present["paged"] == {"used", "fragment", "useful"}
    assert present["continuous"] == {"used", "room", "useful", "padding"}
    assert present["static"] == {"used", "padding", "dead", "room", "useful"}


def test_the_waste_breakdown_has_the_parts_of_memory_and_the_padding_of_graph_buckets() -> None:
    row = {**PAGED, "series": "", "bucket_tokens": 640, "bucket_padding_tokens": 64}
    texts = [annotation.text for annotation in waste_breakdown(pd.DataFrame([row])).layout.annotations]
    assert nb("real tokens 80.0 %, block ends 20.0 % of 100") in texts
    assert nb("useful 90.0 %, bucket padding 10.0 % of 640") in texts
