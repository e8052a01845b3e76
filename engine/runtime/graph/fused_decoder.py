"""A transformers decoder as few kernels: the same weights, the same arithmetic, a quarter of the launches.

A layer of the Llama, Qwen2, Qwen3 and Mistral families is nine kernels: one product for queries, keys and values; one
kernel for rotation and the store into the KV pool; attention over the pool (two kernels if the columns of a row are
split); the output projection; and the MLP as gate and up in one product, SiLU, and down. Both norms include the
residual addition. transformers runs the same layer as about forty kernels. Merged weights replace the model's weights,
which become views of them: no weight is stored twice, and the model still runs through transformers.

Shapes: T tokens, C hidden width, H query heads, K KV heads, D head width, V vocabulary, R rows whose logits are kept.
Other families are not supported: `why_not_fused` returns the reason, and the model runs eager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.runtime.kernels.norm import add_rms_norm, rms_norm
from engine.runtime.kernels.silu_mul import silu_mul
from engine.runtime.kernels.skinny_linear import MAX_ROWS, SkinnyTuning, skinny_linear, sum_add_rms_norm

FAMILIES = ("llama", "qwen2", "qwen3", "mistral")
FIXED_ROPE_TYPES = ("default", "linear", "llama3", "yarn")

# The fastest settings found by benchmarks/skinny_linear.py on an H200 at the widths of a 1.5 B model.
_OUTPUT_ONE = SkinnyTuning(outputs=4, columns=256, splits=4, warps=4, stages=1)
_OUTPUT = SkinnyTuning(outputs=64, columns=128, splits=4, warps=4, stages=3)
_GATE_UP_ONE = SkinnyTuning(outputs=8, columns=256, splits=1, warps=4, stages=1)
_WIDE_ONE = SkinnyTuning(outputs=16, columns=256, splits=1, warps=4, stages=1)
_WIDE = SkinnyTuning(outputs=64, columns=128, splits=1, warps=4, stages=3)
_DOWN_ONE = SkinnyTuning(outputs=16, columns=256, splits=8, warps=4, stages=1)
_DOWN = SkinnyTuning(outputs=64, columns=128, splits=8, warps=4, stages=3)

Attend = Callable[["FusedLayer", Tensor], Tensor]
"""From a layer's (T, (H + 2K) D) queries, keys and values to its (T, H D) attention; also stores keys and values."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FusedLayer:
    """One layer's weights. Missing biases are None."""

    index: int
    input_norm: Tensor  # (C,)
    qkv: Tensor  # ((H + 2K) D, C)
    qkv_bias: Tensor | None
    q_norm: Tensor | None  # (D,)
    k_norm: Tensor | None
    scale: float
    output: Tensor  # (C, H D)
    output_bias: Tensor | None
    mlp_norm: Tensor  # (C,)
    gate_up: Tensor  # (2I, C)
    gate_up_bias: Tensor | None
    down: Tensor  # (C, I)
    down_bias: Tensor | None
    eps: float


class FusedDecoder:
    """The decoder of `model`, a causal LM that `why_not_fused` allows, on the model's device."""

    def __init__(self, model: Any, positions: int) -> None:
        """`positions`: most positions of a row. A dead row may run past the model's own limit with its batch."""
        assert why_not_fused(model) is None
        config = model.config
        self.num_heads: int = config.num_attention_heads
        self.num_kv_heads: int = config.num_key_value_heads
        self.embedding: Tensor = model.model.embed_tokens.weight.data  # (V, C)
        self.layers = [_fused_layer(i, layer) for i, layer in enumerate(model.model.layers)]
        self.final_norm: Tensor = model.model.norm.weight.data
        self.lm_head: Tensor = model.lm_head.weight.data  # (V, C)
        self.cos, self.sin = _rotary_tables(model.model.rotary_emb, positions)

    def logits(self, hidden: Tensor, attend: Attend, keep: Tensor | None) -> Tensor:
        """(T, C) embeddings to the (R, V) logits of the rows in `keep` (R,), or of all rows. Overwrites `hidden`."""
        residual = hidden
        skinny = hidden.shape[0] <= MAX_ROWS and hidden.dtype is not torch.float32
        normed = rms_norm(hidden, self.layers[0].input_norm, self.layers[0].eps)
        following = [*(layer.input_norm for layer in self.layers[1:]), self.final_norm]
        for layer, next_norm in zip(self.layers, following, strict=True):
            attended = attend(layer, F.linear(normed, layer.qkv, layer.qkv_bias))
            if skinny and layer.output_bias is None and layer.down_bias is None:
                normed = _skinny_rest(layer, attended, residual, next_norm)
            else:
                normed = _rest(layer, attended, residual, next_norm)
        if keep is not None:
            normed = normed.index_select(0, keep)
        if normed.shape[0] <= MAX_ROWS and normed.dtype is not torch.float32:
            return skinny_linear(normed, self.lm_head, None, _WIDE_ONE if normed.shape[0] == 1 else _WIDE)
        return F.linear(normed, self.lm_head)


def _rest(layer: FusedLayer, attended: Tensor, residual: Tensor, next_norm: Tensor) -> Tensor:
    """A layer after its attention: output projection, MLP, and the next layer's first norm."""
    projected = F.linear(attended, layer.output, layer.output_bias)
    normed = add_rms_norm(projected, residual, layer.mlp_norm, layer.eps)
    gate_up = F.linear(normed, layer.gate_up, layer.gate_up_bias)
    down = F.linear(silu_mul(gate_up), layer.down, layer.down_bias)
    return add_rms_norm(down, residual, next_norm, layer.eps)


