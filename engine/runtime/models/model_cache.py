"""Models converted once from GGUF to safetensors, kept in the user's cache folder and shared by all processes.

A converted model is a folder that is built under another name and then renamed, so it is either complete or absent. Its
manifest holds each file's size and checksum; a folder that does not match is built again. One process converts at a
time; the others wait and use its result. The checksum detects truncation, zeroed blocks and flipped bits, not forgery.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from engine.core.format import size
from engine.hardware.model_catalog import MANIFEST, models_folder
from engine.runlog.locks import hold

ProgressCallback = Callable[[str, float | None], None]

_WORD_BYTES = 8


def converted_folder(key: str, gguf: Path, on_progress: ProgressCallback) -> Path:
    """The folder with `gguf` as safetensors, converted now if the cache has no complete copy.

    `key` names the folder: it must change when the file's content does. `on_progress` gets a text and a share 0..1.
    ValueError if the file is not a readable causal language model or the cache is not writable.
    """
    folder = models_folder() / key
    if is_whole(folder):
        return folder
    try:
        lock = hold(
            folder.with_name(f"{key}.lock"),
            purpose=f"converting {gguf.name}",
            on_wait=lambda holder: on_progress(f"waiting for the model: {holder}", None),
        )
        with lock:
            if not is_whole(folder):
                _build(folder, gguf, on_progress)
    except OSError as error:
        raise ValueError(
            f"cannot save the converted model in {folder}: {error.strerror or error}; "
            "free some space, or set LAB_CACHE to a writable folder"
        ) from error
    return folder


def is_whole(folder: Path) -> bool:
    """Whether every file of the manifest exists with its size and checksum."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        return all(file_checksum(folder / name) == checksum for name, checksum in manifest["files"].items())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return False


def file_checksum(path: Path) -> str:
    """Size, and the sum of the file's 64-bit words modulo 2^64: 20 GB/s from memory, fast enough for every load."""
    size_bytes = path.stat().st_size
    words = size_bytes // _WORD_BYTES
    total = 0
    if words:
        total = int(torch.from_file(str(path), size=words, dtype=torch.int64).sum())
    with path.open("rb") as file:
        file.seek(words * _WORD_BYTES)
        total += int.from_bytes(file.read(), "little")
    return f"{size_bytes}:{total % 2**64:016x}"


def _build(folder: Path, gguf: Path, on_progress: ProgressCallback) -> None:
    """Convert into a temporary folder, then rename it. Runs under the conversion lock."""
    for left_over in folder.parent.glob(f"{folder.name}.partial-*"):
        shutil.rmtree(left_over, ignore_errors=True)
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        _convert(gguf, partial, on_progress)
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _convert(gguf: Path, target: Path, on_progress: ProgressCallback) -> None:
    missing = [package for package in ("gguf", "accelerate") if find_spec(package) is None]
    if missing:
        packages = " ".join(missing)
        raise ValueError(f"reading {gguf.name} needs {packages.replace(' ', ' and ')}: run `pip install {packages}`")
    named = f"{gguf.name} ({size(gguf.stat().st_size)})"
    on_progress(f"converting {named} once, later loads skip this: reading the weights", 0.0)
    model = _read_gguf(AutoModelForCausalLM, gguf, dtype=torch.float32)
    on_progress(f"converting {gguf.name} once: reading the tokenizer", 0.75)
    tokenizer = _read_gguf(AutoTokenizer, gguf)
    on_progress(f"converting {gguf.name} once: writing it to {target.parent}", 0.95)
    target.mkdir()
    tokenizer.save_pretrained(target)
    _save_model(model, target)
    _write_manifest(target)


def _read_gguf(reader: Any, gguf: Path, **options: Any) -> Any:
    try:
        return reader.from_pretrained(gguf.parent, gguf_file=gguf.name, local_files_only=True, **options)
    except Exception as error:  # a broken file can raise any error in the readers
        reason = " ".join(str(error).split())
        raise ValueError(f"{gguf.name} cannot be read as a causal language model: {reason}") from error


def _save_model(model: PreTrainedModel, target: Path) -> None:
    """Save weights in fp32, the exact values of the quantized file; shared weights are written once."""
    written: set[int] = set()
    weights: dict[str, torch.Tensor] = {}
    for name, weight in model.state_dict().items():
        if weight.data_ptr() not in written:
            written.add(weight.data_ptr())
            weights[name] = weight.contiguous()
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    values = model.config.to_dict()
    values.pop("quantization_config", None)  # the saved weights are plain numbers
    config = type(model.config).from_dict(values)
    config.architectures = [type(model).__name__]
    config.save_pretrained(target)
    if model.generation_config is not None:
        model.generation_config.save_pretrained(target)


def _write_manifest(folder: Path) -> None:
    files = {path.name: file_checksum(path) for path in sorted(folder.iterdir()) if path.is_file()}
    (folder / MANIFEST).write_text(json.dumps({"files": files}, indent=2))
