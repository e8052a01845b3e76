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
    JetMoeConfig,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    MixtralConfig,
    Phi3Config,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    SmolLM3Config,
)

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.request import ExactPrompt
from engine.runtime.kv.attention_fit import install
from engine.runtime.measuring.oracles import generate_outputs
from engine.runtime.measuring.parity import engine_outputs
from engine.runtime.models.loading import LoadedModel, _describe, load_model
from engine.runtime.models.tokenizing import byte_encoder
from engine.runtime.prepared_run import WarmModel, prepare_run
from engine.workload.workload import build_workload

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


def longrope(original: int) -> dict[str, Any]:
    """Rotary settings that switch from short factors to long ones beyond `original` positions."""
    return {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "short_factor": [1.0] * 8,
        "long_factor": [1 + 0.3 * i for i in range(8)],
        "factor": 4.0,
        "original_max_position_embeddings": original,
    }


FIT = {
    "llama, 4 query heads a KV head": LlamaConfig(**heads(8, 2)),
    "llama, as many KV heads, its own width": LlamaConfig(**heads(4, 4, head_dim=24, tie_word_embeddings=True)),
    "qwen2, biases, one KV head": Qwen2Config(**heads(6, 1, head_dim=16)),
    "qwen3, normed queries and keys, wide heads": Qwen3Config(**heads(4, 2, head_dim=32)),
    "mistral, 3 query heads a KV head": MistralConfig(**heads(6, 2, head_dim=16, sliding_window=None)),
    "smollm3, a layer without positions": SmolLM3Config(**heads(4, 1, no_rope_layers=[1, 0])),
    "mistral, a window as long as the longest request": MistralConfig(**heads(4, 2, sliding_window=43)),
    "gemma3, windows that do not bind": Gemma3TextConfig(**heads(4, 2, head_dim=16, sliding_window=43)),
    "longrope, up to where it switches": Phi3Config(
        **heads(4, 2, original_max_position_embeddings=43, rope_parameters=longrope(43))
    ),
    "mixtral, 2 of 4 experts": MixtralConfig(**heads(4, 2, num_local_experts=4, num_experts_per_tok=2)),
}
REFUSED = {
    "gemma2 without windows": (
        Gemma2Config(**heads(4, 2, head_dim=16, sliding_window=None, layer_types=["full_attention"] * 2)),
        "soft-capped attention",
    ),
    "deepseek v2": (DeepseekV2Config(**heads(4, 4, q_lora_rank=None, **MLA)), "latent attention"),
    "deepseek v3": (DeepseekV3Config(**heads(4, 4, q_lora_rank=24, **MLA)), "latent attention"),
    "jetmoe, KV heads repeated for each expert": (
        JetMoeConfig(**TINY, num_key_value_heads=2, kv_channels=16, num_local_experts=4, num_experts_per_tok=2),
        "passes 4 KV heads of width 16",
    ),
    "mamba": (MambaConfig(vocab_size=512, hidden_size=64, num_hidden_layers=2), "layers of type"),
    "bloom": (BloomConfig(vocab_size=512, hidden_size=64, n_layer=2, n_head=4), "has its own attention"),
}


# Requests of 43 tokens at most, in two slots; static's rows reach 33 + 10 too.
LIMITED = {
    "a window of mistral": (MistralConfig(**heads(4, 2, sliding_window=42)), "sliding-window attention over 42"),
    "windows of qwen2": (
        Qwen2Config(**heads(4, 2, use_sliding_window=True, sliding_window=42, max_window_layers=1)),
        "sliding-window attention over 42",
    ),
    "windows of gemma3": (Gemma3TextConfig(**heads(4, 2, head_dim=16, sliding_window=42)), "over 42 positions"),
    "longrope": (
        Phi3Config(**heads(4, 2, original_max_position_embeddings=42, rope_parameters=longrope(42))),
        "rotary angles beyond 42 positions",
    ),
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
    workload = WorkloadConfig(prompts="p3,p16,p33", requests=6, budget="2-10", arrival="constant:500")  # 43 at most
    outputs = {}
    for engine in ("serial", "static", "continuous", "paged", "chunked"):
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


def prepare(model: Any, longest_prompt: int, budget: str, engine: str = "serial", seed: int = 0) -> None:
    """Prepare a run of two requests, of 3 and of `longest_prompt` tokens."""
    spec = _describe(model, name="tiny", source="", random_weights=True, tokenizer_file=None)
    loaded = LoadedModel(model=model, encoder=byte_encoder(512), spec=spec)
    warm = WarmModel(loaded=loaded, key=("tiny", CPU, torch.float32))
    workload = WorkloadConfig(prompts=f"p3,p{longest_prompt}", requests=2, budget=budget, seed=seed)
    config = RunConfig(engine=engine, model="tiny", device="cpu", slots=2, workload=workload)
    prepare_run(config, warm, lambda message, fraction: None)


@pytest.mark.parametrize("name", LIMITED)
def test_a_run_beyond_a_window_or_a_switch_of_angles_is_refused_in_one_line(name: str) -> None:
    config, reason = LIMITED[name]
    model = model_of(config)
    install(model)
    prepare(model, 32, "10")
    with pytest.raises(ValueError, match=reason) as caught:
        prepare(model, 33, "10")
    assert "\n" not in str(caught.value)


def test_a_row_that_ended_in_a_static_batch_must_not_switch_the_angles_of_others() -> None:
    """Dynamic NTK scales beyond 64 positions: with budgets of 4 and 10, a row of p60 that ended reaches 70."""
    dynamic = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}
    model = model_of(LlamaConfig(**heads(4, 2, rope_parameters=dynamic) | {"max_position_embeddings": 64}))
    install(model)
    prepare(model, 60, "4")
    prepare(model, 60, "4", engine="static")
    seed = next(  # one that gives the long prompt the small budget
        seed
        for seed in range(20)
        for spec in build_workload(WorkloadConfig(prompts="p3,p60", requests=2, budget="1x4+1x10", seed=seed)).requests
        if isinstance(spec.prompt, ExactPrompt) and (spec.prompt.tokens, spec.budget_tokens) == (60, 4)
    )
    prepare(model, 60, "1x4+1x10", seed=seed)
    with pytest.raises(ValueError, match="beyond 64 positions, for all rows at once"):
        prepare(model, 60, "1x4+1x10", engine="static", seed=seed)


def test_a_model_that_fits_attends_through_the_lab() -> None:
    model = model_of(FIT["llama, 4 query heads a KV head"])
    install(model)
    with pytest.raises(TypeError, match="kv_pass"):  # no current pass
        model(input_ids=torch.zeros(1, 3, dtype=torch.long), use_cache=False)
