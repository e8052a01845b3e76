"""Models made of random weights: a tiny one for tests, and the public shapes of two real ones, for speed and memory.

Shapes follow the configuration files that the models' authors publish. The weights are drawn on the device that will
run them, in the dtype that it will use, from a fixed seed; on another kind of device the same seed gives other weights,
save for the tiny model.
"""

from __future__ import annotations

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PretrainedConfig, PreTrainedModel, Qwen2Config

RANDOM_WEIGHTS_SEED = 0


def random_model(name: str, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """The model of that short name with random weights, drawn on `device` in `dtype`; no weights are read."""
    config = model_shape(name)
    if name == "tiny-random":
        return _draw(config, torch.device("cpu"), dtype).to(device)  # the same weights on every machine
    return _draw(config, device, dtype)


def _draw(config: PretrainedConfig, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """Weights by the model's own initialisation (normal, std `initializer_range`; norms 1, biases 0)."""
    cuda_devices = [device.index or 0] if device.type == "cuda" else []
    with torch.device(device), torch.random.fork_rng(devices=cuda_devices):
        torch.manual_seed(RANDOM_WEIGHTS_SEED)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model


def model_shape(name: str) -> PretrainedConfig:
    """The configuration behind a short name of random weights."""
    shapes = {
        "tiny-random": _tiny,
        "qwen2.5-1.5b-random": _qwen2_5_1_5b,
        "llama-3.1-8b-random": _llama_3_1_8b,
    }
    assert name in shapes, name
    return shapes[name]()


def _tiny() -> PretrainedConfig:
    """Wide weights, so that attention moves the result: with the usual 0.02 the last token alone would decide."""
    return LlamaConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=262_144,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=None,
    )


def _qwen2_5_1_5b() -> PretrainedConfig:
    return Qwen2Config(
        vocab_size=151_936,
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        max_position_embeddings=32_768,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
        tie_word_embeddings=True,
        bos_token_id=151_643,
        eos_token_id=151_645,
        pad_token_id=151_643,
    )


def _llama_3_1_8b() -> PretrainedConfig:
    return LlamaConfig(
        vocab_size=128_256,
        hidden_size=4096,
        intermediate_size=14_336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=131_072,
        rms_norm_eps=1e-5,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500_000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        tie_word_embeddings=False,
        bos_token_id=128_000,
        eos_token_id=128_001,
        pad_token_id=None,
    )
