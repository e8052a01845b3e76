"""What the lab reads from a model's configuration in transformers: kind, KV heads, widths, positions.

Names differ between classes; where a class has none of them, the model is refused in one line.
"""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

MAX_REASON = 300  # characters of a library's message that are shown
_POSITIONS = ("max_position_embeddings", "max_seq_len", "n_positions", "seq_length")


def one_line(error: BaseException) -> str:
    """A library's message as one line, cut if it is long; its kind if it has none."""
    text = " ".join(str(error).split())
    if not text:
        return type(error).__name__
    return text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]}…"


def require_causal(config: PreTrainedConfig) -> None:
    """ValueError for a model that is no causal language model, such as an encoder with a decoder."""
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ValueError(
            f"transformers has no causal language model of type {config.model_type!r}; "
            "use a decoder such as Llama, Qwen, Mistral or SmolLM"
        )


def number_of(text: PreTrainedConfig, *names: str) -> int:
    """The first whole number among a configuration's values. ValueError if it has none of them."""
    for name in names:
        value = getattr(text, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    raise ValueError(f"a configuration of type {text.model_type!r} gives no {names[0]}; use another model")


def kv_heads_of(text: PreTrainedConfig) -> int:
    """KV heads; as many as query heads where the configuration gives no number."""
    return number_of(text, "num_key_value_heads", "num_attention_heads")


def head_dim_of(text: PreTrainedConfig) -> int:
    """The width of a head."""
    own = getattr(text, "head_dim", None)
    return int(own) if own else number_of(text, "hidden_size") // number_of(text, "num_attention_heads")


def positions_of(text: PreTrainedConfig) -> int:
    """The most positions of a sequence. ValueError if the configuration gives no limit."""
    return number_of(text, *_POSITIONS)


def intermediate_of(text: PreTrainedConfig) -> int:
    """The MLP's width."""
    own = next((v for name in ("intermediate_size", "ffn_dim", "n_inner") if (v := getattr(text, name, None))), None)
    return int(own or 4 * number_of(text, "hidden_size"))


def rotary_limit(config: PreTrainedConfig) -> int | None:
    """The positions up to which rotary angles do not change with the length; None if they never do.

    LongRoPE takes other factors beyond its original length, for all rows of a pass; dynamic NTK scales beyond the
    longest sequence, which a row that ended may pass while its static batch goes on.
    """
    text = config.get_text_config()
    limits = []
    for rotary in _rotary_settings(getattr(text, "rope_parameters", None)):
        kind = rotary.get("rope_type")
        if kind == "longrope":
            original = rotary.get("original_max_position_embeddings")
            limits.append(original or getattr(text, "original_max_position_embeddings", None) or positions_of(text))
        elif kind == "dynamic":
            limits.append(positions_of(text))
    return min(limits, default=None)


def _rotary_settings(parameters: Any) -> list[dict[str, Any]]:
    """The settings of all layers, or one for each type of layer."""
    if not isinstance(parameters, dict):
        return []
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    return nested or [parameters]
