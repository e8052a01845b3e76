"""The figures of a published chapter on continuous batching, compared with this page's estimates.

The chapter's model has 16 GB of weights and 128 KiB of KV a token; its GPU has the bandwidth that follows from its own
table. The chapter counts 287 MiB as 0.287 GB, and a step's time from its bytes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.core.format import change, exact, number, quantity
from engine.hardware.what_if import WhatIf, free_until, memory_wall, what_if_row
from pages.parts.what_if.controls import CHAPTER_CARD, CHAPTER_MODEL

HEADER = ("figure", "estimate", "chapter", "difference")
LONG = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A figure of the chapter: `stated` there, `here` by this page's functions."""

    label: str
    here: float
    stated: float
    unit: str = ""

    @property
    def differs(self) -> float:
        return self.here / self.stated - 1


def is_chapter(values: Mapping[str, object]) -> bool:
    """Whether the settings are the chapter's conditions. Settings that change only the figure may differ."""
    expected = {
        "model": CHAPTER_MODEL,
        "card": CHAPTER_CARD,
        "sequence": "2300",
        "weights": "16",
        "memory": 100,
        "execution": "graph",
    }
    return all(values.get(name) == value for name, value in expected.items())


def chapter_claims(case: WhatIf) -> list[Claim]:
    """Each figure of the chapter, with its estimate for a case at the chapter's conditions."""
    one, eight, half, full = (what_if_row(case, size) for size in (1, 8, 64, 128))
    long_case = replace(case, sequence_tokens=LONG)
    return [
        Claim(label="bytes per step at batch 8", here=eight.step_bytes / 1e9, stated=18.3, unit="GB"),
        Claim(label="step time at batch 8", here=eight.step_s * 1e3, stated=7.8, unit="ms"),
        Claim(label="rate per request at batch 8", here=eight.tokens_per_s_per_request, stated=128, unit="tokens/s"),
        Claim(label="total rate at batch 8", here=eight.tokens_per_s, stated=1026, unit="tokens/s"),
        Claim(label="step time at batch 64", here=half.step_s * 1e3, stated=14.1, unit="ms"),
        Claim(label="rate per request at batch 128", here=full.tokens_per_s_per_request, stated=46, unit="tokens/s"),
        Claim(label="total rate, batch 1 to 128", here=full.tokens_per_s / one.tokens_per_s, stated=41, unit="times"),
        Claim(
            label="rate per request, batch 128 to 1",
            here=one.tokens_per_s_per_request / full.tokens_per_s_per_request,
            stated=3.1,
            unit="times",
        ),
        Claim(label="total rate, batch 1 to 8", here=eight.tokens_per_s / one.tokens_per_s, stated=7.2, unit="times"),
        Claim(label="step time, batch 1 to 8", here=eight.step_s / one.step_s, stated=1.11, unit="times"),
        Claim(
            label="total rate, batch 64 to 128", here=full.tokens_per_s / half.tokens_per_s, stated=1.31, unit="times"
        ),
        Claim(label="free until about", here=free_until(case), stated=60, unit="requests"),
        Claim(label="KV at batch 128", here=full.kv_bytes / 1e9, stated=36.8, unit="GB"),
        Claim(label="sequences that fit", here=memory_wall(case), stated=200),
        Claim(label="KV of a sequence of 16,000", here=long_case.sequence_bytes / 1e9, stated=2.0, unit="GB"),
        Claim(
            label="free-until point, 2,300 to 16,000",
            here=free_until(case) / free_until(long_case),
            stated=7,
            unit="times",
        ),
    ]


def claim_rows(claims: Sequence[Claim]) -> list[list[str]]:
    """A row a figure, in the columns of HEADER."""
    return [
        [
            claim.label,
            quantity(claim.here, claim.unit),
            exact(claim.stated, claim.unit),
            change(claim.differs),
        ]
        for claim in claims
    ]


def claims_caption(claims: Sequence[Claim]) -> str:
    """How many estimates are within 10 % of the chapter, and which differs most."""
    near = sum(abs(claim.differs) <= 0.1 for claim in claims)
    far = max(claims, key=lambda claim: abs(claim.differs))
    return (
        f"{near} of {len(claims)} estimates are within 10\u00a0% of the chapter; “{far.label}” differs most, with "
        f"{number(far.here)} instead of {number(far.stated)}. The chapter counts 287\u00a0MiB as 0.287\u00a0GB, which "
        "is 0.301\u00a0GB. It calls 46\u00a0tokens/s the limit of reading speed; usual reading is slower, as shown "
        "above."
    )
