"""Parameters by formula against transformers' classes on the meta device: defaults, small shapes, published ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from engine.hardware.decoder_family import decoder_numbers
from engine.hardware.model_families import FAMILIES
from engine.hardware.model_presets import model_shape

SMALL: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
NO_PAD = {**SMALL, "pad_token_id": None}  # the class's own is beyond a small vocabulary
GPT2 = {"vocab_size": 300, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 96}
MOE = {**SMALL, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "llama": [SMALL, {**SMALL, "attention_bias": True, "mlp_bias": True, "head_dim": 24, "tie_word_embeddings": True}],
    "mistral": [SMALL, {"hidden_size": 64, "head_dim": None, "num_hidden_layers": 2}],
    "qwen2": [SMALL, {**SMALL, "head_dim": 32, "tie_word_embeddings": True}],
    "qwen3": [SMALL, {**SMALL, "attention_bias": True, "head_dim": 16}],
    "gemma": [SMALL, {**SMALL, "head_dim": 16, "tie_word_embeddings": False}],
    "gemma2": [SMALL, {**SMALL, "attention_bias": True}],
    "gemma3_text": [SMALL, {**SMALL, "head_dim": 16}],
    "phi": [SMALL, {**SMALL, "qk_layernorm": True}],
    "phi3": [NO_PAD],
    "starcoder2": [SMALL, {**SMALL, "use_bias": False, "tie_word_embeddings": False}],
    "gpt_neox": [SMALL, {**SMALL, "attention_bias": False, "tie_word_embeddings": True}],
    "gpt2": [GPT2, {**GPT2, "n_inner": 100, "tie_word_embeddings": False}],
    "opt": [
        {**SMALL, "ffn_dim": 100, "word_embed_proj_dim": 64},
        {**SMALL, "ffn_dim": 100, "word_embed_proj_dim": 64, "enable_bias": False, "do_layer_norm_before": False},
        {**SMALL, "ffn_dim": 100, "word_embed_proj_dim": 64, "_remove_final_layer_norm": True},
    ],
    "bloom": [{"vocab_size": 512, "hidden_size": 64, "n_layer": 3, "n_head": 4}],
    "falcon": [
        SMALL,
        {**SMALL, "new_decoder_architecture": True, "num_kv_heads": 2, "bias": True},
        {**SMALL, "multi_query": False, "parallel_attn": False, "alibi": True},
    ],
    "mpt": [{"d_model": 64, "n_layers": 3, "n_heads": 4, "vocab_size": 512, "max_seq_len": 64, "expansion_ratio": 2}],
    "olmo": [SMALL],
    "olmo2": [SMALL],
    "granite": [SMALL, {**SMALL, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}],
    "stablelm": [SMALL, {**SMALL, "use_qkv_bias": True, "qk_layernorm": True, "use_parallel_residual": True}],
    "cohere": [SMALL, {**SMALL, "use_qk_norm": True, "attention_bias": True}],
    "smollm3": [{**NO_PAD, "mlp_bias": True}, {**NO_PAD, "tie_word_embeddings": False}],
    "ernie4_5": [SMALL, {**SMALL, "use_bias": True}],
    "lfm2": [
        SMALL,
        {**SMALL, "layer_types": ["conv", "full_attention", "conv"], "conv_bias": True, "block_multiple_of": 16},
        {**SMALL, "full_attn_idxs": [1], "block_auto_adjust_ff_dim": False, "tie_embedding": False},
        {**SMALL, "block_ff_dim": 90, "block_ffn_dim_multiplier": 1.3, "block_multiple_of": 8},
    ],
    "mixtral": [{**SMALL, "num_local_experts": 4}, {**SMALL, "num_experts_per_tok": 1, "head_dim": 24}],
    "olmoe": [{**SMALL, "num_experts": 4, "num_experts_per_tok": 2}],
    "qwen2_moe": [
        {**MOE, "num_experts": 6, "shared_expert_intermediate_size": 40},
        {**MOE, "num_experts": 6, "mlp_only_layers": [0], "decoder_sparse_step": 2, "qkv_bias": False},
    ],
    "qwen3_moe": [{**MOE, "num_experts": 6}, {**MOE, "num_local_experts": 5, "mlp_only_layers": [1], "head_dim": 24}],
    "ernie4_5_moe": [
        {**SMALL, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 24},
        {**SMALL, "moe_num_experts": 8, "moe_num_shared_experts": 0, "moe_layer_interval": 2, "use_bias": True},
        {**SMALL, "moe_num_experts": 8, "moe_layer_start_index": 0, "moe_layer_end_index": 1, "use_bias": True},
    ],
}
# Published shapes with the parameters of the class, and the bytes of a position in bf16: 2 x KV layers x KV width x 2.
PUBLISHED: dict[str, tuple[dict[str, Any], int, int]] = {
    "Ernie-4.5-21B-A3B": (
        {
            "model_type": "ernie4_5_moe",
            "vocab_size": 103_424,
            "hidden_size": 2560,
            "intermediate_size": 12_288,
            "num_hidden_layers": 28,
            "num_attention_heads": 20,
            "num_key_value_heads": 4,
            "moe_num_experts": 64,
            "moe_k": 6,
            "moe_intermediate_size": 1536,
            "moe_num_shared_experts": 2,
            "moe_layer_start_index": 1,
        },
        21_825_437_888,
        2 * 28 * 512 * 2,
    ),
    "StarCoder2-3B": (
        {
            "model_type": "starcoder2",
            "vocab_size": 49_152,
            "hidden_size": 3072,
            "intermediate_size": 12_288,
            "num_hidden_layers": 30,
            "num_attention_heads": 24,
            "num_key_value_heads": 2,
            "use_bias": True,
        },
        3_030_371_328,
        2 * 30 * 256 * 2,
    ),
    "Pythia-1.4B": (
        {
            "model_type": "gpt_neox",
            "vocab_size": 50_304,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
        },
        1_414_647_808,
        2 * 24 * 2048 * 2,
    ),
    "Gemma-2B": (
        {
            "model_type": "gemma",
            "vocab_size": 256_000,
            "hidden_size": 2048,
            "intermediate_size": 16_384,
            "num_hidden_layers": 18,
            "num_attention_heads": 8,
            "num_key_value_heads": 1,
            "head_dim": 256,
        },
        2_506_172_416,
        2 * 18 * 256 * 2,
    ),
    "LFM2-1.2B": (
        {
            "model_type": "lfm2",
            "vocab_size": 65_536,
            "hidden_size": 2048,
            "intermediate_size": 12_288,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "full_attn_idxs": [2, 5, 8, 10, 12, 14],
        },
        1_170_340_608,
        2 * 6 * 512 * 2,
    ),
    "Mixtral-8x7B": ({"model_type": "mixtral"}, 46_702_792_704, 2 * 32 * 1024 * 2),
    "Qwen3-0.6B": (
        {
            "model_type": "qwen3",
            "vocab_size": 151_936,
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "tie_word_embeddings": True,
        },
        596_049_920,
        2 * 28 * 1024 * 2,
    ),
}
CASES = [(kind, i) for kind, variants in VARIANTS.items() for i in range(-1, len(variants))]


def of_class(config: dict[str, Any]) -> Any:
    kind = CONFIG_MAPPING[config["model_type"]]
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(kind.from_dict(config))


def test_every_family_is_tested() -> None:
    assert set(VARIANTS) == set(FAMILIES)
    assert len(FAMILIES) >= 20


@pytest.mark.parametrize(("kind", "index"), CASES)
def test_parameters_are_those_of_the_class(kind: str, index: int) -> None:
    """Index -1 is a file without any key: all numbers are the class's defaults, but for a few layers."""
    config = {"model_type": kind, **(VARIANTS[kind][index] if index >= 0 else {"num_hidden_layers": 4, "n_layer": 4})}
    numbers = decoder_numbers(FAMILIES[kind], kind, config)
    model = of_class(config)
    assert numbers["parameters"] == model.num_parameters()
    routed = sum(p.numel() for name, p in model.named_parameters() if ".experts." in name)
    assert numbers.get("experts", 0) * numbers.get("expert_parameters", 0) == routed
    assert numbers["tied_embeddings"] == (model.get_output_embeddings().weight is model.get_input_embeddings().weight)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_shapes(name: str, tmp_path: Path) -> None:
    config, parameters, position_bytes = PUBLISHED[name]
    (tmp_path / "config.json").write_text(json.dumps(config))
    shape = model_shape(str(tmp_path))
    assert shape.parameters == parameters == of_class(config).num_parameters()
    assert shape.kv_position_bytes == position_bytes
