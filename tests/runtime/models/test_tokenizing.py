"""Prompts to ids and ids to text, with the default model's real tokenizer and with bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from engine.core.request import ExactPrompt, TextPrompt
from engine.runtime.models.loading import load_model
from engine.runtime.models.tokenizing import ByteEncoder, PromptEncoder, TokenizerEncoder, byte_encoder, load_encoder
from engine.workload.prose import passage_text

LENGTHS = [1, 2, 16, 64, 256, 4096]


@pytest.fixture(scope="module")
def tokenizer_file() -> str:
    loaded = load_model("smollm2-135m", torch.device("cpu"), torch.float32, lambda line, share: None)
    assert loaded.spec.tokenizer_file is not None
    return loaded.spec.tokenizer_file


@pytest.fixture(scope="module")
def smollm2(tokenizer_file: str) -> PromptEncoder:
    encoder, file = load_encoder(Path(tokenizer_file).parent, 49_152)
    assert file == tokenizer_file
    return encoder


def test_a_question_goes_through_the_chat_template(smollm2: PromptEncoder, tokenizer_file: str) -> None:
    expected = (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = smollm2.encode(TextPrompt(text="Why is the sky blue?"))
    assert ids == Tokenizer.from_file(tokenizer_file).encode(expected, add_special_tokens=False).ids
    assert ids[0] == 1  # <|im_start|>, as one token


def test_plain_text_stays_as_it_is(smollm2: PromptEncoder) -> None:
    text = "Batching trades latency for throughput, naïvely: 3.5× at B=8."
    assert smollm2.decode(smollm2.encode(TextPrompt(text=text, chat=False))) == text


def test_special_tokens_have_no_text(smollm2: PromptEncoder) -> None:
    ids = smollm2.encode(TextPrompt(text="Paris.", chat=False))
    assert smollm2.decode([1, *ids, 2]) == "Paris."
    assert smollm2.decode([]) == ""


@pytest.mark.parametrize("tokens", LENGTHS)
def test_exact_lengths_are_exact(smollm2: PromptEncoder, tokens: int) -> None:
    assert len(smollm2.encode(ExactPrompt(tokens=tokens, passage=0))) == tokens
    assert len(ByteEncoder().encode(ExactPrompt(tokens=tokens, passage=0))) == tokens


def test_exact_prompts_are_the_prose(smollm2: PromptEncoder) -> None:
    text = smollm2.decode(smollm2.encode(ExactPrompt(tokens=256, passage=3)))
    assert len(text) > 700
    assert passage_text(3, len(text)) == text


def test_passages_differ_and_repeat(smollm2: PromptEncoder) -> None:
    prompts = [tuple(smollm2.encode(ExactPrompt(tokens=64, passage=k))) for k in range(100)]
    assert len(set(prompts)) == 100
    assert prompts[7] == tuple(smollm2.encode(ExactPrompt(tokens=64, passage=7)))


def test_bytes_are_utf8() -> None:
    encoder = byte_encoder(512)
    assert encoder.encode(TextPrompt(text="aé")) == [97, 0xC3, 0xA9]
    assert encoder.decode([97, 0xC3, 0xA9, 300]) == "aé"
    assert encoder.decode([97, 0xC3]) == "a\ufffd"


def test_a_model_with_fewer_ids_than_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="only 255 ids; bytes need 256"):
        byte_encoder(255)


def test_a_folder_without_a_tokenizer_speaks_bytes(tmp_path: Path) -> None:
    encoder, file = load_encoder(tmp_path, 512)
    assert isinstance(encoder, ByteEncoder)
    assert file is None


def test_a_tokenizer_without_a_chat_template_encodes_the_text_alone(tmp_path: Path, tokenizer_file: str) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(Path(tokenizer_file).with_name(name), tmp_path)
    encoder, _ = load_encoder(tmp_path, 49_152)
    assert isinstance(encoder, TokenizerEncoder)
    assert not encoder.has_chat_template
    assert encoder.decode(encoder.encode(TextPrompt(text="Hello there", chat=True))) == "Hello there"


def test_a_tokenizer_larger_than_the_model_is_refused(tokenizer_file: str) -> None:
    with pytest.raises(ValueError, match="has 49152 ids, but its model only 512"):
        load_encoder(Path(tokenizer_file).parent, 512)


def test_a_broken_tokenizer_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "BPE"}')
    with pytest.raises(ValueError, match="cannot be read") as refusal:
        load_encoder(tmp_path, 512)
    assert "\n" not in str(refusal.value)


def test_a_chat_template_that_raises_is_one_line(tmp_path: Path, tokenizer_file: str) -> None:
    """As templates do that refuse a role; prompts of exact lengths do not use it."""
    for file in Path(tokenizer_file).parent.glob("*token*"):
        shutil.copy(file, tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('System role required') }}")
    encoder, _ = load_encoder(tmp_path, 49_152)
    with pytest.raises(ValueError, match="chat template refuses the prompt: System role required") as caught:
        encoder.encode(TextPrompt(text="Hello"))
    assert "\n" not in str(caught.value)
    assert len(encoder.encode(ExactPrompt(tokens=16, passage=0))) == 16
