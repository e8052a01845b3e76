"""The figures that a chapter on continuous batching states for its own conditions, beside what is reckoned here.

Its model has 16 GB of weights and 128 KiB of keys and values a token; its card achieves what its own table gives when
bytes are divided by time. It counts 287 MiB as 0.287 GB and takes a step for its bytes alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.core.format import change, exact, number, quantity
from engine.hardware.what_if import WhatIf, free_until, memory_wall, what_if_row
from pages.parts.what_if.controls import CHAPTER_CARD, CHAPTER_MODEL

HEADER = ("claim", "here", "the chapter", "differs by")
LONG = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """`stated` is the chapter's figure, `here` the same reckoned by this page's functions."""

    words: str
    here: float
    stated: float
    unit: str = ""

    @property
    def differs(self) -> float:
        return self.here / self.stated - 1


def is_chapter(values: Mapping[str, object]) -> bool:
    """Whether the sliders stand at the chapter's conditions. What only the page draws may stand anywhere."""
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
    """Each claim that rests on the table, for a case at the chapter's conditions."""
    one, eight, half, full = (what_if_row(case, size) for size in (1, 8, 64, 128))
    long_case = replace(case, sequence_tokens=LONG)
    return [
        Claim(words="read in a step at batch 8", here=eight.step_bytes / 1e9, stated=18.3, unit="GB"),
        Claim(words="step at batch 8", here=eight.step_s * 1e3, stated=7.8, unit="ms"),
        Claim(words="rate of a request at batch 8", here=eight.tokens_per_s_per_request, stated=128, unit="tokens/s"),
        Claim(words="rate in all at batch 8", here=eight.tokens_per_s, stated=1026, unit="tokens/s"),
        Claim(words="step at batch 64", here=half.step_s * 1e3, stated=14.1, unit="ms"),
        Claim(words="rate of a request at batch 128", here=full.tokens_per_s_per_request, stated=46, unit="tokens/s"),
        Claim(words="in all, batch 1 to 128", here=full.tokens_per_s / one.tokens_per_s, stated=41, unit="times"),
        Claim(
            words="a request's rate, batch 128 to 1",
            here=one.tokens_per_s_per_request / full.tokens_per_s_per_request,
            stated=3.1,
            unit="times",
        ),
        Claim(words="in all, batch 1 to 8", here=eight.tokens_per_s / one.tokens_per_s, stated=7.2, unit="times"),
        Claim(words="step, batch 1 to 8", here=eight.step_s / one.step_s, stated=1.11, unit="times"),
        Claim(words="in all, batch 64 to 128", here=full.tokens_per_s / half.tokens_per_s, stated=1.31, unit="times"),
        Claim(words="free until about", here=free_until(case), stated=60, unit="requests"),
        Claim(words="KV at batch 128", here=full.kv_bytes / 1e9, stated=36.8, unit="GB"),
        Claim(words="sequences that fit", here=memory_wall(case), stated=200),
        Claim(words="KV of one sequence of 16,000", here=long_case.sequence_bytes / 1e9, stated=2.0, unit="GB"),
        Claim(
            words="free-until point, 2,300 to 16,000",
            here=free_until(case) / free_until(long_case),
            stated=7,
            unit="times",
        ),
    ]


def claim_rows(claims: Sequence[Claim]) -> list[list[str]]:
    """The claims as lines of HEADER's columns."""
    return [
        [
            claim.words,
            quantity(claim.here, claim.unit),
            exact(claim.stated, claim.unit),
            change(claim.differs),
        ]
        for claim in claims
    ]


def claims_caption(claims: Sequence[Claim]) -> str:
    """How many lie within a tenth, and which lies furthest off."""
    near = sum(abs(claim.differs) <= 0.1 for claim in claims)
    far = max(claims, key=lambda claim: abs(claim.differs))
    return (
        f"{near} of {len(claims)} figures lie within 10\u00a0% of the chapter's; furthest off is “{far.words}” with "
        f"{number(far.here)} against {number(far.stated)}. The chapter counts a sequence of 287\u00a0MiB as "
        f"0.287\u00a0GB, which is 0.301. It also holds that at 46\u00a0tokens/s a reader has no margin left; by the "
        f"usual speed of reading the margin is the one said above."
    )