def _skinny_rest(layer: FusedLayer, attended: Tensor, residual: Tensor, next_norm: Tensor) -> Tensor:
    """The same for few rows: products that stream the weights; the next norm adds up their splits."""
    one = attended.shape[0] == 1
    partials = skinny_linear(attended, layer.output, None, _OUTPUT_ONE if one else _OUTPUT)
    normed = sum_add_rms_norm(partials, residual, layer.mlp_norm, layer.eps)
    gate_up = skinny_linear(normed, layer.gate_up, layer.gate_up_bias, _GATE_UP_ONE if one else _WIDE)
    if one:
        partials = skinny_linear(gate_up, layer.down, None, _DOWN_ONE, gated=True)
    else:  # a gated product would recompute the gate of all rows in every program
        partials = skinny_linear(silu_mul(gate_up), layer.down, None, _DOWN)
    return sum_add_rms_norm(partials, residual, next_norm, layer.eps)


def why_not_fused(model: Any) -> str | None:
    """Why `model` cannot run as a fused decoder, as text; None if it can."""
    config = model.config
    if config.model_type not in FAMILIES:
        return f"models of type {config.model_type!r} have no fused decoder (supported: {', '.join(FAMILIES)})"
    rotary = model.model.rotary_emb
    if rotary.rope_type not in FIXED_ROPE_TYPES:
        return f"its rotary angles ({rotary.rope_type}) change with the length"
    layer = model.model.layers[0]
    if 2 * rotary.inv_freq.numel() != layer.self_attn.head_dim:
        return "only a part of each head is rotated"
    if config.hidden_act != "silu":
        return f"its MLP uses {config.hidden_act}, not SiLU"
    if getattr(model.lm_head, "bias", None) is not None:
        return "its output layer has a bias"
    return None


def _fused_layer(index: int, layer: Any) -> FusedLayer:
    attention, mlp = layer.self_attn, layer.mlp
    qkv, qkv_bias = merge_linears([attention.q_proj, attention.k_proj, attention.v_proj])
    gate_up, gate_up_bias = merge_linears([mlp.gate_proj, mlp.up_proj])
    return FusedLayer(
        index=index,
        input_norm=layer.input_layernorm.weight.data,
        qkv=qkv,
        qkv_bias=qkv_bias,
        q_norm=_weight(attention, "q_norm"),
        k_norm=_weight(attention, "k_norm"),
        scale=attention.scaling,
        output=attention.o_proj.weight.data,
        output_bias=_bias(attention.o_proj),
        mlp_norm=layer.post_attention_layernorm.weight.data,
        gate_up=gate_up,
        gate_up_bias=gate_up_bias,
        down=mlp.down_proj.weight.data,
        down_bias=_bias(mlp.down_proj),
        eps=layer.input_layernorm.variance_epsilon,
    )


@torch.no_grad()
def merge_linears(linears: Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None]:
    """Merge several layers into one weight (sum of outputs, C) and bias; the layers keep working, as views of it.

    A second merge finds the views and returns the same tensors.
    """
    weights = [linear.weight for linear in linears]
    merged = _already_merged(weights)
    if merged is None:
        merged = torch.cat([w.data for w in weights])
        _make_views(weights, merged)
    biases = [linear.bias for linear in linears]
    if all(b is None for b in biases):
        return merged, None
    merged_bias = torch.cat([_or_zeros(linear) for linear in linears])
    return merged, merged_bias


def _already_merged(weights: Sequence[Tensor]) -> Tensor | None:
    """The tensor that `weights` are consecutive rows of; None if they are separate tensors."""
    first = weights[0]
    rows = sum(w.shape[0] for w in weights)
    storage = first.data.untyped_storage()
    expected = first.data_ptr()
    for weight in weights:
        if weight.data_ptr() != expected or weight.data.untyped_storage().data_ptr() != storage.data_ptr():
            return None
        expected += weight.numel() * weight.element_size()
    return first.data.as_strided((rows, first.shape[1]), (first.shape[1], 1), first.storage_offset())


def _make_views(weights: Sequence[Tensor], merged: Tensor) -> None:
    start = 0
    for weight in weights:
        end = start + weight.shape[0]
        weight.data = merged[start:end]
        start = end


def _or_zeros(linear: nn.Linear) -> Tensor:
    weight = linear.weight.data
    return weight.new_zeros(weight.shape[0]) if linear.bias is None else linear.bias.data


def _bias(linear: nn.Linear) -> Tensor | None:
    return None if linear.bias is None else linear.bias.data


def _weight(module: nn.Module, name: str) -> Tensor | None:
    part = getattr(module, name, None)
    return None if part is None else part.weight.data


def _rotary_tables(rotary: Any, max_positions: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every position, (M, D / 2), in fp32, with the attention scaling of some rope types."""
    inverse = rotary.inv_freq.float()
    angles = torch.arange(max_positions, device=inverse.device, dtype=torch.float32)[:, None] * inverse
    return angles.cos() * rotary.attention_scaling, angles.sin() * rotary.attention_scaling
