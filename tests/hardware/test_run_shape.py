"""A model's shape from a run.json: weights have the recorded width, else that of the dtype."""

from __future__ import annotations

import pytest

from engine.core.config import RunConfig
from engine.hardware.roofline import decode_stats, pass_bytes, shape_of_run
from engine.runlog.simulated_run import describe_shape
from engine.simulator.machine import simulated_machine
from tests.support.runs.roofline_runs import MODEL


@pytest.mark.parametrize(("dtype", "bits"), [("bf16", 8), ("bf16", 16), ("fp16", None)])
def test_a_simulated_run_keeps_its_weight_bits(dtype: str, bits: int | None) -> None:
    machine = simulated_machine(RunConfig(model="llama-3.1-8b", dtype=dtype), "h100", weight_bits=bits)
    shape = shape_of_run(describe_shape(machine).to_dict())
    assert shape.weight_bytes == machine.shape.parameters * (bits or 16) // 8
    facts = decode_stats(8, 2300)
    assert pass_bytes(shape, facts) == pass_bytes(machine.shape, facts)


def test_without_weight_bits_the_dtype_counts() -> None:
    assert shape_of_run(MODEL).weight_bits == 32
    assert shape_of_run({**MODEL, "weight_bits": None}).weight_bits == 32


def test_unknown_weight_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="weight-bits 5"):
        shape_of_run({**MODEL, "weight_bits": 5})
