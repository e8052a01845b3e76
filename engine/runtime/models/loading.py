"""Loads a causal language model: by short name, from a folder or GGUF file, or from a hub.

Weights come only from safetensors or GGUF files, never from pickles, and no code from a model is run. Models load
through transformers, in evaluation mode, without gradients. The engine's attention is installed later, by
`kv.attention_fit`.

Models with random weights: a tiny one for tests, and the published shapes of two real models, for speed and memory.
Weights are drawn from a fixed seed on the device and in the dtype of the run. On another kind of device the seed gives
other weights, except for the tiny model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.utils.tqdm import disable_progress_bars
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, PretrainedConfig, PreTrainedModel, Qwen2Config
from transformers.utils import logging as transformers_logging

from engine.core.units import TORCH_NAMES, dtype_of
from engine.hardware.model_catalog import (
    CATALOG,
    INSTALL_SMOLLM2,
    SMOLLM2_WHEEL,
    find_entry,
    models_folder,
    smollm2_wheel,
)
from engine.hardware.model_presets import PUBLIC_CONFIGS, short_name
from engine.runtime.models.configs import (
    head_dim_of,
    kv_heads_of,
    number_of,
    one_line,
    positions_of,
    require_causal,
)
from engine.runtime.models.experts import mlp_numbers
from engine.runtime.models.hub import fetch_from_hub, is_hub_id
from engine.runtime.models.model_cache import ProgressCallback, converted_folder, is_whole
from engine.runtime.models.tokenizing import PromptEncoder, byte_encoder, load_encoder

RANDOM_WEIGHTS_SEED = 0

TORCH_DTYPES: dict[str, torch.dtype] = {name: getattr(torch, of_torch) for name, of_torch in TORCH_NAMES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The model's entry in a run log. `source` states where the weights came from; widths count elements, not bytes.

    `intermediate` is the MLP width that a token passes. The numbers of experts are 0 for a dense model.
    """

    name: str
    source: str
    parameters: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    max_positions: int
    random_weights: bool
    eos_token_ids: tuple[int, ...]
    tokenizer_file: str | None
    tied_embeddings: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_parameters: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model on its device, ready to run, with its prompt encoder and description."""

    model: PreTrainedModel
    encoder: PromptEncoder
    spec: ModelSpec


def load_model(name: str, device: torch.device, dtype: torch.dtype, on_progress: ProgressCallback) -> LoadedModel:
    """Load the model `name` on `device` in `dtype`.

    `name`: a short name of the catalog, a folder with config.json and safetensors (or one GGUF file), a GGUF file, or
    a hub id `owner/model`. `on_progress(text, share)` is called at each stage; `share` is 0..1, or None if unknown.
    ValueError with one clear line if the model does not exist or cannot be read.
    """
    disable_progress_bars()  # of transformers and the hub: on_progress reports instead
    transformers_logging.disable_progress_bar()
    entry = find_entry(name)
    if entry is not None and entry.kind == "random":
        return _load_random(name, device, dtype, on_progress)
    folder, source = _find_weights(name, on_progress)
    on_progress(f"loading {name}", None)
    model = _ready(_read_folder(folder, dtype), device)
    vocab = number_of(model.config.get_text_config(), "vocab_size")
    encoder, tokenizer_file = load_encoder(folder, vocab)
    spec = _describe(model, name=name, source=source, random_weights=False, tokenizer_file=tokenizer_file)
    return LoadedModel(model=model, encoder=encoder, spec=spec)


def resolve_device(text: str) -> torch.device:
    """`auto` (CUDA if there is a GPU), `cpu` or `cuda`. ValueError for other text, or for cuda without a GPU."""
    if text not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device {text!r}: use auto, cpu or cuda")
    has_cuda = torch.cuda.is_available()
    if text == "cuda" and not has_cuda:
        raise ValueError("device cuda: PyTorch finds no CUDA GPU; use cpu or auto")
    return torch.device("cuda", 0) if has_cuda and text != "cpu" else torch.device("cpu")


def resolve_dtype(text: str, device: torch.device) -> torch.dtype:
    """`fp32`, `bf16`, `fp16`, or `auto`: fp32 on a CPU, bf16 on a GPU. ValueError if `device` does not support it."""
    text = dtype_of(text, device.type)
    if text not in TORCH_DTYPES:
        raise ValueError(f"dtype {text!r}: use auto, fp32, bf16 or fp16")
    dtype = TORCH_DTYPES[text]
    try:
        probe = torch.ones(2, 4, 8, 8, device=device, dtype=dtype)
        torch.nn.functional.scaled_dot_product_attention(probe @ probe, probe, probe)
    except RuntimeError as error:
        raise ValueError(f"dtype {text}: this {device.type} does not support it; use fp32") from error
    return dtype


def _load_random(name: str, device: torch.device, dtype: torch.dtype, on_progress: ProgressCallback) -> LoadedModel:
    on_progress(f"creating random weights for {name}", None)
    model = _ready(random_model(name, device, dtype), device)
    source = f"random weights, seed {RANDOM_WEIGHTS_SEED}"
    spec = _describe(model, name=name, source=source, random_weights=True, tokenizer_file=None)
    return LoadedModel(model=model, encoder=byte_encoder(spec.vocab), spec=spec)


def _find_weights(name: str, on_progress: ProgressCallback) -> tuple[Path, str]:
    """The folder of safetensors for `name`, converted or downloaded if needed, and its source."""
    if name == "smollm2-135m":
        return _smollm2(on_progress)
    entry = find_entry(name)
    own_folder = models_folder() / name if entry else _path(name)
    if own_folder is not None and own_folder.exists():
        return _local(own_folder, on_progress)
    hub_id = entry.hub_id if entry and entry.hub_id else name
    if is_hub_id(hub_id):
        folder, source = fetch_from_hub(hub_id, on_progress)
        return _local(folder, on_progress)[0], source
    if name in PUBLIC_CONFIGS:
        raise ValueError(
            f"model {name}: the lab has its shape but not its weights; simulate it (`python -m engine simulate --model "
            f"{name} --hardware h100`, or a GPU by simulation on Bench), or use a folder or hub id with its weights"
        )
    known = ", ".join(entry.name for entry in CATALOG)
    shown = short_name(name)
    raise ValueError(f"model {shown!r}: no such name or folder; use {known}, a model's folder, or a hub id owner/model")


def _path(name: str) -> Path | None:
    """The existing path `name`; None if it does not exist or cannot be a path."""
    try:
        path = Path(name).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long, or the home of an unknown user
        return None


def _smollm2(on_progress: ProgressCallback) -> tuple[Path, str]:
    """From its wheel, or from an earlier conversion if the wheel is not installed."""
    wheel = smollm2_wheel()
    if wheel is not None:
        gguf, version = wheel
        return converted_folder(f"smollm2-135m-{version}", gguf, on_progress), f"{SMOLLM2_WHEEL} {version}"
    for folder in sorted(models_folder().glob("smollm2-135m-*"), reverse=True):
        if is_whole(folder):
            return folder, f"{SMOLLM2_WHEEL} {folder.name.rpartition('-')[2]}"
    raise ValueError(f"model smollm2-135m: its wheel {SMOLLM2_WHEEL} is not installed; {INSTALL_SMOLLM2}")


def _local(path: Path, on_progress: ProgressCallback) -> tuple[Path, str]:
    """A folder with safetensors is used as it is; a GGUF file, or a folder with one, is converted through the cache."""
    if path.is_dir() and (path / "config.json").is_file() and any(path.glob("*.safetensors")):
        return path, f"folder {path}"
    files = sorted(path.glob("*.gguf")) if path.is_dir() else [path]
    if len(files) > 1:
        raise ValueError(f"model {path}: it holds {len(files)} GGUF files; name one of them, such as {files[0]}")
    if not files or files[0].suffix != ".gguf":
        raise ValueError(f"model {path}: name a folder with config.json and *.safetensors, or a *.gguf file")
    stat = files[0].stat()
    key = f"{files[0].stem}-{stat.st_size:x}-{stat.st_mtime_ns:x}"
    return converted_folder(key, files[0], on_progress), f"file {files[0]}"


def _read_folder(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    try:
        require_causal(AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False))
        model, info = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a broken file can raise any error in the readers
        if isinstance(error, RuntimeError) and "can't allocate memory" in str(error):
            raise
        raise ValueError(f"model {folder} cannot be read: {one_line(error)}") from error
    if info["missing_keys"]:
        missing = sorted(info["missing_keys"])
        raise ValueError(
            f"model {folder} lacks {len(missing)} of its weights, such as {missing[0]}; download its files again"
        )
    read: PreTrainedModel = model
    return read


def _ready(model: PreTrainedModel, device: torch.device) -> PreTrainedModel:
    ready: PreTrainedModel = model.to(device).eval().requires_grad_(False)
    return ready


def _describe(
    model: PreTrainedModel, *, name: str, source: str, random_weights: bool, tokenizer_file: str | None
) -> ModelSpec:
    config = model.config.get_text_config()
    output = model.get_output_embeddings()
    return ModelSpec(
        name=name,
        source=source,
        parameters=model.num_parameters(),
        layers=number_of(config, "num_hidden_layers"),
        hidden=number_of(config, "hidden_size"),
        heads=number_of(config, "num_attention_heads"),
        kv_heads=kv_heads_of(config),
        head_dim=head_dim_of(config),
        vocab=number_of(config, "vocab_size"),
        max_positions=positions_of(config),
        random_weights=random_weights,
        eos_token_ids=_eos_token_ids(model, config),
        tokenizer_file=tokenizer_file,
        tied_embeddings=output is not None and output.weight is model.get_input_embeddings().weight,
        **mlp_numbers(model),
    )


def _eos_token_ids(model: PreTrainedModel, config: Any) -> tuple[int, ...]:
    """The ids that end an answer, from the generation settings, or else from the model's configuration."""
    ids = getattr(model.generation_config, "eos_token_id", None)
    if ids is None:
        ids = getattr(config, "eos_token_id", None)
    if ids is None:
        return ()
    return (int(ids),) if isinstance(ids, int) else tuple(int(i) for i in ids)


def random_model(name: str, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """The model `name` with random weights, drawn on `device` in `dtype`; no weights are read."""
    config = model_shape(name)
    if name == "tiny-random":
        return _draw(config, torch.device("cpu"), dtype).to(device)  # the same weights on every machine
    return _draw(config, device, dtype)


def _draw(config: PretrainedConfig, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """Draw weights with the model's own initialization (normal, std `initializer_range`; norms 1, biases 0)."""
    cuda_devices = [device.index or 0] if device.type == "cuda" else []
    with torch.device(device), torch.random.fork_rng(devices=cuda_devices):
        torch.manual_seed(RANDOM_WEIGHTS_SEED)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model


def model_shape(name: str) -> PretrainedConfig:
    """The configuration of a model with random weights, by short name."""
    shapes = {
        "tiny-random": _tiny,
        "qwen2.5-1.5b-random": _qwen2_5_1_5b,
        "llama-3.1-8b-random": _llama_3_1_8b,
    }
    assert name in shapes, name
    return shapes[name]()


def _tiny() -> PretrainedConfig:
    """Large weights, so that attention changes the result: with the usual 0.02 only the last token would matter."""
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
