"""The figures that a page of repeats can show, and how their values and ratios are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.core.format import change, duration, percent, quantity, ratio

MOST_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatMeasure:
    """One figure of a run. `name` is the metric's, `short` what it is called where there is little room.

    `noun` reads within a sentence, behind `static's`.
    """

    name: str
    short: str
    title: str
    noun: str
    unit: Literal["tokens/s", "s", "share"]

    def text(self, value: float) -> str:
        """`312 tokens/s`, `31.2 ms`, `43.8 %`."""
        if self.unit == "s":
            return duration(value)
        return percent(value) if self.unit == "share" else quantity(value, self.unit)

    def axis_scale(self, most: float) -> tuple[float, str]:
        """What values are multiplied by on an axis that goes up to `most`, and the unit that they then have."""
        if self.unit == "s":
            return (1e3, "ms") if most < 1 else (1.0, "s")
        return (100.0, "%") if self.unit == "share" else (1.0, self.unit)


MEASURES = (
    RepeatMeasure(
        name="output_tokens_per_s",
        short="tokens/s",
        title="Output tokens a second",
        noun="output tokens/s",
        unit="tokens/s",
    ),
    RepeatMeasure(
        name="ttft_p50_s",
        short="TTFT p50",
        title="Time to first token, median",
        noun="median time to first token",
        unit="s",
    ),
    RepeatMeasure(
        name="ttft_p95_s",
        short="TTFT p95",
        title="Time to first token, p95",
        noun="p95 time to first token",
        unit="s",
    ),
    RepeatMeasure(
        name="tpot_p50_s",
        short="TPOT p50",
        title="Time per output token, median",
        noun="median time per output token",
        unit="s",
    ),
    RepeatMeasure(
        name="itl_p99_s",
        short="gap p99",
        title="Gap between tokens, p99",
        noun="p99 gap between tokens",
        unit="s",
    ),
    RepeatMeasure(name="duration_s", short="duration", title="Duration", noun="duration", unit="s"),
    RepeatMeasure(
        name="dead_fraction",
        short="dead",
        title="Dead slot-steps",
        noun="share of dead slot-steps",
        unit="share",
    ),
)
BY_SHORT = {measure.short: measure for measure in MEASURES}


def times_text(value: float) -> str:
    """A ratio: `1.32x`, `0.0430x`, `120x`; as many digits as it takes to tell it from 1: `1.0004x`."""
    tells = (digits for digits in range(3, MOST_DIGITS) if float(f"{value:.{digits}g}") != 1)
    return ratio(value, next(tells, 3))


def change_text(before: float, after: float) -> str:
    """`+1.23 %`, `-0.300 %`, `0 %`: from one value to another. `before` is not 0."""
    return change(after / before - 1)
