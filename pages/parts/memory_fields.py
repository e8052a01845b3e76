"""The settings of the Memory page: each one's name in the address, its default, and examples that set many at once.

The defaults are the conditions under which a published engine found its five failures; each example is another claim,
with the figure that its source states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.core.config import DTYPES, SETTINGS
from engine.core.hardware_presets import CARD, HARDWARE
from engine.core.memory_plan import LOGITS, MAX_PROMPT_TOKENS
from engine.core.roofline import WEIGHT_WIDTH
from pages.parts.bench_fields import Choice, Field, Number, fields_of

THIS = "this"  # the machine that the app runs on
LARGEST = ("16", "32", "64", "128", "256", "512", "1024", "2048", "4096")
SAME = "dtype"  # weights as wide as the dtype

OWN: dict[str, dict[str, Any]] = {
    "model": {"default": "qwen2.5-1.5b"},
    "dtype": {"options": tuple(dtype for dtype in DTYPES if dtype != "auto"), "default": "fp16"},
    "weights": {"options": (SAME, "16", "8"), "default": SAME},
    "card": {"options": (*HARDWARE, THIS), "default": "a10"},
    "engine": {"default": "static"},
}
OPTIONS = (
    *(SETTINGS["model"], SETTINGS["dtype"], WEIGHT_WIDTH, CARD, SETTINGS["capacity_gib"], SETTINGS["pool_gib"]),
    *(SETTINGS["engine"], LOGITS, SETTINGS["block_size"], SETTINGS["max_num_batched_tokens"]),
)
FIELDS: dict[str, Field] = fields_of(OPTIONS, OWN) | {
    "prompt": Number(low=1, high=MAX_PROMPT_TOKENS, default=1024, label="Prompt, tokens"),
    "budget": Number(low=1, high=MAX_PROMPT_TOKENS, default=256, label=SETTINGS["budget"].label),
    "largest": Choice(options=LARGEST, default="1024", label="Largest batch"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Settings other than the defaults, under a short name, and what was published for them."""

    label: str
    published: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """Every field's value."""
        return {name: self.settings.get(name, each.default) for name, each in FIELDS.items()}


EXAMPLES = (
    Example(
        label="Five failures",
        published="256 and 512 rows of p1024 could not be run on this card: 4.38 and 8.75\u00a0GiB in one piece; nor "
        "could 1,024 rows of p256, or 64 and 128 of p4096. All other batches that were tried ran.",
    ),
    Example(
        label="Logits of a large batch",
        published="at 1,024 rows 933 MB exist in each step that accounts forget: the logits and their fp32 copy.",
        settings={"prompt": 16},
    ),
    Example(
        label="A pool of 2 GiB",
        published="inside a pool of 2\u00a0GiB 128 rows of p256 are tried, and 256.",
        settings={"prompt": 256, "pool_gib": 2.0},
    ),
    Example(
        label="Logits of all positions",
        published="logits of every prompt position take 4.6\u00a0GiB at 128 prompts of 128 tokens.",
        settings={"prompt": 128, "budget": 128, "dtype": "bf16", "card": "rtx3060", "logits": "all"},
    ),
    Example(
        label="8 B on 80 GB",
        published="memory ends at about 200 sequences of 2,300 tokens: 16\u00a0GB of weights, 128\u00a0KiB a token.",
        settings={
            "model": "llama-3.1-8b",
            "dtype": "bf16",
            "card": "h100",
            "engine": "chunked",
            "prompt": 2300,
            "budget": 1,
            "largest": "256",
        },
    ),
)
