"""Answers as text, decoded in the app from the token ids of a run log: for a run that is live, or one that crashed.

The worker writes a request's text when the request ends; until then, and after a crash for good, only ids are there.
A model without a tokenizer file has no text here: its ids are shown as they are. No torch, no transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from tokenizers import Tokenizer

MAX_IDS_SHOWN = 40

Decoder = Callable[[Sequence[int]], str]


def decoder_of(tokenizer_file: str | None) -> Decoder:
    """What turns ids into text: the tokenizer of that file, or the ids themselves when there is no such file."""
    if not tokenizer_file or not Path(tokenizer_file).is_file():
        return ids_as_text
    tokenizer = _tokenizer(tokenizer_file)
    return lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=True))


def tokenizer_file_of(run: Mapping[str, Any]) -> str | None:
    """The tokenizer file that a run.json names; None for a model of random weights."""
    model = run.get("model")
    file = model.get("tokenizer_file") if isinstance(model, Mapping) else run.get("tokenizer_file")
    return str(file) if file else None


def decode_all(tokens: pd.DataFrame, decoder: Decoder) -> dict[int, str]:
    """Each request's answer so far. `tokens` has request_id, token_index, token_id, in any order."""
    if tokens.empty:
        return {}
    ordered = tokens.sort_values(["request_id", "token_index"])
    return {int(request): decoder(group.tolist()) for request, group in ordered.groupby("request_id")["token_id"]}


def ids_as_text(ids: Sequence[int]) -> str:
    """`412 7 98 …`: the last ids, where there is no tokenizer to read them."""
    shown = " ".join(str(i) for i in ids[-MAX_IDS_SHOWN:])
    return f"… {shown}" if len(ids) > MAX_IDS_SHOWN else shown


@st.cache_resource(max_entries=4, show_spinner=False)
def _tokenizer(file: str) -> Tokenizer:
    return Tokenizer.from_file(file)
