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

from engine.core.format import is_missing
from pages.parts.runs.loaded_run import RunData
from pages.parts.shared.lab import lab

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


def with_texts(run: RunData, requests: pd.DataFrame) -> pd.DataFrame:
    """Some of the run's requests with prompt_text and output_text, None where there is none."""
    texts = lab().store.runs.request_texts(run.run_id, requests["request_id"].tolist()).set_index("request_id")
    by_id = texts.reindex(requests["request_id"]).astype(object)
    by_id = by_id.where(by_id.notna(), None)
    return requests.assign(**{name: by_id[name].to_numpy() for name in ("prompt_text", "output_text")})


def answers_of(run: RunData, requests: pd.DataFrame) -> dict[int, str]:
    """Each request's answer: as logged at its end, or decoded from the tokens that were logged so far."""
    texts = {int(i): text for i, text in zip(requests["request_id"], requests["output_text"], strict=True)}
    unfinished = [i for i, text in texts.items() if not isinstance(text, str)]
    if unfinished:
        tokens = lab().store.runs.tokens(run.run_id, of=unfinished)
        texts |= dict.fromkeys(unfinished, "") | decode_all(tokens, decoder_of(run.info))
    return texts


def answer_or_note(text: str, row: pd.Series, status: str) -> str:
    """The answer, or in brackets why there is nothing to read."""
    if text.strip():
        return text
    if not is_missing(row["output_tokens"]) and row["output_tokens"] > 0:
        return "(its tokens make no readable text)"
    return "(no token yet)" if status == "running" else "(no token)"
