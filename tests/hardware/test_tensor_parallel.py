"""Tensor parallelism by hand: the all-reduce, each term of a pass, one GPU's share of the memory, refused sizes."""

from __future__ import annotations

import pytest

from engine.core.errors import FieldError
from engine.hardware.hardware_presets import HARDWARE, hardware_preset
from engine.hardware.model_presets import model_shape
from engine.hardware.roofline import Ceilings, ModelShape, decode_stats
from engine.hardware.step_cost import roofline_cost
from engine.hardware.tensor_parallel import Link, TensorParallel, possible_sizes, require_divisible, transferred_bytes
from engine.memory.memory_model import pass_memory
from tests.support.runs.simulated import prefill_stats

# 1,000 parameters, of which 100 x 2 are the tied embedding; 8 query heads, 4 KV heads.
SHAPE = ModelShape(
    name="by hand",
    parameters=1000,
    layers=3,
    hidden=2,
    heads=8,
    kv_heads=4,
    head_dim=5,
    intermediate=7,
    vocab=100,
    tied_embeddings=True,
    value_bytes=2,
)
CEILINGS = Ceilings(read_bytes_per_s=1000.0, flop_per_s=500.0, launch_s=0.1, kernels_per_pass=123)
LINK = Link(name="by hand", nominal_bytes_per_s=100.0, bytes_per_s=80.0, latency_s=0.5)


def test_a_ring_all_reduce_sends_every_part_but_its_own_twice() -> None:
    assert [transferred_bytes(1200, gpus) for gpus in (1, 2, 4, 8)] == [0, 1200, 1800, 2100]
    assert LINK.all_reduce_s(1200, 1) == 0
    assert LINK.all_reduce_s(1200, 4) == 0.5 + 1800 / 80


def test_the_terms_of_a_decode_pass_on_two_gpus() -> None:
    cost, stats = roofline_cost(SHAPE, CEILINGS, "graph", gpus=2, link=LINK), decode_stats(6, 11)
    terms = {term.name: (term.resource, term.seconds) for term in cost.terms(stats)}
    assert terms == {
        "weights": ("bandwidth", 2000 / 2 / 1000),
        "kv": ("bandwidth", 6 * 11 * 240 / 2 / 1000),  # a position: 2 x 3 layers x 4 heads x 5 values x 2 bytes
        "flop": ("compute", (2 * 800 * 6 + 2 * 200 * 6 + 480 * 66) / 2 / 500),
        "launches": ("launches", 0.1),
        "all_reduce_latency": ("link", 6 * 0.5),  # two for each of three layers
        "all_reduce_transfer": ("link", pytest.approx(6 * (6 * 2 * 2) / 80)),  # six rows of two values of two bytes
    }
    assert cost.pass_s(stats) == pytest.approx(43_680 / 2 / 500 + 3.0 + 1.8)  # computing is the slowest


def test_an_eager_pass_launches_the_all_reduces_too() -> None:
    assert roofline_cost(SHAPE, CEILINGS, "eager", gpus=4, link=LINK).launches == 123 + 6
    assert roofline_cost(SHAPE, CEILINGS, "graph", gpus=4, link=LINK).launches == 1


def test_a_prefill_reduces_a_vector_for_every_token() -> None:
    cost = roofline_cost(SHAPE, CEILINGS, "graph", gpus=4, link=LINK)
    assert cost.all_reduce_bytes(prefill_stats(2, 10)) == 20 * 2 * 2
    assert cost.all_reduce_s(prefill_stats(2, 10)) == pytest.approx(6 * (0.5 + 1.5 * 80 / 80))


def test_one_gpu_has_no_term_of_the_link() -> None:
    alone, linked = (roofline_cost(SHAPE, CEILINGS, "eager", link=link) for link in (None, LINK))
    stats = decode_stats(6, 11)
    assert alone.terms(stats) == linked.terms(stats)
    assert alone.pass_s(stats) == linked.pass_s(stats) == max(alone.by_resource(stats).values())


def test_one_gpus_share_of_the_memory() -> None:
    whole, shard = SHAPE, SHAPE.shard(4)
    assert (shard.weight_bytes, shard.kv_position_bytes) == (500, 60)
    need = pass_memory(shard, kv_positions=10, tokens=6, rows=3, sampled_in_fp32=True)
    assert need.by_term == {
        "weights": 500,
        "kv_cache": 600,
        "mlp_activation": 3 * 6 * 2 * 2,  # 7 columns over four GPUs: two on the largest
        "logits": 3 * 100 * 2,  # gathered on one GPU
        "logits_fp32": 3 * 100 * 4,
    }
    assert whole.shard(1) == whole
    assert SHAPE.with_weight_bits(8).shard(2).weight_bytes == 500  # 1,000 bytes over two GPUs


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        ("llama-3.1-8b", (1, 2, 4, 8)),
        ("llama-3.1-70b", (1, 2, 4, 8)),
        ("smollm2-135m", (1, 3)),
        ("qwen2.5-1.5b", (1, 2)),
    ],
)
def test_the_sizes_that_divide_the_kv_heads(model: str, sizes: tuple[int, ...]) -> None:
    shape = model_shape(model)
    assert possible_sizes(shape.kv_heads) == sizes
    for size in sizes:
        require_divisible(shape, model, size)


def test_other_sizes_are_refused_with_the_reason() -> None:
    with pytest.raises(
        FieldError, match="3 GPUs cannot share the 8 KV heads of llama-3.1-8b equally; use 1, 2, 4 or 8"
    ):
        require_divisible(model_shape("llama-3.1-8b"), "llama-3.1-8b", 3)
    with pytest.raises(FieldError, match="use 1 to 8 GPUs"):
        TensorParallel(tensor_parallel_size=9)


def test_the_70b_shape_has_its_published_parameters() -> None:
    assert model_shape("llama-3.1-70b").parameters == 70_553_706_496  # as the published safetensors files


def test_the_latency_is_near_nccls_on_two_h200s() -> None:
    """All-reduces of (B, 1536) bf16 on two H200s took 15.8, 18.5 and 20.6 us."""
    link = hardware_preset("h200").link
    for rows, measured_s in ((1, 15.8e-6), (32, 18.5e-6), (256, 20.6e-6)):
        assert link.all_reduce_s(rows * 1536 * 2, 2) == pytest.approx(measured_s, rel=0.08)


@pytest.mark.parametrize("name", HARDWARE)
def test_a_link_is_slower_than_its_vendors_rate_and_its_source_is_named(name: str) -> None:
    preset = hardware_preset(name)
    assert preset.link.bytes_per_s < preset.link.nominal_bytes_per_s
    assert "each way" in preset.source
    assert "per all-reduce" in preset.source
