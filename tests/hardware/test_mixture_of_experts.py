"""A mixture of experts in the estimates: what is resident, what a pass reads and computes. Calculated by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.hardware.pass_points import pass_points
from engine.hardware.roofline import Ceilings, ModelShape, decode_stats, pass_bytes, pass_flop, shape_of_run
from engine.hardware.step_cost import roofline_cost
from engine.hardware.what_if import WhatIf, cache_equals_weights, compute_bound_from, launch_bound_until

# Two layers with 4 experts of 1,000 parameters each, of which a token uses 1; 2,000 others, and two tables of 500.
MIXTURE = ModelShape(
    name="mixture",
    parameters=4 * 2000 + 2000 + 2 * 500,
    layers=2,
    hidden=10,
    heads=2,
    kv_heads=1,
    head_dim=5,
    intermediate=100,
    vocab=50,
    value_bytes=2,
    tied_embeddings=False,
    experts=4,
    experts_per_token=1,
    expert_parameters=2000,
)
CEILINGS = Ceilings(read_bytes_per_s=1000.0, flop_per_s=1e4, launch_s=0.5, kernels_per_pass=1)


@pytest.mark.parametrize(("rows", "hit"), [(1, 1.0), (2, 1.75), (3, 2.3125), (1000, 4.0)])
def test_rows_hit_experts_as_by_chance(rows: int, hit: float) -> None:
    """E (1 - (1 - k/E)^B): of 4 experts one row hits 1, two rows 4 x (1 - (3/4)^2) = 1.75."""
    assert MIXTURE.experts_hit(rows) == pytest.approx(hit)


def test_all_weights_are_resident_and_the_experts_hit_are_read() -> None:
    assert MIXTURE.weight_bytes == 22_000
    assert MIXTURE.weight_bytes_read(1) == pytest.approx(22_000 - 3 * 4000)
    assert MIXTURE.weight_bytes_read(2) == pytest.approx(22_000 - 2.25 * 4000)
    assert pass_bytes(MIXTURE, decode_stats(2, 7)) == pytest.approx(13_000 + 2 * 7 * 2 * 2 * 5 * 2)


def test_a_token_is_multiplied_with_its_own_experts() -> None:
    assert MIXTURE.body_parameters == 2000 + 2000
    assert pass_flop(MIXTURE, decode_stats(3, 7)) == 2 * 4000 * 3 + 2 * 500 * 3 + 4 * 2 * 2 * 5 * 21


def test_the_term_of_the_weights_is_what_is_read() -> None:
    cost = roofline_cost(MIXTURE, CEILINGS, "graph")
    terms = {term.name: term.seconds for term in cost.terms(decode_stats(2, 7))}
    assert terms["weights"] == pytest.approx(13.0)
    assert terms["weights"] + terms["kv"] == pytest.approx(cost.by_resource(decode_stats(2, 7))["bandwidth"])


def test_points_where_curves_cross_use_the_weights_that_are_read() -> None:
    """At each crossing the equation that defines it holds, with the experts that so many rows hit."""
    case = WhatIf(shape=MIXTURE, ceilings=CEILINGS, sequence_tokens=10, memory_bytes=10**6)
    rows = cache_equals_weights(case)
    assert rows * case.sequence_bytes == pytest.approx(MIXTURE.weight_bytes_read(rows))
    fast = replace(CEILINGS, launch_s=15.0)
    rows = launch_bound_until(replace(case, ceilings=fast))
    assert MIXTURE.weight_bytes_read(rows) + rows * case.sequence_bytes == pytest.approx(15.0 * 1000.0)
    slow = replace(case, ceilings=replace(CEILINGS, flop_per_s=1e3))
    rows = compute_bound_from(slow) or 0.0
    flop = rows * (2 * 4500 + 4 * 2 * 2 * 5 * 10)
    assert flop / 1e3 == pytest.approx((MIXTURE.weight_bytes_read(rows) + rows * case.sequence_bytes) / 1e3)


def test_passes_of_a_run_read_the_experts_of_each_pass() -> None:
    """Ten decode passes of two rows each; not one pass of twenty."""
    row = {
        "kind": "decode", "passes": 10, "seconds": 1.0, "median_s": 0.1, "rows": 20, "width": 70, "tokens": 20,
        "prompt_tokens": 0, "computed_positions": 140, "chunk_rows": 0, "masked": 0,
    }  # fmt: skip
    (point,) = pass_points([row], MIXTURE)
    assert point.read_bytes == pytest.approx(10 * 13_000 + 140 * MIXTURE.kv_position_bytes)


def test_a_runs_mixture_is_read_from_its_log() -> None:
    """As run.json has it; a log without the new keys is a dense model whose tie follows from its parameters."""
    names = ("parameters", "layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab", "name")
    logged = {name: getattr(MIXTURE, name) for name in names} | {"dtype": "bfloat16", "kv_position_bytes": 40}
    mixture = {"experts": 4, "experts_per_token": 1, "expert_parameters": 2000, "tied_embeddings": False}
    assert shape_of_run(logged | mixture) == MIXTURE
    assert shape_of_run(logged).experts == 0
    assert shape_of_run(logged | mixture | {"kv_position_bytes": 20}).kv_layers == 1
