"""Which models the lab's attention fits: told by their configuration, and by one token sent through them.

A model has to call the attention that is registered with transformers' AttentionInterface in each of its layers, with
keys and values of one width. It does not know whether a model's positions are right; comparing tokens does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedConfig

from engine.runtime.kv.attention import ATTENTION_NAME, lab_attention


def install(model: Any) -> None:
    """Make `model` attend through the lab. ValueError, in one line, for a model whose attention this is not."""
    check_attention(model.config)
    AttentionInterface.register(ATTENTION_NAME, lab_attention)
    model.set_attn_implementation(ATTENTION_NAME)
    _check_calls(model)


def check_attention(config: PreTrainedConfig) -> None:
    """ValueError with one line for attention that the lab's passes do not compute."""
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
            raise ValueError(f"model of type {text.model_type!r} uses {reason}, which the lab does not compute")


@dataclass(slots=True, eq=False)
class _Probe:
    """Notes which layers ask for attention, and with what; answers zeros."""

    layers: list[int] = field(default_factory=list)
    one_width: bool = True

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        self.layers.append(layer)
        self.one_width &= query.shape[-1] == key.shape[-1] == value.shape[-1]
        return torch.zeros_like(query).transpose(1, 2)


@torch.inference_mode()
def _check_calls(model: Any) -> None:
    """Send one token through `model`, and see whether each layer came to the lab with it."""
    text, probe = model.config.get_text_config(), _Probe()
    one = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    try:
        model(input_ids=one, position_ids=one, attention_mask=None, use_cache=False, logits_to_keep=1, kv_pass=probe)
        fits = probe.one_width and probe.layers == list(range(text.num_hidden_layers))
    except (RuntimeError, TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(
            f"model of type {text.model_type!r} has attention of its own, which the lab cannot put its KV memory "
            "behind; use a decoder of the Llama, Qwen, Mistral or SmolLM kind"
        )
