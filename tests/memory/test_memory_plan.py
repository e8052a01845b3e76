"""The memory plan with hand-computed numbers: terms, pieces, layouts, walls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from engine.core.errors import FieldError
from engine.core.request import Length
from engine.core.units import GIB
from engine.hardware.model_presets import model_shape
from engine.memory.memory_model import pass_memory
from engine.memory.memory_plan import (
    EngineShape,
    MemoryGrid,
    MemoryPoint,
    kv_positions,
    largest_pass_tokens,
    memory_point,
    memory_points,
    walls,
)

QWEN = model_shape("qwen2.5-1.5b", dtype="fp16")
A10_BYTES = int(22.06 * GIB)
TRIED = {16: 1024, 64: 1024, 256: 1024, 1024: 512, 4096: 128}  # the largest batch of each prompt length
POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def grid(**changes: Any) -> MemoryGrid:
    base = MemoryGrid(prompt_tokens=(16,), batch_sizes=(1,), budget_tokens=256, capacity_bytes=A10_BYTES)
    return replace(base, **changes)


def lengths(*pairs: tuple[int, int]) -> list[Length]:
    return [Length(prompt_tokens=prompt, budget_tokens=budget) for prompt, budget in pairs]


def tried() -> Iterator[MemoryPoint]:
    for prompt, largest in TRIED.items():
        for size in POWERS:
            if size <= largest:
                yield memory_point(QWEN, grid(), prompt, size)


def test_exactly_five_of_the_measured_configurations_do_not_fit() -> None:
    failed = {(p.prompt_tokens, p.batch_size): p.shortage for p in tried() if not p.fits}
    assert set(failed) == {(256, 1024), (1024, 256), (1024, 512), (4096, 64), (4096, 128)}
    assert all(shortage is not None and shortage.term == "mlp_activation" for shortage in failed.values())
    asked = {place: shortage.asked_bytes for place, shortage in failed.items() if shortage is not None}
    small, large = 256 * 1024 * 8960 * 2, 512 * 1024 * 8960 * 2
    assert (small / GIB, large / GIB) == (4.375, 8.75)
    assert asked == {
        (256, 1024): small,
        (1024, 256): small,
        (1024, 512): large,
        (4096, 64): small,
        (4096, 128): large,
    }


def test_with_two_mlp_pieces_one_of_the_five_would_fit() -> None:
    """8.75 GiB of cache, 2.88 of weights and 8.75 of activations are 20.4 GiB: the third piece fails."""
    point = memory_point(QWEN, grid(), 1024, 256)
    assert point.shortage is not None
    assert point.need.weights_bytes + point.need.kv_bytes + 2 * point.shortage.asked_bytes < A10_BYTES
    assert point.shortage.free_bytes == A10_BYTES - 3_087_428_608 - 256 * 1280 * 28_672 - 2 * 256 * 1024 * 8960 * 2


def test_each_term_of_a_batch_by_hand() -> None:
    point = memory_point(QWEN, grid(), 16, 1024)
    assert point.to_dict() == {
        "prompt_tokens": 16,
        "batch_size": 1024,
        "fits": True,
        "failing_term": None,
        "asked_bytes": None,
        "free_bytes": None,
        "weights_bytes": 2 * 1_543_714_304,
        "kv_bytes": 1024 * (16 + 256) * 2 * 28 * 2 * 128 * 2,
        "mlp_activation_bytes": 3 * 1024 * 16 * 8960 * 2,
        "logits_bytes": 311_164_928,
        "logits_fp32_bytes": 622_329_856,
        "total_bytes": 3_087_428_608 + 7_985_954_816 + 880_803_840 + 311_164_928 + 622_329_856,
    }
    assert round((point.need.logits_bytes + point.need.logits_fp32_bytes) / 1e6) == 933


def test_logits_of_all_positions_take_gibibytes_and_of_the_last_ones_megabytes() -> None:
    shape = EngineShape(logits_of_all=True, sampled_in_fp32=False)
    need = memory_point(QWEN, grid(shape=shape, budget_tokens=128), 128, 128).need
    assert need.logits_bytes == 128 * 128 * 151_936 * 2
    assert round(need.logits_bytes / GIB, 1) == 4.6
    last = memory_point(QWEN, grid(shape=replace(shape, logits_of_all=False), budget_tokens=128), 128, 128).need
    assert last.logits_bytes == 128 * 151_936 * 2


def test_a_capped_pool_moves_the_wall() -> None:
    """p256 with 256 new tokens: 128 rows take 1.75 GiB of cache, 256 rows 3.5 GiB."""
    fits, fails = memory_points(QWEN, grid(prompt_tokens=(256,), batch_sizes=(128, 256), pool_bytes=2 * GIB))
    assert fits.fits
    assert fits.need.kv_bytes == 1.75 * GIB
    assert fails.shortage is not None
    assert (fails.shortage.term, fails.shortage.asked_bytes, fails.shortage.free_bytes) == (
        "kv_pool",
        3.5 * GIB,
        2 * GIB,
    )


def test_about_two_hundred_long_sequences_fill_an_80_gb_gpu() -> None:
    llama = model_shape("llama-3.1-8b", dtype="bf16")
    (wall,) = walls(
        llama,
        grid(
            prompt_tokens=(2284,),
            batch_sizes=(128, 256),
            budget_tokens=17,
            capacity_bytes=80_000_000_000,
            shape=EngineShape(engine="chunked"),
        ),
    )
    # 2,300 positions are 144 blocks of 16; a step reads 512 tokens; one block in a hundred is kept free.
    rest = 80_000_000_000 - 2 * 8_030_261_248 - 3 * 512 * 14_336 * 2
    by_hand = rest / (144 * 16 * 131_072 / 0.99 + 128_256 * 6)
    assert wall.largest == int(by_hand) == 208
    assert wall.first_failing is not None
    assert wall.first_failing.batch_size == 256
    assert wall.to_dict()["failing_term"] == "kv_cache"


def test_weights_can_exceed_memory() -> None:
    (wall,) = walls(QWEN, grid(capacity_bytes=3 * 10**9))
    assert wall.largest == 0
    assert wall.to_dict()["failing_term"] == "weights"
    assert wall.to_dict()["asked_bytes"] == 3_087_428_608


def test_a_wall_is_between_a_batch_that_fits_and_the_next() -> None:
    for wall in walls(QWEN, grid(prompt_tokens=tuple(TRIED))):
        assert wall.largest is not None
        assert memory_point(QWEN, grid(), wall.prompt_tokens, wall.largest).fits
        assert not memory_point(QWEN, grid(), wall.prompt_tokens, wall.largest + 1).fits


def test_the_serial_engine_has_no_wall_and_one_row_at_every_size() -> None:
    serial = grid(shape=EngineShape(engine="serial"), batch_sizes=(1, 1024))
    one, many = memory_points(QWEN, serial)
    assert one.need == many.need
    assert walls(QWEN, serial)[0].to_dict()["largest_batch_size"] is None


def test_positions_of_each_layout_by_hand() -> None:
    mixed = lengths((30, 2), (5, 20), (9, 1))
    for engine, slots, expected in (
        ("static", 2, 2 * (30 + 20)),  # as wide as the longest prompt and the longest budget
        ("static", 8, 3 * (30 + 20)),
        ("continuous", 8, 8 * 32),  # every slot, whoever comes, as wide as the longest request
        ("serial", 8, 32),
        ("paged", 8, (8 + 6 + 3 + 1) * 4),  # 31, 24 and 9 positions in blocks of 4, and one block kept free
        ("chunked", 1, 8 * 4),
    ):
        assert kv_positions(EngineShape(engine=engine, block_size=4), slots, mixed) == expected, engine
        assert kv_positions(EngineShape(engine=engine, block_size=4), slots, []) == 0


def test_tokens_of_the_largest_pass_by_hand() -> None:
    mixed = lengths((30, 2), (5, 20), (9, 1))
    for engine, slots, first, anew in (
        ("static", 2, 60, 60),
        ("continuous", 2, 39, 57),
        ("serial", 8, 30, 32),
        ("paged", 8, 44, 67),
        ("chunked", 8, 40, 40),
    ):
        shape = EngineShape(engine=engine, max_num_batched_tokens=40)
        assert largest_pass_tokens(shape, slots, mixed) == first, engine
        assert largest_pass_tokens(shape, slots, mixed, preempted=True) == anew, engine
        assert largest_pass_tokens(shape, slots, []) == 0


def test_memory_is_allocated_in_order_and_piece_by_piece() -> None:
    model = model_shape("tiny-random", dtype="fp32")
    need = pass_memory(model, kv_positions=10, tokens=4, rows=2, sampled_in_fp32=True)
    sizes = (607_488, 5_120, 4 * 1_920, 4_096, 4_096)
    assert tuple(need.by_term.values()) == sizes
    assert need.shortage(sum(sizes)) is None
    for taken, term, asked in (
        (0, "weights", 607_488),
        (607_488, "kv_cache", 5_120),
        (612_608, "mlp_activation", 2_560),
        (615_168, "mlp_activation", 2_560),
        (617_728, "mlp_activation", 2_560),
        (620_288, "logits", 4_096),
        (624_384, "logits_fp32", 4_096),
    ):
        shortage = need.shortage(taken + asked - 1)
        assert shortage is not None
        assert (shortage.term, shortage.asked_bytes, shortage.free_bytes) == (term, asked, asked - 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt_tokens": ()}, "at least one prompt length"),
        ({"prompt_tokens": (0,)}, "prompts p0: use p1"),
        ({"batch_sizes": (0,)}, "batch-size 0"),
        ({"budget_tokens": 0}, "budget 0"),
        ({"prompt_tokens": tuple(range(1, 201)), "batch_sizes": tuple(range(1, 101))}, "20,000 configurations"),
    ],
)
def test_invalid_grids_get_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        grid(**changes)


@pytest.mark.parametrize("tokens", [0, 1_000_001])
def test_tokens_per_step_have_the_limits_of_the_option(tokens: int) -> None:
    with pytest.raises(FieldError, match=f"max-num-batched-tokens {tokens}: use 1 to 1,000,000 tokens") as refusal:
        EngineShape(max_num_batched_tokens=tokens)
    assert refusal.value.field == "max_num_batched_tokens"
