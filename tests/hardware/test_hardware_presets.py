"""GPU presets: factors that follow from a model's shape, and rates that reproduce their source."""

from __future__ import annotations

import pytest

from engine.hardware.hardware_presets import hardware_preset
from engine.hardware.model_presets import model_shape
from engine.hardware.roofline import decode_stats
from engine.hardware.step_cost import roofline_cost


@pytest.mark.parametrize(
    ("model", "reads"),
    [
        ("qwen2.5-1.5b", 1 + 2 * 12 / 2),
        ("llama-3.1-8b", 1 + 2 * 32 / 8),
        ("smollm2-135m", 1 + 2 * 9 / 3),
    ],
)
def test_copies_for_each_query_head_follow_the_models_groups(model: str, reads: float) -> None:
    shape = model_shape(model)
    assert hardware_preset("a10").ceilings(shape).masked_kv_reads == reads
    assert hardware_preset("h100").ceilings(shape).masked_kv_reads == 1


def test_a_model_with_as_many_kv_heads_as_query_heads_is_not_copied() -> None:
    shape = model_shape("llama-3.1-8b")
    alike = type(shape)(**{n: getattr(shape, n) for n in shape.__dataclass_fields__} | {"kv_heads": shape.heads})
    assert hardware_preset("a10").ceilings(alike).masked_kv_reads == 1


@pytest.mark.parametrize(("name", "seconds"), [("a10", 20.7e-3), ("rtx3060", 18.1e-3), ("h200", 84e-3)])
def test_an_eager_pass_of_the_measured_model_takes_the_measured_time(name: str, seconds: float) -> None:
    shape = model_shape("qwen2.5-1.5b")
    cost = roofline_cost(shape, hardware_preset(name).ceilings(shape), "eager")
    assert cost.pass_s(decode_stats(1, 20)) == pytest.approx(seconds, rel=1e-9)
