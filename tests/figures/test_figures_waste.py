"""The waste ledger: shares of positions, seconds and memory, from the run metrics' names."""

from __future__ import annotations

import pandas as pd
import pytest

from pages.figures.waste.measures import ledger_shares
from pages.figures.waste.waste import waste_ledger
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


def ledger(**changes: object) -> pd.DataFrame:
    return pd.DataFrame([{"series": "static", **METRICS, **changes}])


def test_shares_of_each_measure_add_up_to_the_whole() -> None:
    shares = ledger_shares(ledger())
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
    figure = waste_ledger(ledger())
    dead = next(trace for trace in figure.data if trace.name.startswith("dead"))
    assert list(dead.base) == pytest.approx([0.75, 0.75])
    assert dead.marker.pattern.shape == "/"
    words = [annotation.text for annotation in figure.layout.annotations]
    assert nb("<b>static</b>  useful 65.0 %, padding 10.0 %, dead 25.0 % of 1,000") in words
    assert nb("<b>static</b>  useful 70.0 %, padding 5.00 %, dead 25.0 % of 4.00 s") in words
    assert nb("<b>static</b>  used 75.0 %, unused 25.0 % of 2,000") in words
    assert any("attributed" in word for word in words)


def test_runs_stand_under_each_other_within_a_measure() -> None:
    both = pd.concat([ledger(), ledger(series="continuous", dead_positions=0, dead_s=0.0)])
    figure = waste_ledger(both)
    useful = next(trace for trace in figure.data if trace.name.startswith("useful"))
    assert len(set(useful.y)) == 4
    assert nb("dead 0 %") in " ".join(annotation.text for annotation in figure.layout.annotations)
    assert figure.layout.height > waste_ledger(ledger()).layout.height


def test_a_measure_that_is_missing_or_nothing_is_left_out() -> None:
    assert set(ledger_shares(ledger(kv_reserved_position_s=None))["part"]) == {"useful", "padding", "dead"}
    assert set(ledger_shares(ledger(computed_positions=0, prefill_s=0.0, decode_s=0.0))["part"]) == {"used", "unused"}
    assert ledger_shares(ledger().drop(columns="dead_s"))["heading"].nunique() == 2


@pytest.mark.parametrize("frame", [pd.DataFrame(), ledger().head(0), pd.DataFrame([{"series": "static"}])])
def test_no_ledger_gives_a_note(frame: pd.DataFrame) -> None:
    assert waste_ledger(frame).layout.annotations[0].text == "Nothing has been computed yet."
