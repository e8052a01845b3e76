"""Families of models, tiny and of random weights: those whose attention the lab computes say what generate says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    DeepseekV2Config,
    DeepseekV3Config,
    Gemma2Config,
    Gemma3TextConfig,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    SmolLM3Config,
)

from engine.core.config import RunConfig, WorkloadConfig
from engine.runtime.kv.attention_fit import install
from engine.runtime.measuring.oracles import generate_outputs
from engine.runtime.measuring.parity import engine_outputs
from engine.runtime.models.loading import LoadedModel, load_model
from engine.runtime.prepared_run import WarmModel, prepare_run

CPU = torch.device("cpu")
# Wide weights, so that attention moves the result.
TINY: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": 2,
    "pad_token_id": None,
}
MLA: dict[str, Any] = {"kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}


def heads(query: int, kv: int, **more: Any) -> dict[str, Any]:
    return {**TINY, "num_attention_heads": query, "num_key_value_heads": kv, **more}


FIT = {
    "llama, 4 query heads a KV head": LlamaConfig(**heads(8, 2)),
    "llama, as many KV heads, its own width": LlamaConfig(**heads(4, 4, head_dim=24, tie_word_embeddings=True)),
    "qwen2, biases, one KV head": Qwen2Config(**heads(6, 1, head_dim=16)),
    "qwen3, normed queries and keys, wide heads": Qwen3Config(**heads(4, 2, head_dim=32)),
    "mistral, 3 query heads a KV head": MistralConfig(**heads(6, 2, head_dim=16, sliding_window=None)),
    "smollm3, a layer without positions": SmolLM3Config(**heads(4, 1, no_rope_layers=[1, 0])),
}
REFUSED = {
    "gemma2": (Gemma2Config(**heads(4, 2, head_dim=16)), "sliding-window attention"),
    "gemma2 without windows": (
        Gemma2Config(**heads(4, 2, head_dim=16, sliding_window=None, layer_types=["full_attention"] * 2)),
        "soft-capped attention",
    ),
    "gemma3": (Gemma3TextConfig(**heads(4, 2, head_dim=16)), "sliding-window attention"),
    "deepseek v2": (DeepseekV2Config(**heads(4, 4, q_lora_rank=None, **MLA)), "latent attention"),
    "deepseek v3": (DeepseekV3Config(**heads(4, 4, q_lora_rank=24, **MLA)), "latent attention"),
    "mistral with a window": (MistralConfig(**heads(4, 2, sliding_window=64)), "sliding-window attention"),
    "qwen2 with windows": (
        Qwen2Config(**heads(4, 2, use_sliding_window=True, sliding_window=64, max_window_layers=1)),
        "sliding-window attention",
    ),
    "mamba": (MambaConfig(vocab_size=512, hidden_size=64, num_hidden_layers=2), "layers of type"),
    "bloom": (BloomConfig(vocab_size=512, hidden_size=64, n_layer=2, n_head=4), "has its own attention"),
}


def model_of(config: PreTrainedConfig) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


@pytest.fixture(scope="module", params=FIT, ids=str)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = tmp_path_factory.mktemp("model")
    model_of(FIT[request.param]).save_pretrained(folder)
    return load_model(str(folder), CPU, torch.float32, lambda line, share: None)


def test_every_engine_says_what_generate_says(loaded: LoadedModel) -> None:
    install(loaded.model)
    warm = WarmModel(loaded=loaded, key=(loaded.spec.name, CPU, torch.float32))
    workload = WorkloadConfig(prompts="p3,p16,p33", requests=6, budget="2-10", arrival="constant:500")
    outputs = {}
    for engine in ("serial", "continuous", "paged", "chunked"):
        config = RunConfig(
            engine=engine, model=loaded.spec.name, device="cpu", workload=workload, max_num_batched_tokens=20
        )
        prepared = prepare_run(config, warm, lambda message, fraction: None)
        outputs[engine] = engine_outputs(prepared)
    assert outputs == dict.fromkeys(outputs, generate_outputs(prepared))


@pytest.mark.parametrize("name", REFUSED)
def test_attention_that_the_lab_does_not_compute_is_refused_in_one_line(name: str) -> None:
    config, reason = REFUSED[name]
    with pytest.raises(ValueError, match=reason) as caught:
        install(model_of(config))
    assert "\n" not in str(caught.value)
    assert config.model_type in str(caught.value)


def test_a_model_that_fits_attends_through_the_lab() -> None:
    model = model_of(FIT["llama, 4 query heads a KV head"])
    install(model)
    with pytest.raises(TypeError, match="kv_pass"):  # no current pass
        model(input_ids=torch.zeros(1, 3, dtype=torch.long), use_cache=False)
