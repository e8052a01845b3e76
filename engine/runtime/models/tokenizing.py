"""Text to token ids and back: chat questions through the model's chat template, exact lengths from prose.

A model with a tokenizer uses it through transformers; a model without one (random weights) uses bytes. Prompts are
encoded one at a time, and the same prompt always gives the same ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from transformers import AutoTokenizer

from engine.core.request import ExactPrompt, Prompt
from engine.runtime.models.configs import one_line
from engine.workload.prose import passage_text

TOKENIZER_FILE = "tokenizer.json"

_BYTE_VALUES = 256
_CHARACTERS_PER_TOKEN = 6  # English prose has about 4 to 5; a first guess, doubled until the text is long enough


class PromptEncoder(Protocol):
    """Encodes a workload's prompts as ids, and decodes a model's ids to text."""

    def encode(self, prompt: Prompt) -> list[int]:
        """The prompt's token ids; for an ExactPrompt exactly its length. Empty text has no ids."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of the ids, without special tokens; never raises for ids of the model's vocabulary."""
        ...


class ByteEncoder:
    """Ids are the UTF-8 bytes of the text, for models without a tokenizer. Ids of 256 and more have no text."""

    def encode(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, ExactPrompt):
            # A character has one or more bytes, so this many characters are at least this many bytes.
            return list(passage_text(prompt.passage, prompt.tokens).encode()[: prompt.tokens])
        return list(prompt.text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(i for i in token_ids if i < _BYTE_VALUES).decode(errors="replace")


class TokenizerEncoder:
    """The model's tokenizer, with its chat template if it has one."""

    def __init__(self, tokenizer: Any) -> None:
        """`tokenizer`: a transformers tokenizer."""
        self._tokenizer = tokenizer

    @property
    def has_chat_template(self) -> bool:
        return bool(self._tokenizer.chat_template)

    def encode(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, ExactPrompt):
            return self._exact(prompt)
        if not (prompt.chat and self.has_chat_template):
            return self._ids(prompt.text)
        message = [{"role": "user", "content": prompt.text}]
        try:
            text = self._tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # a template is a program: it may raise anything, also on purpose
            raise ValueError(
                f"the model's chat template refuses the prompt: {one_line(error)}; use prompts of exact lengths, as p64"
            ) from error
        # The template adds the special tokens.
        return self._ids(text, add_special_tokens=False)

    def decode(self, token_ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(
            list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _exact(self, prompt: ExactPrompt) -> list[int]:
        characters = prompt.tokens * _CHARACTERS_PER_TOKEN
        ids = self._ids(passage_text(prompt.passage, characters))
        while len(ids) < prompt.tokens:
            characters *= 2
            ids = self._ids(passage_text(prompt.passage, characters))
        return ids[: prompt.tokens]

    def _ids(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=add_special_tokens)["input_ids"]
        return ids


def load_encoder(folder: Path, vocabulary: int) -> tuple[PromptEncoder, str | None]:
    """The encoder of the model in `folder`, and the path of its tokenizer.json (None if missing).

    A folder without a tokenizer gets the byte encoder. ValueError if the tokenizer needs code from the folder or has
    more ids than the model's vocabulary.
    """
    if not any((folder / name).is_file() for name in (TOKENIZER_FILE, "tokenizer.model", "vocab.json")):
        return byte_encoder(vocabulary), None
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a broken file can raise any error in the reader
        raise ValueError(f"the tokenizer in {folder} cannot be read: {' '.join(str(error).split())}") from error
    if len(tokenizer) > vocabulary:
        raise ValueError(f"the tokenizer in {folder} has {len(tokenizer)} ids, but its model only {vocabulary}")
    file = folder / TOKENIZER_FILE
    return TokenizerEncoder(tokenizer), str(file) if file.is_file() else None


def byte_encoder(vocabulary: int) -> ByteEncoder:
    """The byte encoder for a model with `vocabulary` ids. ValueError below 256."""
    if vocabulary < _BYTE_VALUES:
        raise ValueError(f"the model has no tokenizer and only {vocabulary} ids; bytes need 256")
    return ByteEncoder()
