"""The families of decoders that are counted by formula: a table row each.

A row says what distinguishes a family from Llama: biases, norms, kind of MLP, its own names of keys, and the values of
its class in transformers for keys that a config.json lacks. `tests/hardware/test_model_families.py` checks every row
against the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.hardware.decoder_family import Experts, Family, Keys

_EXPERTS = ("num_experts", "num_local_experts", "moe_num_experts")
_PER_TOKEN = ("num_experts_per_tok", "moe_k")
_GPT2_NAMES = {
    "hidden_size": ("n_embd", "hidden_size"),
    "num_hidden_layers": ("n_layer", "num_hidden_layers"),
    "num_attention_heads": ("n_head", "num_attention_heads"),
    "intermediate_size": ("n_inner",),
    "max_position_embeddings": ("n_positions", "max_position_embeddings"),
}


def _lfm2_width(keys: Keys, hidden: int) -> int:
    width = keys.number("block_ff_dim") if keys.get("block_ff_dim") else keys.number("intermediate_size")
    if not keys.get("block_auto_adjust_ff_dim"):
        return width
    width = 2 * width // 3
    factor, multiple = keys.get("block_ffn_dim_multiplier"), keys.number("block_multiple_of")
    return width if factor is None else multiple * -(-int(factor * width) // multiple)


def _opt_extra(keys: Keys) -> int:
    """Learned positions, two more than the longest sequence."""
    hidden = keys.number("hidden_size")
    if keys.number("word_embed_proj_dim", hidden) != hidden:
        keys.refuse(f"word_embed_proj_dim differs from hidden_size {hidden}; such embeddings are not estimated")
    if not keys.get("layer_norm_elementwise_affine"):
        keys.refuse("layer_norm_elementwise_affine is off; such norms are not estimated")
    return (keys.number("max_position_embeddings") + 2) * hidden


def _falcon_norms(keys: Keys) -> int:
    in_parallel = keys.get("num_ln_in_parallel_attn")
    if in_parallel is None and keys.get("new_decoder_architecture"):
        in_parallel = 2
    return 2 if in_parallel == 2 or not keys.get("parallel_attn") else 1


def _falcon_kv_heads(keys: Keys, heads: int) -> int:
    if keys.get("multi_query") and not keys.get("new_decoder_architecture"):
        return 1
    return keys.number("num_kv_heads", heads) if keys.get("new_decoder_architecture") else heads


def _four_times(keys: Keys, hidden: int) -> int:
    return keys.number("intermediate_size", 4 * hidden)


def _sparse_layers(keys: Keys) -> int:
    """Qwen's mixtures: every n-th layer but the listed ones has experts."""
    step, only_dense = keys.number("decoder_sparse_step"), keys.get("mlp_only_layers") or ()
    layers = range(keys.number("num_hidden_layers"))
    return sum((i + 1) % step == 0 and i not in only_dense for i in layers)


def _experts(keys: Keys, hidden: int, *, layers: int, width: str, other: int = 0, shared: int = 0) -> Experts:
    """`other` and the router: a row of the hidden width per expert."""
    count, per_token = keys.number("experts"), keys.number("experts_per_token")
    if per_token > count:
        keys.refuse(f"{per_token} experts per token of {count} in its config.json; use at most as many")
    return Experts(
        count=count,
        per_token=per_token,
        layers=layers,
        width=keys.number(width),
        other=count * hidden + other,
        shared_width=shared,
    )


def _mixtral(keys: Keys, hidden: int) -> Experts:
    return _experts(keys, hidden, layers=keys.number("num_hidden_layers"), width="intermediate_size")


def _qwen2_moe(keys: Keys, hidden: int) -> Experts:
    shared = keys.number("shared_expert_intermediate_size")
    other = 3 * hidden * shared + hidden  # and its gate
    return _experts(
        keys, hidden, layers=_sparse_layers(keys), width="moe_intermediate_size", other=other, shared=shared
    )


def _qwen3_moe(keys: Keys, hidden: int) -> Experts:
    return _experts(keys, hidden, layers=_sparse_layers(keys), width="moe_intermediate_size")


def _ernie_moe(keys: Keys, hidden: int) -> Experts:
    first, last = keys.number("moe_layer_start_index", least=0), keys.number("moe_layer_end_index", least=-1)
    layers, step = keys.number("num_hidden_layers"), keys.number("moe_layer_interval")
    last = layers - 1 if last == -1 else last
    shared = keys.number("moe_num_shared_experts", least=0) * keys.number("moe_intermediate_size")
    bias = 2 * shared + hidden if shared and keys.get("use_bias") else 0
    other = 3 * hidden * shared + bias + keys.number("experts")  # and a correction per expert
    sparse = sum((i + 1) % step == 0 and first <= i <= last for i in range(layers))
    return _experts(keys, hidden, layers=sparse, width="moe_intermediate_size", other=other, shared=shared)


