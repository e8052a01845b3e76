"""Checks that a model can use the lab's attention, by its configuration and by one token sent through it.

Every layer of a model must call the attention registered with transformers' AttentionInterface, with keys and values of
the same width. Whether the model's positions are right is not checked here; `engine parity` compares tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedConfig

from engine.runtime.kv.attention import ATTENTION_NAME, lab_attention


def install(model: Any) -> None:
    """Make `model` use the lab's attention. ValueError with one clear line for an unsupported model."""
    check_attention(model.config)
    AttentionInterface.register(ATTENTION_NAME, lab_attention)
    model.set_attn_implementation(ATTENTION_NAME)
    _check_calls(model)


def check_attention(config: PreTrainedConfig) -> None:
    """ValueError with one clear line for attention that the lab does not support."""
    text = config.get_text_config()
    windowed = getattr(text, "use_sliding_window", True) and getattr(text, "sliding_window", None)
    layer_types = set(getattr(text, "layer_types", None) or ["full_attention"])
    other = sorted(layer_types - {"full_attention", "sliding_attention"})
    reasons = {
        "sliding-window attention": bool(windowed) or "sliding_attention" in layer_types,
        f"layers of type {', '.join(other)}": bool(other),
        "soft-capped attention": getattr(text, "attn_logit_softcapping", None) is not None,
        "latent attention (MLA)": getattr(text, "kv_lora_rank", None) is not None,
    }
    for reason, applies in reasons.items():
        if applies:
            raise ValueError(f"model of type {text.model_type!r} uses {reason}, which the lab does not support")


@dataclass(slots=True, eq=False)
class _Probe:
    """Records which layers call attention and their widths; returns zeros."""

    layers: list[int] = field(default_factory=list)
    one_width: bool = True

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        self.layers.append(layer)
        self.one_width &= query.shape[-1] == key.shape[-1] == value.shape[-1]
        return torch.zeros_like(query).transpose(1, 2)


@torch.inference_mode()
def _check_calls(model: Any) -> None:
    """Send one token through `model` and check that each layer calls the lab's attention."""
    text, probe = model.config.get_text_config(), _Probe()
    one = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    try:
        model(input_ids=one, position_ids=one, attention_mask=None, use_cache=False, logits_to_keep=1, kv_pass=probe)
        fits = probe.one_width and probe.layers == list(range(text.num_hidden_layers))
    except (RuntimeError, TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(
            f"model of type {text.model_type!r} has its own attention, which cannot use the lab's KV cache; "
            "use a Llama, Qwen, Mistral or SmolLM decoder"
        )
