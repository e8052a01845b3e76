"""Bytes and FLOP of passes by hand, and the ceilings."""

from __future__ import annotations

from itertools import pairwise

import pytest

from engine.core.config import RunConfig
from engine.core.passes import PassKind, PlannedPass
from engine.core.presets import make_scheduler
from engine.hardware.hardware_presets import HARDWARE, hardware_preset
from engine.hardware.model_presets import model_shape
from engine.hardware.roofline import (
    Ceilings,
    ModelShape,
    PassStats,
    bandwidth_fraction,
    causal_pairs,
    compute_fraction,
    decode_stats,
    intensity_flop_per_byte,
    pass_bytes,
    pass_flop,
    pass_stats,
)
from engine.hardware.step_cost import CostTerm, RooflineCost, roofline_cost
from tests.support.runs.simulated import prefill_stats
from tests.support.schedule import requests

# 1,000 parameters; 100 x 2 of them are the tied embedding; 4 query heads per KV head.
SHAPE = ModelShape(
    name="by hand",
    parameters=1000,
    layers=3,
    hidden=2,
    heads=4,
    kv_heads=1,
    head_dim=5,
    intermediate=7,
    vocab=100,
    tied_embeddings=True,
    value_bytes=2,
)


def test_the_bytes_of_a_position_are_those_of_the_kv_heads() -> None:
    assert SHAPE.kv_position_bytes == 2 * 3 * 1 * 5 * 2  # keys and values, 3 layers, one head of 5 values of 2 bytes
    assert SHAPE.weight_bytes == 2000
    assert SHAPE.with_weight_bits(8).weight_bytes == 1000
    assert SHAPE.with_weight_bits(8).kv_position_bytes == 60


def test_a_decode_pass_by_hand() -> None:
    stats = decode_stats(6, 11)
    assert pass_bytes(SHAPE, stats) == 2000 + 6 * 11 * 60
    # layers: 800 parameters for 6 tokens; logits: 200 for 6 rows; attention: 3 layers x 4 heads x 5 x 4 FLOP per pair
    assert pass_flop(SHAPE, stats) == 2 * 800 * 6 + 2 * 200 * 6 + 240 * 66
    assert intensity_flop_per_byte(SHAPE, stats) == pytest.approx(27_840 / 5960)


def test_a_prefill_computes_logits_of_only_the_last_position() -> None:
    stats = prefill_stats(2, 10)
    assert stats.tokens == 20
    assert stats.attention_pairs == 2 * 55  # 1 + 2 + … + 10, twice
    assert pass_flop(SHAPE, stats) == 2 * 800 * 20 + 2 * 200 * 2 + 240 * 110


def test_an_untied_embedding_is_read_and_adds_no_flop() -> None:
    untied = ModelShape(
        **{name: getattr(SHAPE, name) for name in SHAPE.__dataclass_fields__} | {"tied_embeddings": False}
    )
    assert untied.body_parameters == 600
    assert pass_bytes(untied, decode_stats(1, 1)) == pass_bytes(SHAPE, decode_stats(1, 1))


def test_a_mask_can_cost_copies_of_the_cache() -> None:
    masked = PassStats(
        kind=PassKind.DECODE,
        rows=2,
        decode_rows=2,
        segments=0,
        tokens=2,
        kv_positions=20,
        attention_pairs=20,
        width=10,
        masked=True,
    )
    assert pass_bytes(SHAPE, masked, masked_kv_reads=13.0) == 2000 + 13 * 20 * 60
    assert pass_bytes(SHAPE, decode_stats(2, 10), masked_kv_reads=13.0) == 2000 + 20 * 60


CEILINGS = Ceilings(read_bytes_per_s=1000.0, flop_per_s=5000.0, launch_s=0.5, kernels_per_pass=9)


def test_a_pass_takes_the_longest_of_reading_computing_and_launching() -> None:
    small, large = decode_stats(6, 11), prefill_stats(1, 100)
    graph, eager = roofline_cost(SHAPE, CEILINGS, "graph"), roofline_cost(SHAPE, CEILINGS, "eager")
    assert graph.pass_s(small) == pytest.approx(5960 / 1000)  # reading; 27,840 FLOP take 5.57 s
    assert eager.pass_s(decode_stats(1, 1)) == pytest.approx(4.5)  # nine launches; reading takes 2.06 s
    assert graph.pass_s(large) == pytest.approx((2 * 800 * 100 + 400 + 240 * 5050) / 5000)
    assert graph.issue_s == 0.5


def test_the_terms_of_a_pass_can_be_listed() -> None:
    cost, stats = roofline_cost(SHAPE, CEILINGS, "eager"), decode_stats(6, 11)
    assert cost.terms(stats) == (
        CostTerm(name="weights", resource="bandwidth", seconds=2.0),  # 2,000 bytes
        CostTerm(name="kv", resource="bandwidth", seconds=3.96),  # 66 positions of 60 bytes
        CostTerm(name="flop", resource="compute", seconds=27_840 / 5000),
        CostTerm(name="launches", resource="launches", seconds=4.5),
    )
    assert cost.pass_s(stats) == pytest.approx(2.0 + 3.96)
    assert cost.bound(stats) == "bandwidth"
    assert cost.bound(decode_stats(1, 1)) == "launches"
    assert cost.bound(prefill_stats(1, 100)) == "compute"


