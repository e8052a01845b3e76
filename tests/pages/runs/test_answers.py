"""Answers decoded in the app: from a real tokenizer, up to the end of the sequence."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from engine.runtime.models.loading import load_model
from pages.parts.runs.answers import decode_all, decoder_of


@pytest.fixture(scope="module")
def model() -> dict[str, object]:
    spec = load_model("smollm2-135m", torch.device("cpu"), torch.float32, lambda message, fraction: None).spec
    return {"tokenizer_file": spec.tokenizer_file, "eos_token_ids": list(spec.eos_token_ids)}


def test_an_answer_ends_where_the_model_ended_it(model: dict[str, object]) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model["tokenizer_file"]))
    said, noise = tokenizer.encode("Paris.").ids, tokenizer.encode("system user").ids
    eos = model["eos_token_ids"][0]  # type: ignore[index]
    ids = [*said, eos, *noise]
    tokens = pd.DataFrame({"request_id": [3] * len(ids), "token_index": range(len(ids)), "token_id": ids})
    for run in ({"model": model}, {"run_id": "x", "info": {"model": model}}):
        assert decode_all(tokens, decoder_of(run)) == {3: "Paris."}


def test_without_a_tokenizer_here_the_ids_are_shown() -> None:
    elsewhere = {"model": {"tokenizer_file": "/no/such/tokenizer.json", "eos_token_ids": [2]}}
    assert decoder_of(elsewhere)([412, 7, 98]) == "412 7 98"
    assert decoder_of({"model": {}})([1]) == "1"
