"""Workload profiles: settings by hand, every prompt length in equal shares, and scaling to a model's context."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.workload.budgets import RangeBudget, parse_budget
from engine.workload.profiles import PROFILES, REQUESTS, WorkloadProfile, scaled_to
from engine.workload.prompts import draw_prompts, parse_prompts

CHAT = PROFILES[0]
DOCS = Path(__file__).parents[2] / "docs/bench.md"
SHORT = WorkloadProfile(
    name="Short",
    meaning="",
    prompt_tokens=(10, 20, 30, 40, 60),
    output_tokens=(4, 8, 20),
    requests=5,
    source="nowhere",
    file="none",
)


def test_chat_is_the_azure_conversation_trace() -> None:
    """Medians of the published file: 1,020 prompt tokens and 129 output tokens."""
    assert (CHAT.median_prompt_tokens, CHAT.median_output_tokens, CHAT.requests) == (1020, 129, 19_366)
    assert scaled_to(CHAT, 8192).prompts == "p207,p403,p1020,p1130,p2734"
    assert scaled_to(CHAT, 8192).budget == "85-395"


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_every_profile_can_be_set_and_names_its_source(profile: WorkloadProfile) -> None:
    scaled = scaled_to(profile, None)
    mix = parse_prompts(scaled.prompts)
    prompts = draw_prompts(mix, REQUESTS, np.random.default_rng(0))
    assert sorted(prompt.tokens for prompt in prompts) == sorted(profile.prompt_tokens * 2)  # type: ignore[union-attr]
    assert parse_budget(scaled.budget) == RangeBudget(low=profile.output_tokens[0], high=profile.output_tokens[2])
    assert list(profile.prompt_tokens) == sorted(set(profile.prompt_tokens))
    assert profile.source in profile.text
    assert profile.file


def test_a_longer_profile_is_scaled_to_the_context_and_says_so() -> None:
    """The longest request takes 60 + 20 = 80 tokens: a context of 40 holds half of every length."""
    scaled = scaled_to(SHORT, 40)
    assert (scaled.prompts, scaled.budget) == ("p5,p10,p15,p20,p30", "2-10")
    assert scaled.text.endswith("nowhere. Lengths times 0.5: the model's context is shorter.")
    assert scaled_to(SHORT, 80).text == "Median 30 tokens in, 8 out, of 5 requests: nowhere."


def test_lengths_that_scaling_makes_equal_share_their_weight() -> None:
    """A twentieth of 10, 20, 30, 40 and 60: 1 (at least), 1, 1, 2 and 3."""
    scaled = scaled_to(SHORT, 4)
    assert (scaled.prompts, scaled.budget) == ("p1:3,p2:1,p3:1", "1")


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_the_documentation_has_every_number_and_source(profile: WorkloadProfile) -> None:
    row = next(line for line in DOCS.read_text().splitlines() if line.startswith(f"| {profile.name} |"))
    low, median, high = profile.output_tokens
    assert ", ".join(f"{tokens:,}" for tokens in profile.prompt_tokens) in row
    assert f"{low}-{high}, median {median}" in row
    assert f"{profile.requests:,} requests: {profile.source}" in row
    name, _, owner = profile.file.partition(" of ")
    assert f"`{name}` of {owner}" in row
