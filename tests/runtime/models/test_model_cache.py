"""Conversion from GGUF once, by one process, into a cache that notices damage. On a GGUF file made here, and small."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers.pre_tokenizers import ByteLevel

from engine.core.request import TextPrompt
from engine.runtime.models.loading import load_model
from engine.runtime.models.model_cache import converted_folder, file_checksum, is_whole

HIDDEN, HEADS, KV_HEADS, MLP = 32, 4, 2, 64
TOKENS = ["<|endoftext|>", "<s>", "</s>", *sorted(ByteLevel.alphabet()), "th", "the"]
SHAPES = {
    "token_embd.weight": (len(TOKENS), HIDDEN),
    "output_norm.weight": (HIDDEN,),
    "blk.0.attn_norm.weight": (HIDDEN,),
    "blk.0.ffn_norm.weight": (HIDDEN,),
    "blk.0.attn_q.weight": (HIDDEN, HIDDEN),
    "blk.0.attn_k.weight": (HIDDEN * KV_HEADS // HEADS, HIDDEN),
    "blk.0.attn_v.weight": (HIDDEN * KV_HEADS // HEADS, HIDDEN),
    "blk.0.attn_output.weight": (HIDDEN, HIDDEN),
    "blk.0.ffn_gate.weight": (MLP, HIDDEN),
    "blk.0.ffn_up.weight": (MLP, HIDDEN),
    "blk.0.ffn_down.weight": (HIDDEN, MLP),
}


def tiny_weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


@pytest.fixture
def gguf_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A one-layer Llama with a byte-level tokenizer, and an empty cache of this test's own."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(1)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3] + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(["t h", "th e"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, values in tiny_weights().items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def convert(gguf_file: Path) -> tuple[Path, list[str]]:
    """The converted folder, and the progress lines on the way to it."""
    lines: list[str] = []
    folder = converted_folder("small-1", gguf_file, lambda line, share: lines.append(line))
    return folder, lines


def test_a_gguf_file_becomes_a_model_that_runs(gguf_file: Path) -> None:
    lines: list[str] = []
    loaded = load_model(str(gguf_file), torch.device("cpu"), torch.float32, lambda line, share: lines.append(line))
    assert "once" in lines[0]
    assert lines[-1] == f"loading {gguf_file}"
    assert (loaded.spec.layers, loaded.spec.kv_heads, loaded.spec.head_dim) == (1, 2, 8)
    assert loaded.spec.eos_token_ids == (2,)
    ids = loaded.encoder.encode(TextPrompt(text="the", chat=False))
    assert ids[-1] == TOKENS.index("the")
    assert loaded.encoder.decode(ids).strip() == "the"
    logits = loaded.model(torch.tensor([ids])).logits
    assert logits.shape == (1, len(ids), len(TOKENS))
    assert torch.isfinite(logits).all()


def test_the_weights_are_kept_exactly_and_once(gguf_file: Path) -> None:
    folder, _ = convert(gguf_file)
    kept = load_file(folder / "model.safetensors")
    original = tiny_weights()
    assert np.array_equal(kept["model.embed_tokens.weight"].numpy(), original["token_embd.weight"])
    assert np.array_equal(kept["model.layers.0.mlp.down_proj.weight"].numpy(), original["blk.0.ffn_down.weight"])
    assert len(kept) == len(SHAPES)  # the output shares the embedding's weight


def test_the_second_time_nothing_is_converted(gguf_file: Path) -> None:
    first, lines = convert(gguf_file)
    assert len(lines) == 3
    written = (first / "model.safetensors").stat().st_mtime_ns
    again, lines = convert(gguf_file)
    assert again == first
    assert lines == []
    assert (again / "model.safetensors").stat().st_mtime_ns == written


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def zero_a_block(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-4096:] = bytes(4096)
    path.write_bytes(data)


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "manifest.json"])
@pytest.mark.parametrize("damage", [truncate, flip_a_bit, zero_a_block, Path.unlink])
def test_damage_is_noticed_and_mended(gguf_file: Path, file: str, damage: Callable[[Path], None]) -> None:
    folder, _ = convert(gguf_file)
    before = (folder / "model.safetensors").read_bytes()
    damage(folder / file)
    assert not is_whole(folder)
    converted, lines = convert(gguf_file)
    assert converted == folder
    assert lines, "it must have been converted again"
    assert is_whole(folder)
    assert (folder / "model.safetensors").read_bytes() == before


def test_a_conversion_that_was_killed_leaves_nothing_behind(gguf_file: Path) -> None:
    folder, _ = convert(gguf_file)
    left_over = folder.with_name(f"{folder.name}.partial-1")
    folder.rename(left_over)
    convert(gguf_file)
    assert sorted(p.name for p in folder.parent.iterdir() if p.is_dir()) == [folder.name]


def test_two_processes_convert_once(gguf_file: Path) -> None:
    """Both wait for each other's import, so that they ask at the same moment; both get the whole model."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from engine.runtime.models.model_cache import converted_folder, is_whole\n"
        "print('imported', flush=True)\n"
        "sys.stdin.readline()\n"
        "folder = converted_folder('small-1', Path(sys.argv[1]), lambda line, share: print(line, flush=True))\n"
        "print('whole' if is_whole(folder) else 'torn', flush=True)\n"
    )
    command = [sys.executable, "-c", code, str(gguf_file)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "imported\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [output.splitlines()[-1] for output in outputs] == ["whole", "whole"]
    assert sum("reading the weights" in output for output in outputs) == 1
    assert len(list((gguf_file.parent / "cache" / "models").glob("small-1*/"))) == 1


def test_a_file_that_is_no_gguf_is_refused_in_one_line(gguf_file: Path) -> None:
    gguf_file.write_bytes(b"GGUF and then nothing that makes sense")
    with pytest.raises(ValueError, match=r"small\.gguf cannot be read as a causal language model") as refusal:
        convert(gguf_file)
    assert "\n" not in str(refusal.value)
    assert not any(p.is_dir() for p in (gguf_file.parent / "cache" / "models").iterdir())


def test_a_folder_with_two_gguf_files_asks_which(gguf_file: Path) -> None:
    gguf_file.with_name("other.gguf").write_bytes(b"")
    with pytest.raises(ValueError, match=r"it holds 2 GGUF files; name one of them, such as .*other\.gguf"):
        load_model(str(gguf_file.parent), torch.device("cpu"), torch.float32, lambda line, share: None)


def test_a_cache_that_cannot_be_written_says_what_to_do(gguf_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE", str(gguf_file))  # a file, so no folder can be made in it
    with pytest.raises(ValueError, match="set LAB_CACHE to a writable folder"):
        convert(gguf_file)


def test_the_checksum_counts_every_byte(tmp_path: Path) -> None:
    file = tmp_path / "eleven"
    file.write_bytes(bytes([1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0]))
    # One word of value 1, and a tail of 2 + 1 x 256.
    assert file_checksum(file) == f"11:{1 + 2 + 256:016x}"
