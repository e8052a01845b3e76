"""How much memory a pass needs, as an estimate: weights, KV cache, the MLP's activations, the logits.

A forward pass holds the gate, the up-projection and their product at once in a layer's MLP: three pieces of
tokens x intermediate width. Logits are kept for the last position of each row only. The rest (attention's workspace,
the allocator's rounding) is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass

MLP_PIECES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDimensions:
    """What the estimate needs of a model. `value_bytes` is the width of one weight, activation or cached value."""

    parameters: int
    layers: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    value_bytes: int

    @property
    def weight_bytes(self) -> int:
        return self.parameters * self.value_bytes

    @property
    def kv_position_bytes(self) -> int:
        return 2 * self.layers * self.kv_heads * self.head_dim * self.value_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PassMemory:
    """The terms of one pass, in bytes."""

    weights_bytes: int
    kv_bytes: int
    mlp_activation_bytes: int
    logits_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.kv_bytes + self.mlp_activation_bytes + self.logits_bytes


def pass_memory(
    model: ModelDimensions, *, kv_positions: int, tokens: int, rows: int, sampled_in_fp32: bool
) -> PassMemory:
    """What a pass over `tokens` new tokens in `rows` rows needs beside `kv_positions` of allocated cache."""
    logits = rows * model.vocab * model.value_bytes
    fp32_copy = rows * model.vocab * 4 if sampled_in_fp32 else 0
    return PassMemory(
        weights_bytes=model.weight_bytes,
        kv_bytes=kv_positions * model.kv_position_bytes,
        mlp_activation_bytes=MLP_PIECES * tokens * model.intermediate * model.value_bytes,
        logits_bytes=logits + fp32_copy,
    )
