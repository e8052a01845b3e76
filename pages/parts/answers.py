"""Answers as text, decoded in the app from the token ids of a run log: for a run that is live, or one that crashed.

The worker writes a request's text when the request ends; until then, and after a crash for good, only ids are there.
A model without a tokenizer file has no text here: its ids are shown as they are. No torch, no transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from tokenizers import Tokenizer

MAX_IDS_SHOWN = 40

Decoder = Callable[[Sequence[int]], str]


def decoder_of(run: Mapping[str, Any]) -> Decoder:
    """What turns a run's ids into text: its model's tokenizer, or the ids themselves where this machine has none.

    A counted budget goes on past the end of the sequence; an answer ends there, as in the worker's own text.
    """
    file = tokenizer_file_of(run)
    if not file or not Path(file).is_file():
        return ids_as_text
    tokenizer, ends = _tokenizer(file), _model_of(run).get("eos_token_ids") or ()
    return lambda ids: str(tokenizer.decode(list(takewhile(lambda i: i not in ends, ids)), skip_special_tokens=True))


def tokenizer_file_of(run: Mapping[str, Any]) -> str | None:
    """The tokenizer file that a run names; None for a model of random weights."""
    file = _model_of(run).get("tokenizer_file")
    return str(file) if file else None


def _model_of(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """The model as run.json describes it, from that file's content or from the store's row of the run."""
    info = run.get("info", run)
    model = info.get("model") if isinstance(info, Mapping) else None
    return model if isinstance(model, Mapping) else {}


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
