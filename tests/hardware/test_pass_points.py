"""Measured passes on a roofline: bytes, FLOP, shares and bends by hand, for a small model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.hardware.model_presets import model_shape
from engine.hardware.pass_points import measured_bend, pass_points, predicted_bend, summed_stats, utilization
from engine.hardware.roofline import Ceilings, ModelShape
from store import Store
from tests.support.runs.page_runs import write_run

# Weights 2,000 bytes, a cached position 16 bytes, 872 parameters in the layers, 128 in the table, 32 FLOP per score.
SHAPE = ModelShape(
    name="small",
    parameters=1000,
    layers=1,
    hidden=8,
    heads=2,
    kv_heads=1,
    head_dim=4,
    intermediate=8,
    vocab=16,
    value_bytes=2,
    weight_bits=16,
    tied_embeddings=True,
)
CEILINGS = Ceilings(read_bytes_per_s=100_000, flop_per_s=200_000, launch_s=1e-6, kernels_per_pass=10)


def row(kind: str, **values: Any) -> dict[str, Any]:
    """A bin; by default one pass of two rows without prompts."""
    usual = {"kind": kind, "masked": False, "passes": 1, "rows": 2, "chunk_rows": 0, "tokens": 2, "prompt_tokens": 0}
    usual |= {"computed_positions": 0, "squared_lengths": math.nan, "row_squares": 0, "width": 10, "seconds": 0.1}
    return usual | {"median_s": 0.1} | values


def test_three_decode_passes_read_their_weights_three_times() -> None:
    bins = [row("decode", passes=3, rows=6, tokens=6, computed_positions=60, width=30, seconds=0.3)]
    (point,) = pass_points(bins, SHAPE)
    assert point.read_bytes == 3 * 2000 + 60 * 16
    assert point.flop == 2 * 872 * 6 + 2 * 128 * 6 + 32 * 60
    assert (point.rows, point.width) == (2, 10)
    assert point.intensity == pytest.approx(2.0)
    assert point.flop_per_s == pytest.approx(46_400)
    assert point.bytes_per_s == pytest.approx(23_200)


def test_a_prefill_scores_each_prompts_own_triangle() -> None:
    known = summed_stats(row("prefill", computed_positions=8, tokens=8, squared_lengths=3 * 3 + 5 * 5))
    assert known.attention_pairs == 6 + 15
    assert (known.tokens, known.kv_positions, known.rows, known.decode_rows) == (8, 8, 2, 0)
    unknown = summed_stats(row("prefill", computed_positions=8, tokens=8))
    assert unknown.attention_pairs == 2 * 10  # as two prompts of 4


def test_a_masked_prefill_scores_full_squares() -> None:
    stats = summed_stats(row("prefill", masked=True, computed_positions=10, row_squares=2 * 25, squared_lengths=34))
    assert stats.attention_pairs == 50
    assert stats.tokens == 10


def test_a_mixed_pass_is_split_by_its_prompt_tokens() -> None:
    # Two rows decode over 20 positions; 6 prompt tokens in two chunks, one of which ends its prompt.
    stats = summed_stats(row("mixed", rows=3, chunk_rows=1, tokens=8, prompt_tokens=6, computed_positions=26))
    assert (stats.decode_rows, stats.segments, stats.tokens, stats.kv_positions) == (2, 2, 8, 26)
    assert stats.attention_pairs == 20 + 2 * 6  # as two chunks of 3


def test_shares_of_the_ceilings_by_kind() -> None:
    bins = [
        row("decode", passes=3, rows=6, tokens=6, computed_positions=60, width=30, seconds=0.3, median_s=0.1),
        row("decode", passes=1, rows=2, tokens=2, computed_positions=40, width=20, seconds=0.2, median_s=0.2),
        row("prefill", computed_positions=8, tokens=8, squared_lengths=34, seconds=0.5, median_s=0.5),
    ]
    prefill, decode = utilization(pass_points(bins, SHAPE), CEILINGS)
    assert (prefill.kind, decode.kind) == ("prefill", "decode")
    assert decode.passes == 4
    assert decode.mbu == pytest.approx((6960 + 2640) / 0.5 / 100_000)
    assert decode.mfu == pytest.approx((13_920 + 5280) / 0.5 / 200_000)
    assert decode.median_s == 0.1
    assert prefill.mbu == pytest.approx(2128 / 0.5 / 100_000)
    assert prefill.mfu == pytest.approx((2 * 872 * 8 + 2 * 128 * 2 + 32 * 21) / 0.5 / 200_000)


def test_without_ceilings_shares_are_unknown_and_rates_are_not() -> None:
    (used,) = utilization(pass_points([row("decode", computed_positions=20)], SHAPE), None)
    assert math.isnan(used.mbu)
    assert used.bytes_per_s == pytest.approx(23_200)


def test_passes_without_duration_are_left_out() -> None:
    assert pass_points([row("decode", seconds=0.0)], SHAPE) == ()


def test_the_predicted_bend_is_past_the_balance_point_since_rows_add_bytes() -> None:
    shape = model_shape("qwen2.5-1.5b")
    # B x (2 x 1.5437e9 + 172,032 x 192) / (2 x 1.5437e9 + B x 192 x 28,672) = 86.8
    weights, flop = 2 * 1_543_714_304, 2 * 1_543_714_304 + 172_032 * 192
    by_hand = 86.8 * weights / (flop - 86.8 * 192 * 28_672)
    assert predicted_bend(shape, 192, 86.8) == pytest.approx(by_hand, abs=1.5)
    assert 64 < by_hand < 128
    assert predicted_bend(shape, 1, 86.8) == 87  # almost nothing cached: about the balance point


def test_long_rows_never_reach_the_balance_point() -> None:
    assert predicted_bend(model_shape("qwen2.5-1.5b"), 4096, 86.8) is None


LESSON_MS = {1: 20.57, 2: 18.14, 4: 18.51, 8: 18.07, 16: 19.28, 32: 20.83, 64: 22.59, 128: 33.06}


def test_the_published_bend_is_found() -> None:
    bend = measured_bend(LESSON_MS)
    assert bend is not None
    assert (bend.low, bend.high) == (64, 128)
    assert bend.growth == pytest.approx(1.463, abs=0.001)


def test_a_flat_curve_has_no_bend_up_to_its_largest_size() -> None:
    bend = measured_bend({size: ms for size, ms in LESSON_MS.items() if size <= 64})
    assert bend is not None
    assert (bend.smallest, bend.low, bend.high) == (1, 64, None)
    assert bend.growth == pytest.approx(22.59 / 20.57)


def test_neighbors_are_not_compared_and_one_size_has_no_bend() -> None:
    assert measured_bend({7: 1.0, 8: 1.5}) is None
    assert measured_bend({8: 1.5}) is None
    assert measured_bend({}) is None
    skipped = measured_bend({1: 1.0, 2: 1.1, 3: 1.9, 4: 1.2})  # the slow 3 is between two doublings
    assert skipped is not None
    assert skipped.high is None


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    write_run(tmp_path / "runs", "r1", "static")
    write_run(tmp_path / "runs", "r2", "continuous")
    opened = Store(tmp_path)
    opened.ingest.all_in(tmp_path / "runs")
    yield opened
    opened.close()


def test_the_store_adds_passes_up_by_shape(store: Store) -> None:
    bins = {(r["kind"], r["rows_from"]): r for r in store.passes.bins(["r1"]).to_dict("records")}
    assert set(bins) == {("prefill", 2), ("decode", 2)}
    prefill, decode = bins["prefill", 2], bins["decode", 2]
    assert (prefill["passes"], prefill["tokens"], prefill["squared_lengths"]) == (1, 32, 2 * 256)
    assert (decode["passes"], decode["rows"], decode["computed_positions"]) == (3, 6, 2 * (17 + 18 + 19))
    assert decode["seconds"] == pytest.approx(0.3)
    assert decode["median_s"] == pytest.approx(0.1)


def test_the_store_adds_several_runs_up_by_rows(store: Store) -> None:
    bins = store.passes.bins(["r1", "r2"], by="rows")
    decode = {int(r["rows_from"]): r for r in bins[bins["kind"] == "decode"].to_dict("records")}
    assert decode[2]["passes"] == 4  # three of static, one of continuous
    assert decode[1]["passes"] == 2
    assert decode[1]["median_s"] == pytest.approx(0.05)
    assert store.passes.bins(["nobody"]).empty
    assert store.passes.bins([]).empty
