"""Budgets: the output tokens of each request, as a number, a range, counted groups, or until EOS.

A numeric budget is always used up, even after EOS, so token counts are exact. `eos` lets the model end earlier; its cap
is an upper bound.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import FieldError

MAX_BUDGET_TOKENS = 131_072
DEFAULT_EOS_CAP_TOKENS = 256
FORMS = "64, 64-256, 8x32+8x256, eos or eos:200"


class Budget(Protocol):
    """A law of budgets. `draw` returns `count` budgets in tokens, each at least 1."""

    @property
    def ignore_eos(self) -> bool: ...

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeBudget:
    """Whole numbers from `low` to `high`, both included, uniformly drawn. A single number has `low` = `high`."""

    low: int
    high: int

    @property
    def ignore_eos(self) -> bool:
        return True

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        return generator.integers(self.low, self.high, size=count, endpoint=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedBudget:
    """A fixed number of requests with each budget, in random order. `groups` holds (requests, tokens)."""

    groups: tuple[tuple[int, int], ...]

    @property
    def ignore_eos(self) -> bool:
        return True

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """ValueError if the groups do not add up to `count` requests."""
        total = sum(requests for requests, _ in self.groups)
        if total != count:
            text = "+".join(f"{requests}x{tokens}" for requests, tokens in self.groups)
            raise FieldError(
                "budget", f"budget {text!r} counts {total:,} requests, the workload has {count:,}: make them equal"
            )
        requests, tokens = zip(*self.groups, strict=True)
        return generator.permutation(np.repeat(np.array(tokens, dtype=np.int64), requests))


@dataclass(frozen=True, slots=True, kw_only=True)
class EosBudget:
    """Until the model generates EOS, at most `cap` tokens."""

    cap: int

    @property
    def ignore_eos(self) -> bool:
        return False

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        return np.full(count, self.cap, dtype=np.int64)


def largest_budget(budget: Budget) -> int:
    """The largest budget that this law can draw."""
    match budget:
        case RangeBudget(high=high):
            return high
        case CountedBudget(groups=groups):
            return max(tokens for _, tokens in groups)
        case EosBudget(cap=cap):
            return cap
    raise AssertionError(budget)


def parse_budget(text: str) -> Budget:
    """Parse `64`, `64-256`, `8x32+8x256`, `eos` or `eos:200`, in tokens. ValueError names the accepted forms."""
    spec = re.sub(r"\s", "", text)
    if spec == "eos":
        return EosBudget(cap=DEFAULT_EOS_CAP_TOKENS)
    if match := re.fullmatch(r"eos:(\d+)", spec, re.ASCII):
        return EosBudget(cap=_tokens(text, match[1]))
    if match := re.fullmatch(r"(\d+)(?:-(\d+))?", spec, re.ASCII):
        low, high = _tokens(text, match[1]), _tokens(text, match[2] or match[1])
        if low > high:
            raise FieldError("budget", f"budget {text!r}: the range runs backward; use {high}-{low}")
        return RangeBudget(low=low, high=high)
    if re.fullmatch(r"\d+x\d+(\+\d+x\d+)*", spec, re.ASCII):
        return CountedBudget(groups=tuple(_group(text, group) for group in spec.split("+")))
    raise FieldError("budget", f"budget {text!r}: use {FORMS}")


def _group(text: str, group: str) -> tuple[int, int]:
    requests, tokens = group.split("x")
    if len(requests) > 9 or int(requests) < 1:
        raise FieldError(
            "budget", f"budget {text!r}: a group needs at least 1 request, and no more than the workload has"
        )
    return int(requests), _tokens(text, tokens)


def _tokens(text: str, digits: str) -> int:
    if len(digits) > 9 or not 1 <= int(digits) <= MAX_BUDGET_TOKENS:
        raise FieldError("budget", f"budget {text!r}: use 1 to {MAX_BUDGET_TOKENS:,} tokens")
    return int(digits)