def test_shares_of_the_ceilings() -> None:
    stats = decode_stats(6, 11)
    assert CEILINGS.balance_flop_per_byte == 5.0
    assert bandwidth_fraction(SHAPE, stats, 11.92, CEILINGS) == pytest.approx(0.5)
    assert compute_fraction(SHAPE, stats, 11.136, CEILINGS) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("batch_size", "tpot_s", "intensity", "compute", "bandwidth"),
    [(1, 20.57e-3, 1.0, 0.54, 47.2), (8, 18.07e-3, 7.9, 4.95, 54.5), (64, 22.59e-3, 57.4, 31.66, 47.8)],
)
def test_a_published_sweep_of_a_small_model(
    batch_size: int, tpot_s: float, intensity: float, compute: float, bandwidth: float
) -> None:
    """An RTX 3060 at a mean context of 192; the source leaves out attention's FLOP, which are 1 %."""
    shape = model_shape("qwen2.5-1.5b")
    ceilings = hardware_preset("rtx3060").ceilings(shape)
    stats = decode_stats(batch_size, 192)
    assert intensity_flop_per_byte(shape, stats) == pytest.approx(intensity, rel=0.02)
    assert 100 * compute_fraction(shape, stats, tpot_s, ceilings) == pytest.approx(compute, rel=0.02)
    assert 100 * bandwidth_fraction(shape, stats, tpot_s, ceilings) == pytest.approx(bandwidth, rel=0.02)
    assert ceilings.balance_flop_per_byte == pytest.approx(86.8, abs=0.1)


def first_passes(engine: str, prompts: list[int], **more: int) -> list[tuple[PlannedPass, PassStats]]:
    """The passes of the first two steps, each with its stats when it is planned."""
    scheduler = make_scheduler(
        RunConfig(engine=engine, slots=len(prompts), **more), requests([9] * len(prompts), prompts=prompts)
    )
    scheduler.submit_arrived(0.0)
    passes = []
    for _ in range(2):
        scheduler.admit(0.0)
        for kind in scheduler.kinds:
            if planned := scheduler.plan(kind):
                passes.append((planned, pass_stats(planned)))
                scheduler.complete(planned)
    return passes


def test_slots_read_the_widest_row_for_all_and_prefill_real_tokens() -> None:
    (_, prefill), (_, decode), *_ = first_passes("continuous", [3, 10])
    assert (prefill.tokens, prefill.rows, prefill.segments) == (13, 2, 2)
    assert prefill.attention_pairs == 6 + 55
    assert (decode.kv_positions, decode.width, decode.masked) == (2 * 11, 11, True)
    assert (decode.tokens, decode.rows, decode.decode_rows) == (2, 2, 2)


def test_a_padded_batch_computes_its_padding_and_a_full_square_of_scores() -> None:
    (_, prefill), (_, decode), *_ = first_passes("static", [3, 10])
    assert (prefill.tokens, prefill.kv_positions, prefill.attention_pairs) == (20, 20, 200)
    assert (decode.kv_positions, decode.masked) == (22, True)
    (_, uniform), *_ = first_passes("static", [10, 10])
    assert uniform.attention_pairs == 110
    assert not uniform.masked


def test_paged_rows_are_read_at_their_true_length() -> None:
    (_, prefill), (_, decode), *_ = first_passes("paged", [3, 10])
    assert (prefill.tokens, prefill.attention_pairs, prefill.kv_positions) == (13, 61, 13)
    assert (decode.kv_positions, decode.attention_pairs, decode.masked) == (4 + 11, 15, False)


def test_a_mixed_pass_adds_its_chunk_to_the_decoding_rows() -> None:
    # 8 tokens per step: all 3 of the first prompt and 5 of the second; then a decoding row and the last 5.
    (_, first), (planned, mixed) = first_passes("chunked", [3, 10], max_num_batched_tokens=8)
    assert (first.tokens, first.rows, first.segments) == (8, 1, 2)
    assert first.attention_pairs == 6 + 15
    assert planned.kind is PassKind.MIXED
    assert (mixed.tokens, mixed.rows, mixed.decode_rows, mixed.segments) == (6, 2, 1, 1)
    assert mixed.kv_positions == 4 + 10
    assert mixed.attention_pairs == 4 + (6 + 7 + 8 + 9 + 10)
    assert causal_pairs(5, 5) == 40


@pytest.mark.parametrize("name", HARDWARE)
def test_every_preset_names_its_source(name: str) -> None:
    preset = hardware_preset(name)
    assert len(preset.source) > 60
    for rate, nominal in (
        (preset.read_bytes_per_s, preset.nominal_read_bytes_per_s),
        (preset.flop_per_s, preset.nominal_flop_per_s),
    ):
        assert nominal is None or 0.2 < rate / nominal < 1
    shape = model_shape("llama-3.1-8b")
    cost: RooflineCost = roofline_cost(shape, preset.ceilings(shape), "graph")
    times = [cost.pass_s(decode_stats(b, 2300)) for b in (1, 8, 64, 512)]
    assert all(a < b for a, b in pairwise(times))


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="use one of a10, rtx3060, a100, h100, h200, or this"):
        hardware_preset("h900")