def _defaults(
    vocab: int,
    hidden: int,
    intermediate: int | None,
    layers: int,
    heads: int,
    kv_heads: int | None,
    positions: int | None,
    tied: bool,
    **more: Any,
) -> dict[str, Any]:
    """The values of a class for keys that a config.json lacks."""
    return {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": positions,
        "tie_word_embeddings": tied,
        **more,
    }


_MOE_NAMES = {"experts": _EXPERTS, "experts_per_token": _PER_TOKEN}
_BIASED: dict[str, Any] = {"qkv_bias": True, "output_bias": True, "mlp_bias": True}
_SHIFTED: dict[str, Any] = {"norm_vectors": 2, "has_gate": False}
_ALL_BY_KEY: dict[str, Any] = {"qkv_bias": "attention_bias", "output_bias": "attention_bias"}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(
        defaults=_defaults(32_000, 4096, 11_008, 32, 32, None, 2048, False), **_ALL_BY_KEY, mlp_bias="mlp_bias"
    ),
    "mistral": Family(defaults=_defaults(32_000, 4096, 14_336, 32, 32, 8, 131_072, False, sliding_window=4096)),
    "qwen2": Family(
        defaults=_defaults(151_936, 4096, 22_016, 32, 32, 32, 32_768, False, use_sliding_window=False), qkv_bias=True
    ),
    "qwen3": Family(
        defaults=_defaults(151_936, 4096, 22_016, 32, 32, 32, 32_768, False, head_dim=128, use_sliding_window=False),
        **_ALL_BY_KEY,
        qk_norms="one",
    ),
    "gemma": Family(defaults=_defaults(256_000, 3072, 24_576, 28, 16, 16, 8192, True, head_dim=256), **_ALL_BY_KEY),
    "gemma2": Family(
        defaults=_defaults(256_000, 2304, 9216, 26, 8, 4, 8192, True, head_dim=256, sliding_window=4096),
        **_ALL_BY_KEY,
        norms=4,
    ),
    "gemma3_text": Family(
        defaults=_defaults(262_208, 2304, 9216, 26, 8, 4, 131_072, True, head_dim=256, sliding_window=4096),
        **_ALL_BY_KEY,
        norms=4,
        qk_norms="one",
    ),
    "phi": Family(
        defaults=_defaults(51_200, 2048, 8192, 24, 32, None, 2048, False),
        norms=1,
        **_SHIFTED,
        **_BIASED,
        head_bias=True,
        qk_norms="shifted",
        qk_norm_rule="qk_layernorm",
    ),
    "phi3": Family(defaults=_defaults(32_064, 3072, 8192, 32, 32, None, 4096, False)),
    "starcoder2": Family(
        defaults=_defaults(49_152, 3072, 12_288, 30, 24, 2, 4096, True, use_bias=True),
        **_SHIFTED,
        qkv_bias="use_bias",
        output_bias="use_bias",
        mlp_bias="use_bias",
    ),
    "gpt_neox": Family(
        defaults=_defaults(50_432, 6144, 24_576, 44, 64, None, 2048, False, attention_bias=True),
        **_SHIFTED,
        **_ALL_BY_KEY,
        mlp_bias=True,
        has_own_head_dim=False,
        kv_heads=lambda keys, heads: heads,
    ),
    "gpt2": Family(
        defaults=_defaults(50_257, 768, None, 12, 12, None, 1024, True),
        names=_GPT2_NAMES,
        **_SHIFTED,
        **_BIASED,
        has_own_head_dim=False,
        kv_heads=lambda keys, heads: heads,
        intermediate=_four_times,
        extra=lambda keys: keys.number("max_position_embeddings") * keys.number("hidden_size"),
    ),
    "opt": Family(
        defaults=_defaults(
            *(50_272, 768, 3072, 12, 12, None, 2048, True),
            do_layer_norm_before=True,
            enable_bias=True,
            layer_norm_elementwise_affine=True,
        ),
        names={"intermediate_size": ("ffn_dim",)},
        **_SHIFTED,
        qkv_bias="enable_bias",
        output_bias="enable_bias",
        mlp_bias="enable_bias",
        has_own_head_dim=False,
        kv_heads=lambda keys, heads: heads,
        extra=_opt_extra,
    ),
    "bloom": Family(
        defaults=_defaults(250_880, 64, None, 2, 8, None, None, True),
        names={
            "hidden_size": ("n_embed", "hidden_size"),
            "num_hidden_layers": ("n_layer", "num_hidden_layers"),
            "num_attention_heads": ("n_head", "num_attention_heads"),
        },
        **_SHIFTED,
        **_BIASED,
        has_own_head_dim=False,
        has_positions=False,
        kv_heads=lambda keys, heads: heads,
        intermediate=lambda keys, hidden: 4 * hidden,
        extra=lambda keys: 2 * keys.number("hidden_size"),  # a norm of the embeddings
    ),
    "falcon": Family(
        defaults=_defaults(65_024, 4544, None, 32, 71, None, 2048, True, multi_query=True, parallel_attn=True),
        names={"intermediate_size": ("ffn_hidden_size",)},
        **_SHIFTED,
        qkv_bias="bias",
        output_bias="bias",
        mlp_bias="bias",
        norms=_falcon_norms,
        has_own_head_dim=False,
        kv_heads=_falcon_kv_heads,
        intermediate=_four_times,
    ),
    "mpt": Family(
        defaults=_defaults(50_368, 2048, None, 24, 16, None, 2048, True),
        names={
            "hidden_size": ("d_model", "hidden_size"),
            "num_hidden_layers": ("n_layers", "num_hidden_layers"),
            "num_attention_heads": ("n_heads", "num_attention_heads"),
            "max_position_embeddings": ("max_seq_len",),
        },
        has_gate=False,
        has_own_head_dim=False,
        kv_heads=lambda keys, heads: heads,
        intermediate=lambda keys, hidden: 4 * hidden,
    ),
    "olmo": Family(defaults=_defaults(50_304, 4096, 11_008, 32, 32, None, 2048, False), norm_vectors=0, **_ALL_BY_KEY),
    "olmo2": Family(
        defaults=_defaults(50_304, 4096, 11_008, 32, 32, None, 2048, False), **_ALL_BY_KEY, qk_norms="each"
    ),
    "granite": Family(
        defaults=_defaults(32_000, 4096, 11_008, 32, 32, None, 2048, False), **_ALL_BY_KEY, mlp_bias="mlp_bias"
    ),
    "stablelm": Family(
        defaults=_defaults(50_304, 2560, 6912, 32, 32, 32, 4096, False),
        norms=lambda keys: 1 if keys.get("use_parallel_residual") else 2,
        norm_vectors=2,
        qkv_bias="use_qkv_bias",
        has_own_head_dim=False,
        qk_norms="each",
        qk_norm_rule="qk_layernorm",
    ),
    "cohere": Family(
        defaults=_defaults(256_000, 8192, 22_528, 40, 64, None, 8192, True),
        **_ALL_BY_KEY,
        norms=1,
        qk_norms="each",
        qk_norm_rule="use_qk_norm",
    ),
    "smollm3": Family(
        defaults=_defaults(128_256, 2048, 11_008, 36, 16, 4, 32_768, True, use_sliding_window=False),
        **_ALL_BY_KEY,
        mlp_bias="mlp_bias",
    ),
    "ernie4_5": Family(
        defaults=_defaults(103_424, 1024, 3072, 18, 16, 2, 131_072, True, head_dim=128),
        qkv_bias="use_bias",
        output_bias="use_bias",
        mlp_bias="use_bias",
    ),
    "lfm2": Family(
        defaults=_defaults(
            *(65_536, 2560, 12_288, 32, 32, 8, 128_000, True),
            conv_L_cache=3,
            block_multiple_of=256,
            block_ffn_dim_multiplier=1.0,
            block_auto_adjust_ff_dim=True,
        ),
        names={"tie_word_embeddings": ("tie_embedding", "tie_word_embeddings")},
        qk_norms="one",
        intermediate=_lfm2_width,
    ),
    "mixtral": Family(
        defaults=_defaults(32_000, 4096, 14_336, 32, 32, 8, 131_072, False, experts=8, experts_per_token=2),
        names=_MOE_NAMES,
        experts=_mixtral,
    ),
    "olmoe": Family(
        defaults=_defaults(50_304, 2048, 2048, 16, 16, None, 4096, False, experts=64, experts_per_token=8),
        names=_MOE_NAMES,
        **_ALL_BY_KEY,
        qk_norms="each",
        experts=_mixtral,
    ),
    "qwen2_moe": Family(
        defaults=_defaults(
            *(151_936, 2048, 5632, 24, 16, 16, 32_768, False),
            use_sliding_window=False,
            qkv_bias=True,
            decoder_sparse_step=1,
            moe_intermediate_size=1408,
            shared_expert_intermediate_size=5632,
            experts=60,
            experts_per_token=4,
        ),
        names=_MOE_NAMES,
        qkv_bias="qkv_bias",
        experts=_qwen2_moe,
    ),
    "qwen3_moe": Family(
        defaults=_defaults(
            *(151_936, 2048, 6144, 24, 32, 4, 32_768, False),
            use_sliding_window=False,
            decoder_sparse_step=1,
            moe_intermediate_size=768,
            experts=128,
            experts_per_token=8,
        ),
        names=_MOE_NAMES,
        **_ALL_BY_KEY,
        qk_norms="one",
        experts=_qwen3_moe,
    ),
    "ernie4_5_moe": Family(
        defaults=_defaults(
            *(103_424, 2560, 12_288, 28, 20, 4, 131_072, True),
            moe_intermediate_size=1536,
            experts=64,
            experts_per_token=6,
            moe_num_shared_experts=2,
            moe_layer_start_index=1,
            moe_layer_end_index=-1,
            moe_layer_interval=1,
        ),
        names=_MOE_NAMES,
        qkv_bias="use_bias",
        output_bias="use_bias",
        mlp_bias="use_bias",
        head_bias="use_bias",
        experts=_ernie_moe,
    ),
}
