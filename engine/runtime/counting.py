"""Counts a model by its class in transformers, on torch's meta device: `python -m engine.runtime.counting`.

The configuration comes on stdin as JSON, the answer goes to stdout as one line of JSON: `numbers`, the fields of a
`ModelShape`, or `refused`, the reason. One token is sent through the model, so that layers, KV heads and head width are
those that reach the attention. No weights are read, nothing is computed, and no code of a model is run.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from engine.hardware.decoder_family import MAX_LAYERS, window_of
from engine.runtime.kv.attention_fit import attention_calls, check_attention, require_own_layers
from engine.runtime.models.configs import number_of, one_line, require_causal
from engine.runtime.models.experts import mlp_numbers


def main() -> None:
    """Read one configuration, write one answer."""
    config = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        answer = count(config)
    print(json.dumps(answer))


def count(config: dict[str, Any]) -> dict[str, Any]:
    """{"numbers": …} or {"refused": reason}."""
    try:
        return {"numbers": numbers_of(meta_model(config))}
    except Exception as error:  # a class may fail in any way on a configuration that it does not expect
        return {"refused": one_line(error)}


def meta_model(values: dict[str, Any]) -> Any:
    """The causal LM of a configuration, without weights. ValueError for other types and unsupported attention."""
    kind = values.get("model_type")
    if kind not in CONFIG_MAPPING:
        raise ValueError(f"this version of transformers does not know models of type {kind!r:.60}")
    config = CONFIG_MAPPING[kind].from_dict(values)
    require_causal(config)
    check_attention(config)
    if number_of(config.get_text_config(), "num_hidden_layers") > MAX_LAYERS:
        raise ValueError(f"it has more than {MAX_LAYERS:,} layers")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    return model.eval()


def numbers_of(model: Any) -> dict[str, Any]:
    """The fields of a `ModelShape`. ValueError if not every layer uses the lab's attention."""
    text = model.config.get_text_config()
    for name, module in model.named_modules():
        if name.endswith(".experts"):
            module.forward = _same_shape  # which experts are used depends on values, which a meta tensor lacks
    calls = attention_calls(model)
    require_own_layers(calls, text)
    first = calls[0]
    embedding, output = model.get_input_embeddings(), model.get_output_embeddings()
    numbers = {
        "parameters": model.num_parameters(),
        "layers": len(calls),
        "hidden": number_of(text, "hidden_size"),
        "heads": first.heads,
        "kv_heads": first.kv_heads,
        "head_dim": first.head_dim,
        "vocab": number_of(text, "vocab_size"),
        "tied_embeddings": output is not None and output.weight is embedding.weight,
        "max_positions": getattr(text, "max_position_embeddings", None),
        "window": window_of(lambda key: getattr(text, key, None)),
    }
    return numbers | mlp_numbers(model)


def _same_shape(hidden: torch.Tensor, *more: Any, **named: Any) -> torch.Tensor:
    return torch.zeros_like(hidden)


if __name__ == "__main__":
    main()
