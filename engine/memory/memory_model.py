"""The estimated memory of a pass: weights, KV cache, MLP activations, logits.

In a layer's MLP a forward pass holds the gate, the up-projection and their product at once: three pieces of
tokens x intermediate width. Logits are kept only for the last position of each row; a sampler makes an fp32 copy of
them. The terms are summed as if all were held at once. The MLP's pieces are actually freed before the logits are
allocated, so the sum is slightly high for very short prompts. Not included: the residual stream, attention workspace
and mask, allocator rounding and fragmentation, and the framework itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

MLP_PIECES = 3
FP32_BYTES = 4
TERMS = ("weights", "kv_cache", "mlp_activation", "logits", "logits_fp32")  # in order of allocation
TERM_LABELS: Mapping[str, str] = {
    "weights": "weights",
    "kv_cache": "KV cache",
    "kv_pool": "KV pool",
    "mlp_activation": "MLP activation",
    "logits": "logits",
    "logits_fp32": "fp32 copy of the logits",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDimensions:
    """The dimensions of a model. `value_bytes` is the width of one weight, activation or cached value.

    `kv_layers` counts the layers with a KV cache, None for all. `intermediate` is the MLP width that a token passes.
    """

    parameters: int
    layers: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    value_bytes: int
    kv_layers: int | None = None

    @property
    def attention_layers(self) -> int:
        return self.layers if self.kv_layers is None else self.kv_layers

    @property
    def weight_bytes(self) -> int:
        return self.parameters * self.value_bytes

    @property
    def kv_position_bytes(self) -> int:
        """Bytes of one cached position: keys and values of all layers and KV heads."""
        return 2 * self.attention_layers * self.kv_heads * self.head_dim * self.value_bytes

    def shard(self, gpus: int) -> Self:
        """What one of `gpus` GPUs holds under tensor parallelism: its share of the weights, KV heads and MLP columns.

        Logits stay whole: one GPU gathers them to choose the tokens.
        """
        assert self.kv_heads % gpus == 0, "a number of GPUs that does not divide the KV heads"
        return replace(
            self,
            parameters=-(-self.parameters // gpus),
            kv_heads=self.kv_heads // gpus,
            intermediate=-(-self.intermediate // gpus),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """The first allocation that does not fit: its term, its size, and the free bytes."""

    term: str
    asked_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassMemory:
    """The memory terms of one pass, in bytes."""

    weights_bytes: int
    kv_bytes: int
    mlp_activation_bytes: int
    logits_bytes: int
    logits_fp32_bytes: int

    @property
    def by_term(self) -> dict[str, int]:
        """Bytes by the names of TERMS."""
        sizes = (self.weights_bytes, self.kv_bytes, self.mlp_activation_bytes, self.logits_bytes)
        return dict(zip(TERMS, (*sizes, self.logits_fp32_bytes), strict=True))

    @property
    def transient_bytes(self) -> int:
        """Memory that the pass frees again: everything but weights and KV cache."""
        return self.mlp_activation_bytes + self.logits_bytes + self.logits_fp32_bytes

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.kv_bytes + self.transient_bytes

    def shortage(self, capacity_bytes: int, pool_bytes: int | None = None) -> Shortage | None:
        """The first allocation that exceeds `capacity_bytes`, or the KV's own `pool_bytes`; None if all fit.

        Memory is allocated in the order of TERMS: the MLP's in three equal pieces, each other term in one.
        """
        free_bytes = capacity_bytes
        for term, size in self.by_term.items():
            pieces = MLP_PIECES if term == "mlp_activation" else 1
            if term == "kv_cache" and pool_bytes is not None and size > pool_bytes:
                return Shortage(term="kv_pool", asked_bytes=size, free_bytes=pool_bytes)
            for _ in range(pieces):
                asked_bytes = size // pieces
                if asked_bytes > free_bytes:
                    return Shortage(term=term, asked_bytes=asked_bytes, free_bytes=free_bytes)
                free_bytes -= asked_bytes
        return None


def pass_memory(
    model: ModelDimensions,
    *,
    kv_positions: int,
    tokens: int,
    rows: int,
    sampled_in_fp32: bool,
    logits_of_all: bool = False,
) -> PassMemory:
    """The memory of a pass over `tokens` new tokens in `rows` rows, with `kv_positions` of allocated cache.

    `logits_of_all`: the engine computes the logits of every position and uses only the last one of each row.
    """
    return PassMemory(
        weights_bytes=model.weight_bytes,
        kv_bytes=kv_positions * model.kv_position_bytes,
        mlp_activation_bytes=MLP_PIECES * tokens * model.intermediate * model.value_bytes,
        logits_bytes=(tokens if logits_of_all else rows) * model.vocab * model.value_bytes,
        logits_fp32_bytes=rows * model.vocab * FP32_BYTES if sampled_in_fp32 else 0,
    )
