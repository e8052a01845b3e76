"""Prompts: chat questions, texts of exact lengths in given shares, or the lines of a file.

Shares are exact, not drawn: counts follow the weights as closely as whole numbers can (largest remainder), and the seed
only sets the order. QUESTIONS are the lab's own chat questions: short, with answers that are easy to judge. They define
workloads, so they stay as they are, spelling included.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.core.errors import FieldError
from engine.core.request import ExactPrompt, Prompt, TextPrompt
from engine.workload.prose import num_sentences

QUESTIONS = (
    "What is the capital of France?",
    "What do bees make?",
    "What should I pack for a picnic?",
    "What is a river?",
    "Why is exercise good for you?",
    "What is a library for?",
    "Why is the sky blue?",
    "How is cheese made?",
    "What is the opposite of hot?",
    "What is a volcano?",
    "Name four fruits.",
    "How do birds fly?",
    "Why do we sleep?",
    "What is ice made of?",
    "What can I see in Paris?",
    "What does a baker do?",
    "Describe the colour blue.",
    "What is the capital of Japan?",
    "What causes rain?",
    "What is bread made from?",
    "What is music?",
    "Tell me about Rome.",
    "What do plants need to grow?",
    "Name three primary colours.",
    "List five vegetables.",
    "How do I make tea?",
    "What is a bicycle?",
    "Describe a sunny day at the beach.",
    "Give three tips for a good night's sleep.",
    "What is snow?",
    "Name three musical instruments.",
    "What is the capital of Egypt?",
    "What is gravity?",
    "Write a short poem about the sea.",
    "Tell me a short story about a cat.",
    "What does a thermometer measure?",
    "Why do people read books?",
    "What is a rainbow?",
    "Give one tip for learning to swim.",
    "What is a good breakfast?",
)

MAX_PROMPT_TOKENS = 131_072
MAX_WEIGHT = 1e6
LENGTH_FORMS = "lengths in tokens as p16,p64"
MIX_FORMS = "lengths as p16,p64, or with weights as p16:3,p4096:1"
FORMS = "chat, exact lengths as p16,p64, lengths with weights as p16:3,p4096:1, or file"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMix:
    """The source of prompts. `lengths` (tokens) and `weights` are parallel, and empty unless the source is `exact`."""

    source: Literal["chat", "exact", "file"]
    lengths: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()


def parse_prompts(text: str) -> PromptMix:
    """Parse `chat`, `file`, `p16,p64` (equal shares) or `p16:3,p4096:1` (weights). A ValueError names the forms."""
    spec = re.sub(r"\s", "", text)
    if spec == "chat":
        return PromptMix(source="chat")
    if spec == "file":
        return PromptMix(source="file")
    return parse_lengths(text, "prompts", FORMS)


def parse_lengths(text: str, field: str, forms: str) -> PromptMix:
    """Parse `p16,p64` or `p16:3,p4096:1`. A FieldError about `field` names the `forms` that it takes."""
    parts = [_part(part, field, f"{field} {text!r}", forms) for part in re.sub(r"\s", "", text).split(",")]
    lengths, weights = zip(*parts, strict=True)
    return PromptMix(source="exact", lengths=lengths, weights=weights)


def draw_prompts(
    mix: PromptMix, count: int, generator: np.random.Generator, lines: Sequence[str] = ()
) -> tuple[Prompt, ...]:
    """`count` prompts. `lines` are those of a file, used in order and repeated from the first when they run out.

    ValueError for an empty file.
    """
    match mix.source:
        case "chat":
            return tuple(TextPrompt(text=QUESTIONS[i]) for i in _rounds(len(QUESTIONS), count, generator))
        case "file":
            if not lines:
                raise FieldError("prompt_file", "prompt file: it holds no prompts; write one prompt a line")
            return tuple(TextPrompt(text=lines[i % len(lines)], label="file") for i in range(count))
        case "exact":
            counts = apportion(mix.weights, count)
            lengths = generator.permutation(np.repeat(np.array(mix.lengths), counts))
            first = int(generator.integers(num_sentences()))
            return tuple(ExactPrompt(tokens=int(n), passage=first + i) for i, n in enumerate(lengths))


def apportion(weights: Sequence[float], count: int) -> list[int]:
    """Split `count` by `weights` into whole numbers. The largest remainders are rounded up, of equal ones the first."""
    total = sum(weights)
    exact = [count * weight / total for weight in weights]
    shares = [math.floor(share) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: (shares[i] - exact[i], i))
    for i in by_remainder[: count - sum(shares)]:
        shares[i] += 1
    return shares


def _rounds(num_choices: int, count: int, generator: np.random.Generator) -> list[int]:
    """`count` indices in rounds: each round has every choice once, in a new random order."""
    order: list[int] = []
    while len(order) < count:
        order += generator.permutation(num_choices).tolist()
    return order[:count]


def _part(part: str, field: str, subject: str, forms: str) -> tuple[int, float]:
    match = re.fullmatch(r"p(\d+)(?::(.+))?", part, re.ASCII)
    if match is None:
        raise FieldError(field, f"{subject}: use {forms}")
    if len(match[1]) > 9 or not 1 <= int(match[1]) <= MAX_PROMPT_TOKENS:
        raise FieldError(field, f"{subject}: use lengths of 1 to {MAX_PROMPT_TOKENS:,} tokens, as p64")
    return int(match[1]), _weight(match[2], field, subject)


def _weight(number: str | None, field: str, subject: str) -> float:
    try:
        weight = 1.0 if number is None else float(number)
    except ValueError:
        weight = math.nan
    if not 0 < weight <= MAX_WEIGHT:
        raise FieldError(field, f"{subject}: use weights above 0, up to {MAX_WEIGHT:,.0f}, as p16:3,p4096:1")
    return weight
