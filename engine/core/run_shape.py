"""The shape of the model that a run has used, from what its run.json says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.dtypes import DTYPE_BYTES, short_dtype
from engine.core.roofline import ModelShape

NUMBERS = ("parameters", "layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab")


def shape_of_run(model: Mapping[str, Any]) -> ModelShape:
    """`model` is run.json's. ValueError where it lacks a number, as that of a run from elsewhere may."""
    missing = [name for name in NUMBERS if not isinstance(model.get(name), int) or model[name] < 1]
    value_bytes = DTYPE_BYTES.get(short_dtype(str(model.get("dtype"))))
    if missing or value_bytes is None:
        lacking = ", ".join(missing) or "dtype"
        raise ValueError(f"the run does not say its model's {lacking}: neither bytes nor FLOP can be counted")
    numbers = {name: int(model[name]) for name in NUMBERS}
    return ModelShape(
        **numbers,
        name=str(model.get("name")),
        value_bytes=value_bytes,
        weight_bits=_weight_bits(model, value_bytes),
        tied_embeddings=_is_tied(**numbers),
        max_positions=model.get("max_positions"),
    )


def _weight_bits(model: Mapping[str, Any], value_bytes: int) -> int:
    """As the run says, a simulated one with weights narrower than its dtype; else the dtype's own."""
    said = model.get("weight_bits")
    return said if isinstance(said, int) and not isinstance(said, bool) else 8 * value_bytes


def _is_tied(
    *,
    parameters: int,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    intermediate: int,
    vocab: int,
) -> bool:
    """Whether one table is both embedding and logits: the parameters beyond the layers are about one table, not two."""
    layer = hidden * (2 * heads + 2 * kv_heads) * head_dim + 3 * hidden * intermediate
    return parameters - layers * layer < 1.5 * vocab * hidden
