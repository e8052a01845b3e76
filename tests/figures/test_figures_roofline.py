"""The roofline, the pass times and the batching trade-off: positions, shapes and texts, calculated by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from engine.hardware.roofline import Ceilings
from pages.figures.colors import palette
from pages.figures.roofline.pass_time import FLOOR, MAX_GROUPS, group_text, pass_time_bars, sample_pass_time
from pages.figures.roofline.roofline import Roof, bandwidth_text, rate_text, roofline, sample_points
from pages.figures.what_if.what_if import batch_trade, sample_rows
from tests.support.figures import json_bytes
from tests.support.no_break import nb

CEILINGS = Ceilings(read_bytes_per_s=100e9, flop_per_s=1e12, launch_s=1e-6, kernels_per_pass=1)
ROOF = Roof(name="card", ceilings=CEILINGS, dtype="bf16", launch_bytes_per_s=20e9)


def trace(figure: Any, name: str) -> Any:
    return next(t for t in figure.data if (t.name or "").strip("\u00a0") == name)


def texts(figure: Any) -> list[str]:
    return [annotation.text for annotation in figure.layout.annotations]


def test_the_roof_bends_at_the_balance_point() -> None:
    figure = roofline(sample_points(("static",)), ROOF)
    x, y = trace(figure, "roof").x, trace(figure, "roof").y
    assert x[1] == pytest.approx(10.0)  # 1 TFLOP/s over 100 GB/s
    assert y[0] == pytest.approx(100e9 * x[0])
    assert (y[1], y[2]) == pytest.approx((1e12, 1e12))
    assert "balance point 10.0" in texts(figure)
    assert nb("bandwidth 100 GB/s") in texts(figure)
    assert nb("bf16 compute 1.00 TFLOP/s") in texts(figure)


def test_kinds_have_colors_and_shapes_and_runs_have_fills() -> None:
    figure = roofline(sample_points(("static", "continuous")), ROOF)
    colors = palette(False)
    assert trace(figure, "static decode").marker.symbol == "circle"
    assert trace(figure, "continuous decode").marker.symbol == "circle-open"
    assert trace(figure, "static prefill").marker.symbol == "diamond"
    assert trace(figure, "static decode").marker.color == colors.decode
    assert trace(figure, "continuous prefill").marker.color == colors.prefill


def test_no_gap_above_a_legend_of_one_line() -> None:
    """A legend line is about 20 pixels high; the title has separate space."""
    figure = roofline(sample_points(("static",)), ROOF)
    above_px = figure.layout.margin.t - (figure.layout.legend.y - 1) * 400
    assert above_px == pytest.approx(22)
    parts = sample_pass_time(is_split=False).assign(floor_s=np.nan)
    one, three = pass_time_bars(parts, title="Decode"), pass_time_bars(sample_pass_time(), title="Decode")
    assert (one.layout.margin.t, three.layout.margin.t) == (58, 98)


def test_a_mark_has_its_passes_and_rates() -> None:
    decode = trace(roofline(sample_points(("static",)), ROOF), "decode pass")
    assert list(decode.x[:2]) == [0.5, 1.0]
    assert "40 passes" in decode.hovertext[0]
    assert "1 rows, 90 columns wide" in decode.hovertext[0]
    assert decode.marker.size[0] > decode.marker.size[-1]  # 40 passes against 2


def test_the_launch_line_is_drawn_only_below_the_bandwidth_line() -> None:
    launches = trace(roofline(sample_points(), ROOF), "launch-bound")
    assert launches.y[0] == pytest.approx(20e9 * launches.x[0])
    quick = Roof(name="card", ceilings=CEILINGS, dtype="bf16", launch_bytes_per_s=200e9)
    assert not [t for t in roofline(sample_points(), quick).data if "launch" in (t.name or "")]


@pytest.mark.parametrize("dark", [False, True])
def test_one_point_no_point_and_no_roof_all_draw(dark: bool) -> None:
    one = sample_points(("static",)).head(1)
    none = one.head(0)
    assert roofline(one, None, dark=dark).data[0].name.startswith("decode pass")
    assert trace(roofline(none, ROOF, dark=dark), "roof")
    assert texts(roofline(none, None, dark=dark)) == ["No pass to draw."]


def test_a_figure_of_a_hundred_thousand_marks_is_small() -> None:
    draws = np.random.default_rng(0)
    count = 100_000
    many = pd.DataFrame(
        {
            "series": "run",
            "kind": draws.choice(["prefill", "decode", "mixed"], count),
            "rows": draws.integers(1, 512, count),
            "width": draws.integers(1, 4096, count),
            "passes": draws.integers(1, 1000, count),
            "seconds": draws.random(count),
            "intensity": draws.lognormal(2, 2, count),
            "flop_per_s": draws.lognormal(25, 2, count),
        }
    )
    assert json_bytes(roofline(many, ROOF)) < 2_000_000


def test_rates_are_powers_of_ten() -> None:
    assert rate_text(39.4e12) == nb("39.4 TFLOP/s")
    assert rate_text(58.26e9) == nb("58.3 GFLOP/s")
    assert rate_text(2e5) == nb("0.200 MFLOP/s")
    assert bandwidth_text(2.4e12) == nb("2.40 TB/s")
    assert bandwidth_text(318e9) == nb("318 GB/s")


def test_on_a_gpu_host_and_device_have_separate_bars() -> None:
    figure = pass_time_bars(sample_pass_time())
    issued, device = trace(figure, "host, launching"), trace(figure, "device, first to last kernel")
    assert list(issued.x) == pytest.approx([21, 17, 17.2])
    assert list(device.x) == pytest.approx([29, 21, 21.6])
    assert all(above < below for above, below in zip(issued.y, device.y, strict=True))
    assert list(trace(figure, FLOOR).x) == pytest.approx([6, 5.2, 5.5])


def test_on_a_cpu_there_is_one_bar() -> None:
    figure = pass_time_bars(sample_pass_time(is_split=False))
    assert [t.type for t in figure.data] == ["bar", "scatter"]
    assert list(figure.data[0].x) == pytest.approx([30, 22, 22.5])


def test_no_floor_without_a_calibration_and_a_limited_number_of_groups() -> None:
    parts = sample_pass_time().assign(floor_s=np.nan)
    assert [t.type for t in pass_time_bars(parts).data] == ["bar", "bar"]
    many = pd.concat([sample_pass_time().assign(rows_from=n, rows_to=n, passes=n) for n in range(1, 41)])
    assert len(pass_time_bars(many.reset_index(drop=True)).data[0].x) == MAX_GROUPS
    assert texts(pass_time_bars(parts.head(0))) == ["No pass has run yet."]


def test_groups_have_their_rows() -> None:
    row = {"series": "static", "kind": "decode", "rows_from": 5, "rows_to": 8, "passes": 412}
    assert group_text(row) == "static, decode, 5 to 8 rows (412 passes)"
    assert group_text(row | {"series": "", "rows_from": 1, "rows_to": 1, "passes": 1}) == "decode, 1 row (1 pass)"


def test_the_trade_off_draws_both_rates_and_linear_scaling() -> None:
    figure = batch_trade(sample_rows(), free_until=64, wall=200, reading_tokens_per_s=5.3)
    linear, total = trace(figure, "linear scaling"), trace(figure, "total")
    alone = 1 / 0.01625
    assert list(linear.y[:2]) == pytest.approx([alone, 2 * alone])
    assert total.y[1] == pytest.approx(2 / 0.0165)
    assert list(total.x) == [1, 2, 4, 8, 16, 32, 64, 128]  # 256 does not fit
    beyond = [t for t in figure.data if t.opacity == 0.35]
    assert [list(t.x) for t in beyond] == [[128, 256], [128, 256]]
    assert {"free until 64", "memory limit 200", nb("reading speed, 5.30 tokens/s")} <= set(texts(figure))


def test_the_trade_off_of_one_size_of_none_that_fits_and_of_none() -> None:
    one = batch_trade(sample_rows().head(1), free_until=64, wall=200)
    assert list(trace(one, "total").x) == [1]
    assert not any("free until" in text for text in texts(one))  # it is outside the figure
    nothing_fits = batch_trade(sample_rows(), wall=0)
    assert all(t.opacity == 0.35 for t in nothing_fits.data if t.name and "total" in t.name)
    assert texts(batch_trade(sample_rows().head(0))) == ["No batch size to draw."]
