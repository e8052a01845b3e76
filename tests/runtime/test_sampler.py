"""Sampling by hand: three tokens with known probabilities, and draws that belong to the request alone."""

import math

import numpy as np
import pytest
import torch

from engine.core.config import SamplingConfig
from engine.core.request import Request, RequestSpec, TextPrompt
from engine.runtime.sampler import Sampler, pick

# Probabilities 0.2, 0.5, 0.3 for the tokens 0, 1, 2. In falling order: 1 (0.5), 2 (0.3), 0 (0.2).
LOGITS = torch.tensor([[math.log(0.2), math.log(0.5), math.log(0.3)]])


def picked(draw: float, **config: float) -> int:
    return int(pick(LOGITS, torch.tensor([draw]), SamplingConfig(temperature=1.0, **config))[0])


@pytest.mark.parametrize(("draw", "token"), [(0.0, 1), (0.49, 1), (0.51, 2), (0.79, 2), (0.81, 0), (0.9999, 0)])
def test_a_draw_picks_by_the_cumulated_probability(draw: float, token: int) -> None:
    assert picked(draw) == token


def test_top_k_keeps_the_k_most_probable() -> None:
    # Of 1 and 2 alone: 0.625 and 0.375.
    assert [picked(d, top_k=2) for d in (0.62, 0.63, 0.99)] == [1, 2, 2]
    assert picked(0.99, top_k=1) == 1


def test_top_p_keeps_the_smallest_set_that_reaches_p() -> None:
    # 0.5 < 0.6, so token 2 is needed as well; token 0 is not.
    assert [picked(d, top_p=0.6) for d in (0.62, 0.63, 0.99)] == [1, 2, 2]
    assert picked(0.99, top_p=0.5) == 1


def test_temperature_sharpens() -> None:
    # At temperature 0.5 the probabilities are 0.04, 0.25, 0.09 over 0.38: 0.105, 0.658, 0.237.
    config = SamplingConfig(temperature=0.5)
    tokens = [int(pick(LOGITS, torch.tensor([d]), config)[0]) for d in (0.65, 0.67, 0.89, 0.90)]
    assert tokens == [1, 2, 2, 0]


def test_temperature_zero_is_the_most_probable() -> None:
    assert Sampler(SamplingConfig()).sample(LOGITS, [request(0)]).tolist() == [1]


def request(seed: int) -> Request:
    spec = RequestSpec(
        request_id=seed,
        prompt=TextPrompt(text="x"),
        budget_tokens=64,
        ignore_eos=True,
        arrival_s=0.0,
        sampling_seed=seed,
    )
    return Request(spec=spec, prompt_ids=[1])


def test_a_requests_draws_do_not_depend_on_its_neighbors() -> None:
    config = SamplingConfig(temperature=1.0)
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    requests = [request(1), request(2), request(3)]
    together = Sampler(config).sample(logits, requests).tolist()
    alone = [int(Sampler(config).sample(logits[i : i + 1], [requests[i]])[0]) for i in range(3)]
    turned = Sampler(config).sample(logits.flip(0), requests[::-1]).tolist()[::-1]
    assert together == alone == turned


def test_sampled_shares_follow_the_probabilities() -> None:
    draws = torch.tensor((np.arange(10_000) + 0.5) / 10_000, dtype=torch.float32)
    tokens = pick(LOGITS.expand(10_000, 3).clone(), draws, SamplingConfig(temperature=1.0))
    assert torch.bincount(tokens, minlength=3).tolist() == pytest.approx([2000, 5000, 3000], abs=2)


def test_logits_that_are_not_numbers_still_give_a_token_of_the_vocabulary() -> None:
    broken = torch.full((1, 3), math.nan)
    token = int(pick(broken, torch.tensor([0.5]), SamplingConfig(temperature=1.0))[0])
    assert 0 <= token < 3


@pytest.mark.parametrize("temperature", [1e-40, 0.009, -0.1, math.nan, 11.0])
def test_a_temperature_that_logits_cannot_be_divided_by_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match=r"use 0 \(greedy\), or 0.01 to 10"):
        SamplingConfig(temperature=temperature)
