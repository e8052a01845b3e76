"""Model shapes: public numbers by name, or from any model's config.json. Loads no weights.

Shapes follow the published configuration files. The families of `model_families` are counted by formula; a model of
another type is counted by its class in a process of its own (`counted_models`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.core.errors import FieldError
from engine.core.units import DTYPE_BYTES
from engine.hardware.counted_models import MAX_CONFIG_BYTES, counted_numbers
from engine.hardware.decoder_family import decoder_numbers
from engine.hardware.model_families import FAMILIES
from engine.hardware.roofline import ModelShape

RANDOM_SUFFIX = "-random"
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
    config = _read_config(name)
    if config.get("quantization_config") and weight_bits is None:
        raise FieldError("model", f"model {name}: its weights are quantized; set the bits per weight (weight-bits)")
    bits = 8 * value_bytes if weight_bits is None else weight_bits
    return shape_of_config(config, name=name, value_bytes=value_bytes, weight_bits=bits)


def short_name(name: str) -> str:
    """A model's name for a message, cut if it is too long."""
    return name if len(name) <= SHOWN_NAME else f"{name[:SHOWN_NAME]}…"


def shape_of_config(config: dict[str, Any], *, name: str, value_bytes: int, weight_bits: int) -> ModelShape:
    """The shape by a model's published configuration. ValueError for invalid numbers and unsupported architectures."""
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise FieldError("model", f"model {name}: no model_type in its config.json; add it, for example llama")
    family = FAMILIES.get(kind)
    try:
        numbers = counted_numbers(config, name) if family is None else decoder_numbers(family, name, config)
    except (TypeError, ArithmeticError) as error:  # a text or a number where the class has a list
        raise FieldError("model", f"model {name}: a value in its config.json is of the wrong kind ({error})") from None
    return ModelShape(name=name, value_bytes=value_bytes, weight_bits=weight_bits, **numbers)


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
        if file.stat().st_size > MAX_CONFIG_BYTES:
            raise FieldError("model", f"model {name}: {file} is larger than 4 MiB; name a model's config.json")
        data = json.loads(file.read_text(encoding="utf-8"))
    except FieldError:
        raise
    except (OSError, ValueError) as error:
        raise FieldError("model", f"model {name}: {file} cannot be read as JSON ({error})") from None
    except RecursionError:
        raise FieldError("model", f"model {name}: {file} cannot be read as JSON (too deeply nested)") from None
    if not isinstance(data, dict):
        raise FieldError("model", f"model {name}: {file} is not a JSON object")
    if not isinstance(data.get("text_config", {}), dict):
        raise FieldError("model", f"model {name}: text_config in {file} is not a JSON object")
    return data
