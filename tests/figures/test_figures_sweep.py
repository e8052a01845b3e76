"""The figures of a sweep: linear scaling, failed points, whiskers, ragged batches and their controls."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from engine.core.units import GIB
from pages.figures.sweep.measures import MEASURES, PEAK_MEMORY, SPEEDUP, TPOT, TTFT, measure_caption, measure_over_batch
from pages.figures.sweep.ragged import ragged_bars, ragged_caption, ragged_pairs
from pages.figures.sweep.sample import sample_ragged, sample_sweep
from pages.figures.sweep.throughput import linear_scaling, throughput_caption, throughput_over_batch
from tests.support.figures import json_bytes
from tests.support.no_break import nb


def points(rates: dict[int, float | None], series: str = "p16", **more: Any) -> pd.DataFrame:
    """A series by batch size; None is a point that ran out of memory: 4 GiB requested, 1 GiB free."""
    rows = [
        {
            "series": series,
            "batch_size": size,
            "status": "completed" if rate is not None else "oom",
            "decode_tokens_per_s": rate,
            "tpot_s": None if rate is None else size / rate,
            "asked_bytes": None if rate is not None else 4 * GIB,
            "free_bytes": None if rate is not None else GIB,
            "oom_where": None if rate is not None else "prefill",
            **more,
        }
        for size, rate in rates.items()
    ]
    return pd.DataFrame(rows)


def traces(figure: Any) -> dict[str, Any]:
    return {trace.name.strip("\u00a0"): trace for trace in figure.data}


def test_a_series_has_a_line_of_linear_scaling() -> None:
    figure = throughput_over_batch(points({1: 50.0, 4: 190.0, 16: 400.0}))
    drawn = traces(figure)
    assert list(drawn["p16"].x) == [1, 4, 16]
    assert list(drawn["p16"].y) == [50, 190, 400]
    line = drawn["p16: linear scaling"]
    assert (list(line.x), list(line.y), line.line.dash) == ([1, 16], [50, 800], "dash")
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")


def test_how_far_a_series_scales_linearly() -> None:
    """190 of 200 is 95.0 %, 400 of 800 is 50.0 %: below the limit of 80 % at 16."""
    found = linear_scaling(points({1: 50.0, 4: 190.0, 16: 400.0}))
    assert found is not None
    assert (found.base, found.last, found.below_at, found.share, found.rate) == (1, 4, 16, 0.5, 400.0)
    text = throughput_caption(points({1: 50.0, 4: 190.0, 16: 400.0}))
    assert text == (
        nb(
            "Scaling with batch size: p16 scales linearly up to B = 4, with 50.0 % of linear scaling at B = 16 "
            "(400 tokens/s)."
        )
    )
    assert nb("p16 scales linearly up to B = 4 (190 tokens/s, 95.0 % of linear scaling)") in throughput_caption(
        points({1: 50.0, 4: 190.0})
    )
    assert nb("p16 does not scale linearly: 75.0 % of linear scaling at B = 4 (150 tokens/s)") in throughput_caption(
        points({1: 50.0, 4: 150.0})
    )


def test_a_point_far_above_linear_scaling_means_a_disturbed_base() -> None:
    text = throughput_caption(points({1: 50.0, 4: 236.0, 16: 700.0}))
    assert nb("p16 reaches 118 % of linear scaling at B = 4") in text
    assert "B = 1 was probably disturbed" in text
    assert "scales linearly" not in text
    assert "disturbed" not in throughput_caption(points({1: 50.0, 4: 224.0}))


def test_without_a_point_at_one_the_line_goes_through_the_smallest_batch() -> None:
    drawn = traces(throughput_over_batch(points({2: 100.0, 8: 380.0})))
    assert list(drawn["p16: linear scaling"].y) == [100, 400]
    assert nb("scales linearly from B = 2 up to B = 8 (380 tokens/s, 95.0 % of linear scaling)") in throughput_caption(
        points({2: 100.0, 8: 380.0})
    )


def test_failed_points_are_in_a_strip_with_their_bytes() -> None:
    both = pd.concat([points({1: 50.0, 4: 190.0, 16: None, 64: None}), points({1: 45.0, 4: None}, series="p64")])
    figure = throughput_over_batch(both)
    drawn = traces(figure)
    assert list(drawn["p16, failed"].x) == [16, 64]
    assert list(drawn["p64, failed"].x) == [4]
    assert drawn["p16, failed"].yaxis == "y2"
    assert drawn["p16, failed"].text[0] == (
        nb("<b>p16, B = 16</b><br>out of memory<br>requested 4.00 GiB, 1.00 GiB free<br>prefill")
    )
    assert list(figure.layout.yaxis2.ticktext) == ["✕ p16", "✕ p64"]
    assert figure.layout.yaxis.domain[1] < figure.layout.yaxis2.domain[0]
    assert "Failed: p16 from B = 16 on; p64 at B = 4." in throughput_caption(both)


def test_small_figures_show_all_failures_of_a_size_as_one_cross() -> None:
    both = pd.concat([points({1: 50.0, 4: None}), points({1: 45.0, 4: None}, series="p64")])
    cross = traces(measure_over_batch(both, TPOT))["failed, failed"]
    assert list(cross.x) == [4]
    assert "p16, B = 4" in cross.text[0]
    assert "p64, B = 4" in cross.text[0]


def test_all_failed_points_are_drawn() -> None:
    failed = points({1: None, 4: None})
    figure = throughput_over_batch(failed)
    assert list(traces(figure)["p16, failed"].x) == [1, 4]
    assert any("No batch size has a rate" in note.text for note in figure.layout.annotations)
    assert figure.layout.yaxis.showticklabels is False
    assert throughput_caption(failed) == "Failed: p16 from B = 1 on."
    assert measure_caption(failed, TPOT) == "TPOT: no point has a value."
    assert list(traces(measure_over_batch(failed, TPOT))["failed, failed"].x) == [1, 4]


def test_a_single_point_is_drawn() -> None:
    one = points({4: 100.0})
    figure = throughput_over_batch(one)
    assert list(traces(figure)["p16"].y) == [100]
    low, high = figure.layout.xaxis.range
    assert low < high
    assert nb("p16 has one point, 100 tokens/s at B = 4") in throughput_caption(one)
    alone = measure_caption(one.assign(speedup=None), SPEEDUP)
    assert alone == "Speed-up: no point has a value; it needs one at B = 1."
    assert measure_caption(one, TPOT) == nb("TPOT at B = 4, the only point: p16 40.0 ms.")


@pytest.mark.parametrize("frame", [points({}), points({1: 50.0}).assign(status="pending", decode_tokens_per_s=None)])
def test_no_measurement_gives_a_note(frame: pd.DataFrame) -> None:
    if frame.empty:
        frame = pd.DataFrame(columns=list(points({1: 1.0})))
    for figure in (throughput_over_batch(frame), measure_over_batch(frame, TPOT)):
        assert figure.layout.annotations[0].text == "No point has been measured yet."
    assert throughput_caption(frame) == "No point has been measured yet."


def test_a_measure_is_drawn_in_the_units_of_its_axis() -> None:
    frame = points({1: 50.0, 4: 160.0}).assign(peak_memory_bytes=[2 * GIB, 3 * GIB], ttft_s=[0.05, 0.2])
    assert list(traces(measure_over_batch(frame, TPOT))["p16"].y) == pytest.approx([20, 25])
    assert list(traces(measure_over_batch(frame, PEAK_MEMORY))["p16"].y) == [2, 3]
    assert measure_caption(frame, TPOT) == nb("TPOT from B = 1 to 4: p16 20.0 ms to 25.0 ms (+25.0 %).")
    assert measure_caption(frame, TTFT) == nb("TTFT from B = 1 to 4: p16 50.0 ms to 200 ms (4.00x).")
    assert measure_caption(frame, PEAK_MEMORY) == nb("Peak memory from B = 1 to 4: p16 2.00 GiB to 3.00 GiB (+50.0 %).")
    speedups = frame.assign(speedup=[1.0, 3.2])
    assert measure_caption(speedups, SPEEDUP) == "Speed-up from B = 1 to 4: p16 1.00x to 3.20x."


def test_a_change_within_five_percent_is_flat() -> None:
    frame = points({1: 50.0, 2: 98.0})  # 20 ms and 20.4 ms
    assert measure_caption(frame, TPOT) == nb("TPOT from B = 1 to 2: p16 20.0 ms to 20.4 ms (flat).")


def test_series_of_different_sizes_have_separate_ranges() -> None:
    both = pd.concat([points({1: 50.0, 4: 160.0}), points({1: 40.0, 2: None}, series="p64")])
    assert measure_caption(both, TPOT) == (
        nb("TPOT: p16 20.0 ms to 25.0 ms from B = 1 to 4 (+25.0 %); p64 25.0 ms at B = 1, the only point.")
    )


def test_whiskers_span_the_repeats() -> None:
    frame = points({1: 50.0, 4: 160.0}).assign(tpot_s_low=[0.019, 0.025], tpot_s_high=[0.022, 0.025])
    line = traces(measure_over_batch(frame, TPOT))["p16"]
    assert list(line.error_y.array) == pytest.approx([2, 0])
    assert list(line.error_y.arrayminus) == pytest.approx([1, 0])
    assert nb("19.0 ms to 22.0 ms over repeats") in line.text[0]
    assert "repeats" not in line.text[1]


def test_sixty_points_fit_and_every_series_looks_different() -> None:
    lengths, sizes = (16, 32, 64, 128, 256, 512), tuple(2**power for power in range(10))
    frame = sample_sweep(lengths, sizes)
    assert len(frame) == 60
    figures = [throughput_over_batch(frame), *(measure_over_batch(frame, measure) for measure in MEASURES)]
    assert max(json_bytes(figure) for figure in figures) < 100_000
    drawn = [trace for trace in figures[0].data if trace.mode == "lines+markers"]
    assert len({(trace.marker.color, trace.marker.symbol) for trace in drawn}) == 6
    assert len(figures[0].layout.xaxis.tickvals) <= 7


def test_a_ragged_batch_is_a_share_of_its_control() -> None:
    pairs = {pair.batch_size: pair for pair in ragged_pairs(sample_ragged())}
    assert pairs[8].ratio == pytest.approx(104 / 310)
    assert pairs[128].ratio is None
    figure = ragged_bars(sample_ragged())
    drawn = traces(figure)
    assert list(drawn["ragged"].text)[:2] == [nb("104<br>34 %"), nb("130<br>11 %")]
    assert drawn["ragged"].marker.pattern.shape == "."
    assert len(drawn["failed"].x) == 2
    assert list(figure.layout.xaxis.ticktext) == ["8<br>p4096", "32<br>p4096", "128<br>p4096"]
    assert ragged_caption(sample_ragged()) == (
        nb(
            "Ragged batch vs uniform rows of the same width: 104 of 310 tokens/s at B = 8 (33.5 %, control p4096), "
            "130 of 1,200 tokens/s at B = 32 (10.8 %, control p4096). 48.3 % of its KV memory was unused."
        )
    )


def test_many_bars_have_only_their_shares_as_text() -> None:
    frame = sample_ragged()
    many = pd.concat([frame, frame.assign(batch_size=frame["batch_size"] * 2)])
    drawn = traces(ragged_bars(many))
    assert set(drawn["control"].text) == {""}
    assert list(drawn["ragged"].text)[:2] == [nb("34 %"), nb("34 %")]


def test_a_ragged_batch_without_a_measured_control_has_no_share() -> None:
    frame = sample_ragged()
    alone = frame[(frame["role"] == "ragged") & (frame["batch_size"] == 8)]
    assert ragged_caption(alone) == "No ragged batch and its control have been measured yet."
    assert list(traces(ragged_bars(alone))["ragged"].text) == ["104"]
    note = ragged_bars(frame.head(0)).layout.annotations[0].text
    assert note == "No ragged batch has been measured yet."
