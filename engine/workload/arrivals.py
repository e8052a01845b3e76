"""Arrival times: all at once, evenly spaced, or random with a given rate and burstiness.

`poisson` models many independent users (exponential gaps, coefficient of variation 1). `gamma` keeps the rate and sets
the coefficient of variation of the gaps: above 1 is bursty, below 1 more even. Gaps are not clamped, because cutting
off long gaps would raise the rate. A drawn trace has another rate than the requested one, by chance: at n requests
its standard deviation is about CV / sqrt(n - 1) of the rate. `rescaled` makes it exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import FieldError
from engine.core.format import change, exact, quantity

LOWEST_RATE, HIGHEST_RATE = 1e-6, 1e6
LOWEST_CV, HIGHEST_CV = 0.01, 100.0
FORMS = "closed, poisson:R, constant:R or gamma:R:CV, as poisson:2.5"


class Arrival(Protocol):
    """A law of arrivals. `times_s` returns `count` arrival times in seconds, in ascending order.

    `rate` is the requested one in requests/s, None if all arrive at once.
    """

    @property
    def rate(self) -> float | None: ...

    def times_s(self, count: int, generator: np.random.Generator) -> NDArray[np.float64]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedArrival:
    """All requests arrive at once."""

    @property
    def rate(self) -> None:
        return None

    def times_s(self, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
        return np.zeros(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantArrival:
    """One request every 1/rate seconds, the first at 0."""

    rate: float

    def times_s(self, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
        return np.arange(count) / self.rate


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonArrival:
    """Exponential gaps with a mean of 1/rate seconds, also before the first request."""

    rate: float

    def times_s(self, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
        return np.cumsum(generator.exponential(1 / self.rate, count))


@dataclass(frozen=True, slots=True, kw_only=True)
class GammaArrival:
    """Gamma gaps with a mean of 1/rate seconds and a standard deviation of cv/rate, also before the first request."""

    rate: float
    cv: float

    def times_s(self, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
        shape = self.cv**-2
        return np.cumsum(generator.gamma(shape, 1 / (self.rate * shape), count))


def parse_arrival(text: str) -> Arrival:
    """Parse `closed`, `poisson:R`, `constant:R` or `gamma:R:CV`, R in requests/s. A ValueError names the forms."""
    name, *numbers = text.strip().split(":")
    match name, len(numbers):
        case "closed", 0:
            return ClosedArrival()
        case "poisson", 1:
            return PoissonArrival(rate=_rate(text, numbers[0]))
        case "constant", 1:
            return ConstantArrival(rate=_rate(text, numbers[0]))
        case "gamma", 2:
            return GammaArrival(rate=_rate(text, numbers[0]), cv=_cv(text, numbers[1]))
    raise FieldError("arrival", f"arrival {text!r}: use {FORMS}")


def offered_rate(arrivals_s: NDArray[np.float64]) -> float | None:
    """The offered rate in requests/s: the number of gaps over their total time. None if all arrive at once."""
    if len(arrivals_s) < 2:
        return None
    span_s = float(arrivals_s.max() - arrivals_s.min())
    return (len(arrivals_s) - 1) / span_s if span_s > 0 else None


def rescaled(arrivals_s: NDArray[np.float64], rate: float | None) -> NDArray[np.float64]:
    """The times multiplied by (drawn rate / `rate`), so that their offered rate is `rate`; unchanged without a rate."""
    drawn = offered_rate(arrivals_s)
    return arrivals_s if rate is None or drawn is None else arrivals_s * (drawn / rate)


def rate_deviation(asked: float | None, drawn: float | None) -> float | None:
    """How far the drawn rate is from the requested one, as a share of it; None without either."""
    return None if asked is None or drawn is None else drawn / asked - 1


def rate_text(asked: float | None, arrivals_s: Sequence[float]) -> str:
    """`2 requests/s requested, 3.49 requests/s drawn (+74.5 %)`; empty without a rate."""
    return drawn_rate_text(asked, offered_rate(np.array(arrivals_s, dtype=np.float64)))


def drawn_rate_text(asked: float | None, drawn: float | None) -> str:
    """As `rate_text`, with the drawn rate given."""
    if asked is None or drawn is None:
        return ""
    deviation = change(rate_deviation(asked, drawn))
    return f"{exact(asked, 'requests/s', digits=4)} requested, {quantity(drawn, 'requests/s')} drawn ({deviation})"


def require_variation(text: str, number: str) -> None:
    """FieldError, about the arrival `text`, for a coefficient of variation that no law has."""
    _cv(text, number)


def _rate(text: str, number: str) -> float:
    rate = _number(number)
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise FieldError(
            "arrival", f"arrival {text!r}: use a rate of {exact(LOWEST_RATE)} to {exact(HIGHEST_RATE, 'requests/s')}"
        )
    return rate


def _cv(text: str, number: str) -> float:
    cv = _number(number)
    if not LOWEST_CV <= cv <= HIGHEST_CV:
        raise FieldError(
            "arrival",
            f"arrival {text!r}: use a coefficient of variation of {LOWEST_CV:g} to {HIGHEST_CV:g} "
            "(1 is poisson, above 1 is bursty); for even gaps use constant:R",
        )
    return cv


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
