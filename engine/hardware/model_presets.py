"""Model shapes: public numbers by name, or from any model's config.json. Loads no weights.

Shapes follow the published configuration files. Parameters are counted for dense decoders with grouped-query attention
and a gated MLP (Llama, Qwen and similar). Mixtures of experts, latent attention and sliding windows are refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.core.errors import FieldError
from engine.core.units import DTYPE_BYTES
from engine.hardware.roofline import ModelShape

RANDOM_SUFFIX = "-random"
UNKNOWN_KEYS = ("num_experts", "num_local_experts", "n_routed_experts", "kv_lora_rank", "encoder_layers")
SHOWN_NAME = 80

PUBLIC_CONFIGS: dict[str, dict[str, Any]] = {
    "smollm2-135m": {
        "model_type": "llama",
        "vocab_size": 49_152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    "qwen2.5-1.5b": {
        "model_type": "qwen2",
        "vocab_size": 151_936,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32_768,
        "tie_word_embeddings": True,
    },
    "llama-3.1-8b": {
        "model_type": "llama",
        "vocab_size": 128_256,
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131_072,
        "tie_word_embeddings": False,
    },
    "llama-3.1-70b": {
        "model_type": "llama",
        "vocab_size": 128_256,
        "hidden_size": 8192,
        "intermediate_size": 28_672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131_072,
        "tie_word_embeddings": False,
    },
    "tiny-random": {
        "model_type": "llama",
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 262_144,
        "tie_word_embeddings": False,
    },
}

MODEL_NAMES = (*PUBLIC_CONFIGS, "qwen2.5-1.5b-random", "llama-3.1-8b-random")


def model_shape(name: str, *, dtype: str = "bf16", weight_bits: int | None = None) -> ModelShape:
    """The shape of a model given by a short name, a folder with a config.json, or such a file.

    `dtype` (`bf16`, `fp16`, `fp32`) is the dtype of the KV cache, and of the weights unless `weight_bits` is given.
    ValueError for an unknown model or another architecture.
    """
    value_bytes = DTYPE_BYTES[dtype]
    bits = 8 * value_bytes if weight_bits is None else weight_bits
    return shape_of_config(_read_config(name), name=name, value_bytes=value_bytes, weight_bits=bits)


def short_name(name: str) -> str:
    """A model's name for a message, cut if it is too long."""
    return name if len(name) <= SHOWN_NAME else f"{name[:SHOWN_NAME]}…"


def shape_of_config(config: dict[str, Any], *, name: str, value_bytes: int, weight_bits: int) -> ModelShape:
    """The shape by a model's published configuration. ValueError for missing numbers and other architectures."""
    odd = [key for key in UNKNOWN_KEYS if config.get(key)]
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        odd.append("sliding_window")
    if odd:
        raise FieldError(
            "model", f"model {name}: {', '.join(odd)} in its config.json; only dense decoders can be simulated"
        )
    layers, hidden, heads = (_number(config, key, name) for key in ("num_hidden_layers", "hidden_size", _HEADS))
    intermediate, vocab = (_number(config, key, name) for key in ("intermediate_size", "vocab_size"))
    kv_heads = _number(config, "num_key_value_heads", name, heads)
    if heads % kv_heads:
        raise FieldError(
            "model", f"model {name}: {heads} heads are not a multiple of {kv_heads} KV heads in its config.json"
        )
    head_dim = _number(config, "head_dim", name, max(1, hidden // heads))
    tied = bool(config.get("tie_word_embeddings", False))
    qkv = (heads + 2 * kv_heads) * head_dim
    biases = qkv if config.get("attention_bias") or config.get("model_type") == "qwen2" else 0
    layer = hidden * qkv + biases + heads * head_dim * hidden + 3 * hidden * intermediate + 2 * hidden
    return ModelShape(
        name=name,
        parameters=layers * layer + hidden + vocab * hidden * (1 if tied else 2),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=intermediate,
        vocab=vocab,
        tied_embeddings=tied,
        max_positions=_number(config, "max_position_embeddings", name, 0) or None,
        value_bytes=value_bytes,
        weight_bits=weight_bits,
    )


_HEADS = "num_attention_heads"


def _read_config(name: str) -> dict[str, Any]:
    config = PUBLIC_CONFIGS.get(name) or PUBLIC_CONFIGS.get(name.removesuffix(RANDOM_SUFFIX))
    if config is not None:
        return config
    try:
        path = Path(name).expanduser()
        file = path / "config.json" if path.is_dir() else path
        is_there = file.is_file()
    except (OSError, RuntimeError, ValueError):  # too long for a path, or an unknown user
        is_there = False
    if not is_there:
        known = ", ".join(MODEL_NAMES)
        raise FieldError("model", f"model {short_name(name)}: use {known}, or the path of a config.json or its folder")
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FieldError("model", f"model {name}: {file} cannot be read as JSON ({error})") from None
    except RecursionError:
        raise FieldError("model", f"model {name}: {file} cannot be read as JSON (too deeply nested)") from None
    if not isinstance(data, dict):
        raise FieldError("model", f"model {name}: {file} is not a JSON object")
    inner = data.get("text_config") or data
    if not isinstance(inner, dict):
        raise FieldError("model", f"model {name}: text_config in {file} is not a JSON object")
    return inner


def _number(config: dict[str, Any], key: str, name: str, default: int | None = None) -> int:
    value = config.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise FieldError(
            "model", f"model {name}: {key} {value!r:.60} in its config.json; use a whole number of 1 or more"
        )
    return value
