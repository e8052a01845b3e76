"""The self-check calculators against hand-computed and published values."""

from __future__ import annotations

import pytest

from engine.hardware.self_check import (
    ceiling_shares,
    first_tokens,
    free_until,
    held_batch,
    job_s,
    largest_batch,
    launch_delay,
    logits_bytes,
    shared_read,
)

TTFT_S = {1: 0.044, 2: 0.040, 4: 0.071, 8: 0.133, 16: 0.285, 32: 0.511, 64: 1.007, 128: 2.010}
RATE = {1: 48.6, 2: 110.3, 4: 216.1, 8: 442.8, 16: 830.0, 32: 1536.1, 64: 2832.9, 128: 3872.3}


def test_weights_are_read_once_per_step_at_any_batch_size() -> None:
    alone, shared = shared_read(1.5e9, 2, 1), shared_read(1.5e9, 2, 64)
    assert alone.weights_bytes == shared.weights_bytes == 3e9
    assert shared.bytes_per_request == 46_875_000
    assert (alone.flop, shared.flop) == (3e9, 192e9)
    assert (alone.intensity, shared.intensity) == (1, 64)


@pytest.mark.parametrize(
    ("balance", "value_bytes", "batch"), [(50, 2, 50), (200, 2, 200), (86.8, 2, 86.8), (50, 1, 25)]
)
def test_a_higher_balance_point_is_free_for_longer(balance: float, value_bytes: int, batch: float) -> None:
    assert free_until(balance, value_bytes) == pytest.approx(batch)


def test_past_the_balance_point_both_shares_can_be_low() -> None:
    shares = ceiling_shares(104.2, 86.8, 0.4327)
    assert shares.bandwidth == pytest.approx(0.360, abs=0.001)  # the published column
    assert shares.binds == "compute"
    before = ceiling_shares(57.4, 86.8, 0.3166)
    assert before.bandwidth == pytest.approx(0.478, abs=0.001)
    assert before.binds == "bandwidth"


def test_first_tokens_with_one_prefill_or_in_groups() -> None:
    together = first_tokens(4, 100, 1000, 4)
    assert (together.first_s, together.mean_s, together.last_s) == pytest.approx((0.4, 0.4, 0.4))
    alone = first_tokens(4, 100, 1000, 1)
    assert (alone.first_s, alone.mean_s, alone.last_s) == pytest.approx((0.1, 0.25, 0.4))
    uneven = first_tokens(4, 100, 1000, 3)  # three wait 0.3 s, the fourth 0.4 s
    assert (uneven.first_s, uneven.mean_s, uneven.last_s) == pytest.approx((0.3, 0.325, 0.4))


@pytest.mark.parametrize("group", [0, 5])
def test_a_group_is_between_one_and_the_batch(group: int) -> None:
    with pytest.raises(ValueError, match="use a number from 1 to the batch size, 4"):
        first_tokens(4, 100, 1000, group)


def test_logits_of_all_positions_dwarf_those_of_the_last() -> None:
    kept = logits_bytes(128, 128, 151_936, 2)
    assert kept.all_bytes == 4_978_638_848
    assert kept.all_bytes / 2**30 == pytest.approx(4.64, abs=0.005)
    assert kept.last_bytes == kept.all_bytes // 128


def test_two_long_requests_hold_thirty_short_ones() -> None:
    batch = held_batch("30x20+2x1000")
    assert (batch.requests, batch.useful_slot_steps, batch.slot_steps) == (32, 2_600, 32_000)
    assert batch.wasted_fraction == pytest.approx(0.91875)
    assert batch.at_most_slower == 50
    measured = held_batch("8x32+8x256")
    assert (measured.useful_slot_steps, measured.slot_steps) == (2_304, 4_096)
    assert measured.wasted_fraction == 0.4375


@pytest.mark.parametrize("text", ["64", "eos", "8-48"])
def test_a_held_batch_needs_counted_requests(text: str) -> None:
    with pytest.raises(ValueError, match="30x20"):
        held_batch(text)


def test_the_largest_batch_within_a_ttft_limit() -> None:
    within = largest_batch(TTFT_S, RATE, 0.5)
    assert within is not None
    assert within.batch_size == 31  # 0.285 + 15/16 x 0.226 = 0.497; published: about 32
    assert within.ttft_s == pytest.approx(0.4969, abs=1e-4)
    assert within.output_tokens_per_s == pytest.approx(830 + 15 / 16 * 706.1)


def test_without_a_limit_the_fastest_batch_is_chosen() -> None:
    best = largest_batch(TTFT_S, RATE, None)
    assert best is not None
    assert (best.batch_size, best.output_tokens_per_s) == (128, 3872.3)


def test_a_limit_that_no_batch_meets() -> None:
    assert largest_batch({1: 0.1, 2: 0.2}, {1: 1.0, 2: 2.0}, 0.05) is None
    alone = largest_batch({4: 0.1}, {4: 9.0}, 0.1)
    assert alone is not None
    assert alone.batch_size == 4


def test_an_offline_job() -> None:
    assert job_s(1_000_000, 128, 3_872.3) / 3600 == pytest.approx(9.18, abs=0.005)


def test_extra_time_spread_over_launches() -> None:
    delay = launch_delay(20.57e-3, 17.5e-3, 1_123)
    assert delay.extra_s == pytest.approx(3.07e-3)
    assert delay.extra_launch_s == pytest.approx(2.734e-6, rel=1e-3)
    assert delay.times == pytest.approx(1.1754, abs=1e-4)
