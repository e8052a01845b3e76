"""Answers as text. The worker logs an answer's text when its request ends; until then, and after a crash, the log has
token ids only, and the app decodes them with the model's tokenizer file.

A model without a tokenizer file has no text here: its ids are shown. This module loads no torch and no transformers.
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
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.shared.lab import lab

MAX_IDS_SHOWN = 40

Decoder = Callable[[Sequence[int]], str]


def with_texts(run: LoadedRun, requests: pd.DataFrame) -> pd.DataFrame:
    """Some of the run's requests with prompt_text and output_text; None where no text is logged."""
    texts = lab().store.runs.request_texts(run.run_id, requests["request_id"].tolist()).set_index("request_id")
    by_id = texts.reindex(requests["request_id"]).astype(object)
    by_id = by_id.where(by_id.notna(), None)
    return requests.assign(**{name: by_id[name].to_numpy() for name in ("prompt_text", "output_text")})


def answers_of(run: LoadedRun, requests: pd.DataFrame) -> dict[int, str]:
    """Each request's answer: as logged at its end, or decoded from the tokens logged so far."""
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
        return "(its tokens decode to no readable text)"
    return "(no token yet)" if status == "running" else "(no token)"


def decoder_of(run: Mapping[str, Any]) -> Decoder:
    """What decodes a run's ids: its model's tokenizer, or a function that prints the ids where this machine has none.

    A request with a counted budget continues past the end of the sequence; its answer stops there, as in the worker.
    """
    file = tokenizer_file_of(run)
    if not file or not Path(file).is_file():
        return ids_as_text
    tokenizer, ends = _tokenizer(file), _model_of(run).get("eos_token_ids") or ()
    return lambda ids: str(tokenizer.decode(list(takewhile(lambda i: i not in ends, ids)), skip_special_tokens=True))


def decode_all(tokens: pd.DataFrame, decoder: Decoder) -> dict[int, str]:
    """Each request's answer so far. `tokens` has request_id, token_index, token_id, in any order."""
    if tokens.empty:
        return {}
    ordered = tokens.sort_values(["request_id", "token_index"])
    ids = ordered.groupby("request_id")["token_id"].agg(list)
    return {int(request): decoder(answer) for request, answer in zip(ids.index.tolist(), ids, strict=True)}


def tokenizer_file_of(run: Mapping[str, Any]) -> str | None:
    """The tokenizer file that a run names; None for a model of random weights."""
    file = _model_of(run).get("tokenizer_file")
    return str(file) if file else None


def ids_as_text(ids: Sequence[int]) -> str:
    """`412 7 98 …`: the last ids, for a model without a tokenizer."""
    shown = " ".join(str(i) for i in ids[-MAX_IDS_SHOWN:])
    return f"… {shown}" if len(ids) > MAX_IDS_SHOWN else shown


def _model_of(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """The model as run.json describes it; `run` is that file's content or the store's row of the run."""
    info = run.get("info", run)
    model = info.get("model") if isinstance(info, Mapping) else None
    return model if isinstance(model, Mapping) else {}


@st.cache_resource(max_entries=4, show_spinner=False)
def _tokenizer(file: str) -> Tokenizer:
    return Tokenizer.from_file(file)
