"""The table of a sweep: a published table, failures, repeats and controls, with hand-computed values."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.core.units import GIB
from engine.experiments.sweep_table import SweepRow, choose_batch, sweep_rows
from engine.hardware.model_presets import model_shape
from engine.hardware.roofline import Ceilings

# Published: Qwen2.5-1.5B in bf16 on an RTX 3060, prompts of 128, 128 new tokens. B, TTFT s, TPOT ms, tokens/s a
# request, tokens/s, peak GiB, FLOP a byte, % of the arithmetic ceiling, % of the read ceiling.
PUBLISHED = (
    (1, 0.044, 20.57, 48.6, 48.6, 2.90, 1.0, 0.54, 47.2),
    (2, 0.040, 18.14, 55.1, 110.3, 2.91, 2.0, 1.23, 53.7),
    (4, 0.071, 18.51, 54.0, 216.1, 2.93, 4.0, 2.41, 52.8),
    (8, 0.133, 18.07, 55.4, 442.8, 2.98, 7.9, 4.95, 54.5),
    (16, 0.285, 19.28, 51.9, 830.0, 3.07, 15.6, 9.27, 51.8),
    (32, 0.511, 20.83, 48.0, 1536.1, 3.25, 30.3, 17.16, 49.2),
    (64, 1.007, 22.59, 44.3, 2832.9, 3.61, 57.4, 31.66, 47.8),
    (128, 2.010, 33.06, 30.3, 3872.3, 4.33, 104.2, 43.27, 36.0),
)
CEILINGS = Ceilings(read_bytes_per_s=318e9, flop_per_s=27.6e12, launch_s=0.0, kernels_per_pass=0)


def point(batch_size: int, **more: Any) -> dict[str, Any]:
    """A flat point of a static batch: p128, 128 output tokens per row."""
    return {
        "engine": "static",
        "prompts": "p128",
        "prompt_tokens": 128,
        "batch_size": batch_size,
        "role": "point",
        "repeat": 0,
        "status": "completed",
        "run_id": f"run{batch_size}",
        "requests": batch_size,
        "output_tokens": 128 * batch_size,
        **more,
    }


def published_rows() -> list[SweepRow]:
    points = [
        point(
            b,
            ttft_p50_s=ttft,
            tpot_p50_s=tpot / 1e3,
            duration_s=ttft + 127 * tpot / 1e3,
            peak_memory_bytes=gib * GIB,
        )
        for b, ttft, tpot, _, _, gib, *_ in PUBLISHED
    ]
    return sweep_rows(points, CEILINGS, model_shape("qwen2.5-1.5b"))


def test_a_published_table_column_for_column() -> None:
    """From TTFT, TPOT and the peak alone; the mean context is 128 + 128 / 2 = 192."""
    assert model_shape("qwen2.5-1.5b").parameters == pytest.approx(1.5437e9, rel=1e-4)
    for row, published in zip(published_rows(), PUBLISHED, strict=True):
        b, ttft, tpot, each, all_rows, gib, intensity, compute, read = published
        assert (row.batch_size, row.ttft_s, row.status) == (b, ttft, "completed")
        assert row.tpot_s == pytest.approx(tpot / 1e3)
        assert row.tokens_per_s_per_request == pytest.approx(each, rel=0.002)
        assert row.decode_tokens_per_s == pytest.approx(all_rows, rel=0.002)
        assert row.peak_memory_bytes == gib * GIB
        assert row.intensity_flop_per_byte == pytest.approx(intensity, rel=0.02)
        assert row.compute_fraction == pytest.approx(compute / 100, rel=0.02)
        assert row.bandwidth_fraction == pytest.approx(read / 100, rel=0.02)


def test_58_times_the_throughput_for_10_percent_of_tpot() -> None:
    rows = {row.batch_size: row for row in published_rows()}
    one, many = rows[1], rows[64]
    assert many.decode_tokens_per_s
    assert one.decode_tokens_per_s
    assert many.tpot_s
    assert one.tpot_s
    assert round(many.decode_tokens_per_s / one.decode_tokens_per_s) == 58
    assert many.tpot_s / one.tpot_s - 1 == pytest.approx(0.098, abs=0.001)
    assert many.linear_tokens_per_s == pytest.approx(64 * one.decode_tokens_per_s)


def test_ttft_grows_in_proportion_to_the_batch() -> None:
    """From B = 8 on TTFT is within 12 % of 16 ms per row."""
    for row in published_rows()[3:]:
        assert row.ttft_s == pytest.approx(0.016 * row.batch_size, rel=0.12)


def test_the_chosen_batch_is_a_measured_one() -> None:
    """TTFT below 0.5 s: B = 16. B = 32 misses the limit by 2.2 %; the published text rounds to "about 32"."""
    choice = choose_batch(published_rows(), ttft_limit_s=0.5)
    assert choice.chosen
    assert choice.next_up
    assert choice.fastest
    assert choice.chosen.batch_size == 16
    assert choice.next_up.batch_size == 32
    assert choice.over_ttft == pytest.approx(0.022)
    assert choice.over_tpot is None
    assert choice.next_up.decode_tokens_per_s == pytest.approx(1536, rel=1e-3)
    assert choice.fastest.batch_size == 128
    assert choice.ttft_cost == pytest.approx(2.010 / 0.285)
    assert choice.tpot_cost == pytest.approx(33.06 / 19.28)
    assert choice.throughput_gain == pytest.approx(3872.3 / 830.0, rel=2e-3)


def test_the_chosen_batch_is_within_both_limits_or_none() -> None:
    rows = published_rows()
    both = choose_batch(rows, ttft_limit_s=3, tpot_limit_s=0.021)
    assert both.chosen
    assert both.chosen.batch_size == 32
    assert (both.over_ttft, both.over_tpot) == (None, pytest.approx(22.59 / 21 - 1))
    nothing = choose_batch(rows, ttft_limit_s=0.01)
    assert nothing.chosen is None
    assert nothing.next_up
    assert nothing.next_up.batch_size == 1
    assert nothing.throughput_gain is None
    free = choose_batch(rows)
    assert free.chosen == free.fastest
    assert free.next_up is None
    assert choose_batch([]).fastest is None


def test_a_slower_smaller_batch_does_not_exclude_larger_ones() -> None:
    """B = 1 is slower than B = 2 in the table: a TPOT limit between the two still allows B = 8."""
    choice = choose_batch(published_rows(), tpot_limit_s=0.0190)
    assert choice.chosen
    assert choice.chosen.batch_size == 8


def test_serial_time_and_speedup() -> None:
    """Eight rows took 2 s and one took 1 s, so eight in series take 8 s."""
    rows = sweep_rows([point(1, duration_s=1.0, tpot_p50_s=0.1), point(8, duration_s=2.0, tpot_p50_s=0.1)])
    assert [(row.serial_s, row.speedup) for row in rows] == [(1.0, 1.0), (8.0, 4.0)]
    alone = sweep_rows([point(8, duration_s=2.0)])[0]
    assert (alone.serial_s, alone.speedup, alone.linear_tokens_per_s) == (None, None, None)


def test_rows_are_medians_over_repeats_with_their_spread() -> None:
    """120, 100 and 110 tokens/s: the median is 110, the spread (120 - 100) / 110."""
    points = [
        point(2, repeat=i, run_id=f"r{i}", output_tokens_per_s=rate, ttft_p50_s=ttft)
        for i, (rate, ttft) in enumerate([(120.0, 0.3), (100.0, 0.1), (110.0, 0.2)])
    ]
    row = sweep_rows(points)[0]
    assert (row.output_tokens_per_s, row.ttft_s, row.repeats, row.completed) == (110.0, 0.2, 3, 3)
    assert row.spread == pytest.approx(20 / 110)
    assert row.run_ids == ("r0", "r1", "r2")
    assert sweep_rows(points[:1])[0].spread is None


def test_a_failed_repeat_is_shown_and_not_averaged() -> None:
    good = point(4, output_tokens_per_s=100.0)
    why = {"oom_where": "prefill", "error": "out of memory"}
    bad = point(4, repeat=1, status="oom", asked_bytes=4.7e9, free_bytes=1e9, **why)
    row = sweep_rows([good, bad])[0]
    assert (row.status, row.completed, row.repeats, row.output_tokens_per_s) == ("oom", 1, 2, 100.0)
    assert (row.asked_bytes, row.free_bytes, row.oom_where) == (4_700_000_000, 1_000_000_000, "prefill")


def test_points_that_never_ran_have_a_row_without_numbers() -> None:
    """As the store delivers them: NaN for a missing number, None or NaN for missing text."""
    nan = math.nan
    figures = {"tpot_p50_s": nan, "output_tokens_per_s": nan, "asked_bytes": nan}
    failed = point(8, status="failed", run_id=None, error="boom", **figures)
    pending = point(16, status="pending", run_id=nan, error=nan, tpot_p50_s=nan, oom_where=nan)
    rows = sweep_rows([failed, pending], CEILINGS, model_shape("qwen2.5-1.5b"))
    assert [(r.status, r.error, r.tpot_s, r.intensity_flop_per_byte, r.asked_bytes, r.run_ids) for r in rows] == [
        ("failed", "boom", None, None, None, ()),
        ("pending", None, None, None, None, ()),
    ]
    assert sweep_rows([]) == []


def test_a_ragged_batch_is_compared_with_its_control() -> None:
    """40 of 120 tokens/s: a third. It has no rate per request and no serial time, even with a batch of one."""
    mix = {"prompts": "p16:1,p128:1", "role": "ragged"}
    rows = sweep_rows(
        [
            point(1, duration_s=1.0, tpot_p50_s=0.1, output_tokens_per_s=10.0),
            point(8, output_tokens_per_s=40.0, tpot_p50_s=0.2, duration_s=9.0, kv_unused_fraction=0.483, **mix),
            point(8, role="control", output_tokens_per_s=120.0, tpot_p50_s=0.05, duration_s=2.0),
        ]
    )
    _, ragged, control = rows
    assert ragged.of_control == pytest.approx(1 / 3)
    assert ragged.kv_unused_fraction == 0.483
    assert (ragged.decode_tokens_per_s, ragged.serial_s, ragged.speedup) == (None, None, None)
    assert (control.decode_tokens_per_s, control.speedup, control.of_control) == (pytest.approx(160.0), 4.0, None)


def test_the_serial_engine_decodes_one_row_at_a_time() -> None:
    """Eight requests through one slot: the rate of one row, not eight times that."""
    row = sweep_rows([point(8, engine="serial", tpot_p50_s=0.1)])[0]
    assert row.decode_tokens_per_s == pytest.approx(10.0)


def test_without_ceilings_there_are_no_shares() -> None:
    shape = model_shape("qwen2.5-1.5b")
    row = sweep_rows([point(4, tpot_p50_s=0.02)], None, shape)[0]
    assert row.intensity_flop_per_byte == pytest.approx(4.0, rel=0.02)
    assert (row.compute_fraction, row.bandwidth_fraction) == (None, None)
    assert sweep_rows([point(4, tpot_p50_s=0.02)], CEILINGS)[0].intensity_flop_per_byte is None
