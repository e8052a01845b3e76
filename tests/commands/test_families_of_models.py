"""Public model families, small and of random weights: `engine memory` against the class, and `engine parity`.

A family that the lab runs has equal tokens in every engine, and the estimate has the numbers of the loaded model. One
that it does not run is refused in one line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from engine.cli import main
from engine.hardware.model_presets import model_shape
from engine.runtime.models.loading import load_model

CASE = "uniform 4"  # four rows of 64 + 24 tokens
SMALL: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,  # wide weights, so that attention changes the tokens
    "bos_token_id": None,
    "eos_token_id": 2,
    "pad_token_id": None,
}
ALL_HEADS = {name: value for name, value in SMALL.items() if name != "num_key_value_heads"}  # as many KV heads
GPT2 = {"vocab_size": 512, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512, "eos_token_id": 2}
MOE = {**SMALL, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
OWN_ATTENTION = "has its own attention"
NUMBERS = (
    *("parameters", "layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab", "max_positions"),
    *("tied_embeddings", "experts", "experts_per_token", "expert_parameters"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """A small model of a family. `refused`: why `parity` does not run it; None if it does."""

    config: dict[str, Any]
    refused: str | None = None


FAMILIES = {
    "llama": Small(config=SMALL),
    "mistral": Small(config={**SMALL, "sliding_window": 88}),
    "qwen2": Small(config=SMALL),
    "qwen3": Small(config={**SMALL, "head_dim": 16}),
    "gemma": Small(config={**SMALL, "head_dim": 16}),
    "gemma2": Small(config={**SMALL, "head_dim": 16}, refused="uses soft-capped attention"),
    "gemma3_text": Small(config={**SMALL, "head_dim": 16, "sliding_window": 88}),
    "phi": Small(config=SMALL),
    "phi3": Small(config=SMALL),
    "starcoder2": Small(config=SMALL),
    "gpt_neox": Small(config=ALL_HEADS),
    "gpt2": Small(config=GPT2),
    "opt": Small(config={**ALL_HEADS, "ffn_dim": 96, "word_embed_proj_dim": 64}),
    "bloom": Small(
        config={"vocab_size": 512, "hidden_size": 64, "n_layer": 2, "n_head": 4}, refused="gives no max_position"
    ),
    "falcon": Small(config=SMALL, refused=OWN_ATTENTION),
    "mpt": Small(
        config={"vocab_size": 512, "d_model": 64, "n_layers": 2, "n_heads": 4, "max_seq_len": 512},
        refused=OWN_ATTENTION,
    ),
    "olmo2": Small(config=SMALL),
    "granite": Small(config=SMALL),
    "stablelm": Small(config=SMALL, refused=OWN_ATTENTION),
    "cohere": Small(config=SMALL),
    "smollm3": Small(config=SMALL),
    "ernie4_5": Small(config={**SMALL, "head_dim": 16}),
    "lfm2": Small(config={**SMALL, "layer_types": ["conv", "full_attention"]}, refused="uses layers of type conv"),
    "mixtral": Small(config={**SMALL, "num_local_experts": 4}),
    "qwen2_moe": Small(config={**MOE, "num_experts": 6, "shared_expert_intermediate_size": 40}),
    "qwen3_moe": Small(config={**MOE, "num_experts": 6, "mlp_only_layers": [0]}),
    "ernie4_5_moe": Small(config={**SMALL, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 24}),
    # Without a formula: counted by its class, in a process of its own.
    "glm4": Small(config={**SMALL, "head_dim": 16}),
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, int]:
    """The name of a family, the folder of its small model, and the parameters of the class."""
    name: str = request.param
    folder = tmp_path_factory.mktemp(name)
    config = CONFIG_MAPPING[name].from_dict({"model_type": name, **FAMILIES[name].config})
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    return name, folder, model.num_parameters()


def test_memory_counts_what_the_class_has(
    family: tuple[str, Path, int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, folder, parameters = family
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    options = ["--prompts", "p16", "--batch-size", "1,4", "--budget", "8", "--capacity-gib", "1"]
    assert main(["memory", "--model", str(folder), "--dtype", "fp32", *options, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["parameters"] == parameters
    assert answer["points"][0]["weights_bytes"] == 4 * parameters


def test_parity_is_equal_or_refused_in_one_line(
    family: tuple[str, Path, int], capsys: pytest.CaptureFixture[str]
) -> None:
    name, folder, _ = family
    refused = FAMILIES[name].refused
    code = main(["parity", "--model", str(folder), "--device", "cpu", "--case", CASE, "--no-generate-batch", "--json"])
    output = capsys.readouterr()
    if refused is None:
        assert code == 0, output
        answer = json.loads(output.out)
        assert {row["engine"] for row in answer["cases"]} == {"serial", "static", "continuous", "paged", "chunked"}
        loaded = load_model(str(folder), torch.device("cpu"), torch.float32, lambda text, share: None).spec
        shape = model_shape(str(folder), dtype="fp32")
        assert {each: getattr(loaded, each) for each in NUMBERS} == {each: getattr(shape, each) for each in NUMBERS}
    else:
        assert code == 2
        line = output.err.strip().splitlines()[-1]
        assert refused in line
        assert len(line) < 400
