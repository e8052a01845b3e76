"""The waste breakdown: shares of positions, seconds and memory, from run metrics."""

from __future__ import annotations

import pandas as pd
import pytest

from pages.figures.waste.breakdowns import breakdown_shares
from pages.figures.waste.waste import waste_breakdown
from tests.support.no_break import nb

METRICS = {
    "computed_positions": 1000,
    "padding_positions": 100,
    "dead_positions": 250,
    "prefill_s": 1.0,
    "decode_s": 3.0,
    "padding_s": 0.2,
    "dead_s": 1.0,
    "kv_reserved_position_s": 2000.0,
    "kv_unused_position_s": 500.0,
}


def run(**changes: object) -> pd.DataFrame:
    return pd.DataFrame([{"series": "static", **METRICS, **changes}])


def test_shares_of_each_breakdown_add_up_to_the_whole() -> None:
    shares = breakdown_shares(run())
    assert shares[["part", "share"]].values.tolist() == [
        ["useful", 0.65],
        ["padding", 0.1],
        ["dead", 0.25],
        ["useful", 0.7],
        ["padding", 0.05],
        ["dead", 0.25],
        ["used", 0.75],
        ["unused", 0.25],
    ]
    assert shares["before"].tolist() == pytest.approx([0, 0.65, 0.75, 0, 0.7, 0.75, 0, 0.75])
    assert shares["amount"].tolist() == pytest.approx([650, 100, 250, 2.8, 0.2, 1.0, 1500, 500])


def test_bars_stack_and_dead_is_hatched() -> None:
    figure = waste_breakdown(run())
    dead = next(trace for trace in figure.data if trace.name.startswith("dead"))
    assert list(dead.base) == pytest.approx([0.75, 0.75])
    assert dead.marker.pattern.shape == "/"
    texts = [annotation.text for annotation in figure.layout.annotations]
    assert nb("<b>static</b>  useful 65.0 %, padding 10.0 %, dead 25.0 % of 1,000") in texts
    assert nb("<b>static</b>  useful 70.0 %, padding 5.00 %, dead 25.0 % of 4.00 s") in texts
    assert nb("<b>static</b>  real tokens 75.0 %, unused 25.0 % of 2,000") in texts
    assert any("attributed" in text for text in texts)


def test_runs_are_below_each_other_within_a_breakdown() -> None:
    both = pd.concat([run(), run(series="continuous", dead_positions=0, dead_s=0.0)])
    figure = waste_breakdown(both)
    useful = next(trace for trace in figure.data if trace.name.startswith("useful"))
    assert len(set(useful.y)) == 4
    assert nb("dead 0 %") in " ".join(annotation.text for annotation in figure.layout.annotations)
    assert figure.layout.height > waste_breakdown(run()).layout.height


def test_a_breakdown_without_data_or_with_a_whole_of_zero_is_left_out() -> None:
    assert set(breakdown_shares(run(kv_reserved_position_s=None))["part"]) == {"useful", "padding", "dead"}
    assert set(breakdown_shares(run(computed_positions=0, prefill_s=0.0, decode_s=0.0))["part"]) == {"used", "unused"}
    assert breakdown_shares(run().drop(columns="dead_s"))["heading"].nunique() == 2


@pytest.mark.parametrize("frame", [pd.DataFrame(), run().head(0), pd.DataFrame([{"series": "static"}])])
def test_no_data_gives_a_note(frame: pd.DataFrame) -> None:
    assert waste_breakdown(frame).layout.annotations[0].text == "Nothing has been computed yet."
