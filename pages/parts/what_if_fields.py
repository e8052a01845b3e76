"""The settings of the What-if page: each one's name in the address, its default, and what a link may give it.

The defaults are the conditions of a chapter on continuous batching, whose figures then stand beside the page's own.
"""

from __future__ import annotations

from typing import Any

from engine.core.config import SETTINGS
from engine.core.hardware_presets import CARD
from engine.core.reading import WORDS_PER_MINUTE
from engine.core.roofline import WEIGHT_WIDTH
from pages.parts.bench_fields import Choice, Field, Number, Text, fields_of

THIS = "this"  # the newest calibration of this machine
SEQUENCES = (
    *("100", "200", "300", "500", "700", "1000", "1500", "2000", "2300", "3000", "4000", "6000", "8000", "12000"),
    *("16000", "24000", "32000", "48000", "64000", "96000", "128000"),
)
LARGEST = ("8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096")
CHAPTER_MODEL, CHAPTER_CARD = "llama-3.1-8b", "h100"
OPTIONS = (SETTINGS["model"], CARD, WEIGHT_WIDTH, SETTINGS["execution"])
OWN: dict[str, dict[str, Any]] = {
    "model": {"default": CHAPTER_MODEL},
    "weights": {"options": ("16", "8"), "default": "16"},
    "execution": {"options": ("graph", "eager"), "default": "graph"},
}


def what_if_fields(cards: tuple[str, ...]) -> dict[str, Field]:
    """The fields of the page, with the cards that there are."""
    return fields_of(OPTIONS, {**OWN, "card": {"options": cards, "default": CHAPTER_CARD}}) | {
        "sequence": Choice(options=SEQUENCES, default="2300", label="Sequence length, tokens"),
        "largest": Choice(options=LARGEST, default="128", label="Largest batch"),
        "memory": Number(low=50, high=100, default=100, label="Memory that may be used, %"),
        "reading": Number(low=60, high=900, default=WORDS_PER_MINUTE, label="Reading speed, words per minute"),
    }


QUESTION_FIELDS: dict[str, Field] = {
    "q1_parameters": Number(low=0, high=1e6, default=1.54, whole=False, above=True),
    "q1_batch": Number(low=1, high=1_000_000, default=64),
    "q2_a": Number(low=0, high=1e6, default=50.0, whole=False, above=True),
    "q2_b": Number(low=0, high=1e6, default=200.0, whole=False, above=True),
    "q3_intensity": Number(low=0, high=1e6, default=104.2, whole=False, above=True),
    "q3_balance": Number(low=0, high=1e6, default=86.8, whole=False, above=True),
    "q3_compute": Number(low=0, high=100, default=43.3, whole=False, above=True),
    "q4_batch": Number(low=1, high=100_000, default=128),
    "q4_prompt": Number(low=1, high=1_000_000, default=128),
    "q4_rate": Number(low=0, high=1e9, default=8150.0, whole=False, above=True),
    "q4_group": Number(low=1, high=100_000, default=8),
    "q5_batch": Number(low=1, high=100_000, default=128),
    "q5_prompt": Number(low=1, high=1_000_000, default=128),
    "q5_vocab": Number(low=1, high=10_000_000, default=151_936),
    "q6_budgets": Text(default="30x20+2x1000"),
    "q7_limit": Number(low=0, high=3600, default=0.5, whole=False, above=True),
    "q7_documents": Number(low=1, high=1_000_000_000, default=1_000_000),
    "q7_tokens": Number(low=1, high=1_000_000, default=128),
    "q8_busy": Number(low=0, high=1e6, default=20.57, whole=False, above=True),
    "q8_quiet": Number(low=0, high=1e6, default=17.5, whole=False, above=True),
    "q8_kernels": Number(low=1, high=1_000_000, default=1123),
}
