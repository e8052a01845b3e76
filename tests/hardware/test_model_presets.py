"""Model shapes: public numbers, any config.json, and refused numbers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.hardware.model_catalog import CATALOG
from engine.hardware.model_presets import MODEL_NAMES, PUBLIC_CONFIGS, model_shape


@pytest.mark.parametrize("entry", CATALOG, ids=lambda entry: entry.name)
def test_parameters_counted_from_the_shape_match_the_catalog(entry: Any) -> None:
    assert entry.name in MODEL_NAMES
    assert model_shape(entry.name).parameters == entry.parameters


def test_the_published_sizes() -> None:
    llama, qwen = model_shape("llama-3.1-8b"), model_shape("qwen2.5-1.5b")
    assert llama.weight_bytes == 16_060_522_496
    assert llama.kv_position_bytes == 128 * 1024
    assert qwen.kv_position_bytes == 28 * 1024
    assert qwen.kernels_per_pass == 1123
    assert model_shape("qwen2.5-1.5b", dtype="fp32").weight_bytes == 4 * qwen.parameters
    assert model_shape("llama-3.1-8b", weight_bits=8).weight_bytes == llama.parameters


def test_a_dense_models_config_by_file_or_folder(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(PUBLIC_CONFIGS["smollm2-135m"]))
    assert model_shape(str(tmp_path)).parameters == model_shape(str(file)).parameters == 134_515_008


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": None}, "no model_type in its config.json"),
        ({"num_hidden_layers": 10**6}, "use at most 10,000"),
        ({"hidden_size": 10**400}, "use at most 20,000,000"),
        ({"model_type": "lfm2", "layer_types": ["conv"] * 30}, "no layer in its config.json has attention"),
        ({"model_type": "mixtral", "num_experts_per_tok": 9}, "9 experts per token of 8"),
        ({"model_type": "opt", "word_embed_proj_dim": 16}, "word_embed_proj_dim differs"),
        ({"quantization_config": {"bits": 4}}, "its weights are quantized"),
        ({"model_type": "lfm2", "layer_types": 5}, "of the wrong kind"),
        ({"model_type": "qwen3_moe", "mlp_only_layers": 5}, "of the wrong kind"),
        ({"hidden_size": None}, "hidden_size None"),
        ({"num_key_value_heads": 4}, "9 heads are not a multiple of 4"),
        ({"vocab_size": "many"}, "vocab_size 'many'"),
    ],
)
def test_invalid_numbers_are_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(PUBLIC_CONFIGS["smollm2-135m"] | change))
    with pytest.raises(ValueError, match=words):
        model_shape(str(file))


@pytest.mark.parametrize("content", ["", "[1]", "{", "[" * 100_000, '{"text_config": [1]}'])
def test_invalid_config_files_are_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(content)
    with pytest.raises(ValueError, match="JSON"):
        model_shape(str(file))


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.touch()
    os.truncate(file, 2**40)
    with pytest.raises(ValueError, match="larger than 4 MiB"):
        model_shape(str(file))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"use smollm2-135m, qwen2\.5-1\.5b"):
        model_shape("gpt-99")


def test_weights_of_odd_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="weight-bits 5: use one of 8, 16, 32"):
        model_shape("llama-3.1-8b", weight_bits=5)
