"""Checks that a model can use the lab's attention, by its configuration and by one token sent through it.

Every layer of a model must call the attention registered with transformers' AttentionInterface, with keys and values of
the width and number of heads that the KV cache is made for. Sliding windows and rotary angles that change with the
length are allowed as far as a run does not reach them (`require_length`). Whether the model's positions are right is
not checked here; `engine parity` compares tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedConfig

from engine.hardware.decoder_family import window_of
from engine.runtime.kv.attention import ATTENTION_NAME, lab_attention
from engine.runtime.models.configs import head_dim_of, kv_heads_of, number_of, rotary_limit


def install(model: Any) -> None:
    """Make `model` use the lab's attention. ValueError with one clear line for an unsupported model."""
    check_attention(model.config)
    require_own_layers(attention_calls(model), model.config.get_text_config())


def check_attention(config: PreTrainedConfig) -> None:
    """ValueError with one clear line for attention that the lab does not support."""
    text = config.get_text_config()
    layer_types = set(getattr(text, "layer_types", None) or ["full_attention"])
    other = sorted(layer_types - {"full_attention", "sliding_attention"})
    reasons = {
        f"layers of type {', '.join(other)}": bool(other),
        "soft-capped attention": getattr(text, "attn_logit_softcapping", None) is not None,
        "latent attention (MLA)": getattr(text, "kv_lora_rank", None) is not None,
    }
    for reason, applies in reasons.items():
        if applies:
            raise ValueError(f"model of type {text.model_type!r} uses {reason}, which the lab does not support")


def require_length(config: PreTrainedConfig, longest: int, reached: int) -> None:
    """ValueError with one clear line if a run of `longest` tokens per request needs more than plain causal attention.

    `reached`: the largest position of any row, counting rows that ended in a static batch that goes on.
    """
    text = config.get_text_config()
    window = window_of(lambda key: getattr(text, key, None))
    if window is not None and longest > window:
        raise ValueError(
            f"model of type {text.model_type!r} uses sliding-window attention over {window:,} positions, which the lab "
            f"does not support; the longest request has {longest:,}: keep prompt and output tokens within the window"
        )
    limit = rotary_limit(config)
    if limit is not None and reached > limit:
        raise ValueError(
            f"model of type {text.model_type!r} changes its rotary angles beyond {limit:,} positions, for all rows at "
            f"once, which the lab does not support; this run reaches {reached:,}: use shorter prompts or fewer output "
            "tokens"
        )


def length_limit(config: PreTrainedConfig) -> int | None:
    """The longest sequence, in tokens, that `require_length` allows; None without a limit."""
    text = config.get_text_config()
    limits = (window_of(lambda key: getattr(text, key, None)), rotary_limit(config))
    return min((limit for limit in limits if limit is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCall:
    """The attention of one layer for one token: the number of heads that arrive, and the width of each."""

    layer: int
    heads: int
    kv_heads: int
    head_dim: int
    is_one_width: bool


@dataclass(slots=True, eq=False)
class _Probe:
    """Records the calls of attention; returns zeros."""

    calls: list[AttentionCall] = field(default_factory=list)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        self.calls.append(
            AttentionCall(
                layer=layer,
                heads=query.shape[1],
                kv_heads=key.shape[1],
                head_dim=key.shape[-1],
                is_one_width=query.shape[-1] == key.shape[-1] == value.shape[-1] and key.shape == value.shape,
            )
        )
        return torch.zeros_like(query).transpose(1, 2)


@torch.inference_mode()
def attention_calls(model: Any) -> list[AttentionCall]:
    """Set the lab's attention in `model` and send one token through: the calls, layer by layer.

    Empty if the model cannot run so.
    """
    AttentionInterface.register(ATTENTION_NAME, lab_attention)
    probe = _Probe()
    try:
        model.set_attn_implementation(ATTENTION_NAME)
        one = torch.zeros(1, 1, dtype=torch.long, device=model.device)
        model(input_ids=one, position_ids=one, attention_mask=None, use_cache=False, logits_to_keep=1, kv_pass=probe)
    except (RuntimeError, TypeError, ValueError):
        return []
    return probe.calls


def require_own_layers(calls: list[AttentionCall], text: PreTrainedConfig) -> None:
    """ValueError unless each layer calls attention once, with the KV heads and width of the configuration."""
    layers = list(range(number_of(text, "num_hidden_layers")))
    if [call.layer for call in calls] != layers or not all(call.is_one_width for call in calls):
        raise ValueError(
            f"model of type {text.model_type!r} has its own attention, which cannot use the lab's KV cache; "
            "use a Llama, Qwen, Mistral or SmolLM decoder"
        )
    made_for = kv_heads_of(text), head_dim_of(text)
    for call in calls:
        if (call.kv_heads, call.head_dim) != made_for:
            raise ValueError(
                f"model of type {text.model_type!r} passes {call.kv_heads} KV heads of width {call.head_dim} to its "
                f"attention, its configuration says {made_for[0]} of {made_for[1]}; the lab does not support that"
            )
