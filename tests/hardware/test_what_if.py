"""The table of a batched decode step against published and hand-computed values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.hardware.hardware_presets import hardware_preset
from engine.hardware.model_presets import model_shape
from engine.hardware.roofline import Ceilings
from engine.hardware.what_if import (
    WhatIf,
    cache_equals_weights,
    compute_bound_from,
    free_until,
    launch_bound_until,
    memory_wall,
    step_bytes,
    step_s,
    what_if_row,
    what_if_table,
)


def chapter(sequence_tokens: int = 2300, weight_bits: int = 16, utilization: float = 1.0) -> WhatIf:
    """An 8 B model on an H100, as published."""
    shape = model_shape("llama-3.1-8b", weight_bits=weight_bits)
    preset = hardware_preset("h100")
    return WhatIf(
        shape=shape,
        ceilings=preset.ceilings(shape),
        sequence_tokens=sequence_tokens,
        memory_bytes=preset.memory_bytes,
        utilization=utilization,
    )


def test_four_gpus_read_a_quarter_each_and_wait_for_the_all_reduces() -> None:
    """64 all-reduces of 17 us and of 8 rows x 4,096 x 2 bytes, of which 1.5 parts cross the link."""
    alone, link = chapter(), hardware_preset("h100").link
    four = replace(alone, ceilings=alone.ceilings.times(4), memory_bytes=4 * alone.memory_bytes, gpus=4, link=link)
    read_s = step_bytes(alone, 8) / 4 / 2.40e12
    assert step_s(four, 8) == pytest.approx(read_s + 64 * (17e-6 + 1.5 * 8 * 4096 * 2 / 394e9))
    assert step_bytes(four, 8) == step_bytes(alone, 8)
    assert memory_wall(four) == int((4 * 80e9 - alone.shape.weight_bytes) // alone.sequence_bytes)
    assert cache_equals_weights(four) == cache_equals_weights(alone)


def test_a_step_reads_the_weights_and_each_sequences_cache() -> None:
    # 8,030,261,248 weights of 2 bytes; 2,300 positions of 128 KiB
    assert step_bytes(chapter(), 1) == 16_060_522_496 + 301_465_600
    assert step_bytes(chapter(), 8) == 16_060_522_496 + 8 * 301_465_600
    assert step_s(chapter(), 8) == pytest.approx(18.472247296e9 / 2.40e12)


@pytest.mark.parametrize(
    ("batch_size", "published_s", "published_rate"), [(8, 7.8e-3, 128), (64, 14.1e-3, 1 / 14.1e-3), (128, 1 / 46, 46)]
)
def test_the_published_steps_are_met(batch_size: int, published_s: float, published_rate: float) -> None:
    row = what_if_row(chapter(), batch_size)
    assert row.step_s == pytest.approx(published_s, rel=0.08)
    assert row.tokens_per_s_per_request == pytest.approx(published_rate, rel=0.08)
    assert row.tokens_per_s == pytest.approx(batch_size * published_rate, rel=0.08)
    assert row.bound == "bandwidth"


def test_the_published_tradeoff_over_the_sweep() -> None:
    one, eight, sixty_four, most = what_if_table(chapter(), [1, 8, 64, 128])
    assert most.tokens_per_s / one.tokens_per_s == pytest.approx(41, rel=0.08)
    assert one.tokens_per_s_per_request / most.tokens_per_s_per_request == pytest.approx(3.1, rel=0.08)
    assert eight.tokens_per_s / one.tokens_per_s == pytest.approx(7.2, rel=0.03)
    assert eight.step_s / one.step_s == pytest.approx(1.11, abs=0.03)
    assert most.tokens_per_s / sixty_four.tokens_per_s == pytest.approx(1.31, abs=0.03)


def test_rows_are_free_until_the_cache_equals_the_weights() -> None:
    assert 53 <= free_until(chapter()) <= 60
    assert free_until(chapter()) == pytest.approx(53.27, abs=0.01)
    assert free_until(chapter(weight_bits=8)) == pytest.approx(53.27 / 2, abs=0.01)
    # at 16,000 tokens a sequence takes 2.1 GB, so all sizes are seven times smaller
    assert chapter(16_000).sequence_bytes == 2_097_152_000
    assert free_until(chapter()) / free_until(chapter(16_000)) == pytest.approx(16_000 / 2300)


def test_the_wall_is_where_the_cache_fills_memory() -> None:
    assert 186 <= memory_wall(chapter()) <= 223
    assert memory_wall(chapter()) == 212  # (80 - 16.06) GB / 0.3015 GB
    assert memory_wall(chapter(utilization=0.9)) == 185
    assert memory_wall(chapter(weight_bits=8)) == 238  # 8 GB more for the cache: 26.6 sequences
    held = [row.fits for row in what_if_table(chapter(), [212, 213])]
    assert held == [True, False]


def test_no_sequence_fits_if_the_weights_do_not() -> None:
    shape = model_shape("llama-3.1-8b")
    small = WhatIf(
        shape=shape,
        ceilings=hardware_preset("rtx3060").ceilings(shape),
        sequence_tokens=100,
        memory_bytes=12 * 2**30,
    )
    assert memory_wall(small) == 0
    assert not what_if_row(small, 1).fits


def test_eight_bit_weights_nearly_halve_a_small_step() -> None:
    ratio = step_s(chapter(), 1) / step_s(chapter(weight_bits=8), 1)
    assert ratio == pytest.approx(16.362 / 8.332, abs=0.001)


def simple(flop_per_s: float, launch_s: float = 0.0, execution: str = "graph") -> WhatIf:
    """A machine with 1 GB/s."""
    return WhatIf(
        shape=model_shape("tiny-random"),
        ceilings=Ceilings(read_bytes_per_s=1e9, flop_per_s=flop_per_s, launch_s=launch_s, kernels_per_pass=100),
        sequence_tokens=10,
        memory_bytes=10**9,
        execution=execution,
    )


def test_compute_bound_from_where_both_take_equal_time() -> None:
    case = simple(2e9)
    bend = compute_bound_from(case)
    # weights 303,744 bytes; a row reads 2,560 bytes and computes 2 x (86,336 + 32,768) + 512 x 10 FLOP at two a ns
    assert bend == pytest.approx(303_744 / (243_328 / 2 - 2560))
    assert what_if_row(case, 2).bound == "bandwidth"
    assert what_if_row(case, 3).bound == "compute"


def test_a_step_stays_bandwidth_bound_if_rows_read_slower_than_they_compute() -> None:
    assert compute_bound_from(simple(1e12)) is None
    assert what_if_row(simple(1e12), 10_000).bound == "bandwidth"


def test_launches_limit_the_first_rows() -> None:
    # 100 launches of 4 us are 400 us; weights take 303.7 us, a row 2.56 us: 37.6 rows until bytes take over
    case = simple(1e15, launch_s=4e-6, execution="eager")
    assert launch_bound_until(case) == pytest.approx((400_000 - 303_744) / 2560)
    assert [what_if_row(case, b).bound for b in (37, 38)] == ["launches", "bandwidth"]
    assert what_if_row(case, 1).step_s == pytest.approx(400e-6)
    assert launch_bound_until(simple(1e15, launch_s=4e-6)) == 0


@pytest.mark.parametrize("change", [{"sequence_tokens": 0}, {"utilization": 0.0}, {"utilization": 1.5}])
def test_invalid_cases_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="use"):
        chapter(**change)
    with pytest.raises(ValueError, match="batch size 0"):
        what_if_row(chapter(), 0)


def test_rows_are_free_until_the_slowest_resource_grows_with_them() -> None:
    """Weights take 303.7 us and a row 2.56 us: both are equal at 118.65 rows."""
    assert free_until(simple(1e15)) == pytest.approx(303_744 / 2560)
    # 100 launches of 4 us end at 37.6 rows, before; of 8 us at (800,000 - 303,744) / 2,560 = 193.85, after
    assert free_until(simple(1e15, launch_s=4e-6, execution="eager")) == pytest.approx(303_744 / 2560)
    slow = simple(1e15, launch_s=8e-6, execution="eager")
    assert free_until(slow) == pytest.approx(496_256 / 2560)
    assert step_s(slow, 193) == step_s(slow, 1) == pytest.approx(800e-6)
    # at 2 GFLOP/s computing takes over at 2.55 rows
    assert free_until(simple(2e9)) == pytest.approx(303_744 / (243_328 / 2 - 2560))
