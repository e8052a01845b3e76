"""The metrics that a page of repeats can show, and the text of their values and ratios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.core.format import change, duration, percent, quantity, ratio

MAX_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatMeasure:
    """A metric of a run: its `name`, a `short` label for narrow places, and a `noun` for use after `static's`."""

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
        """The factor for values on an axis that ends at `most`, and the unit after it."""
        if self.unit == "s":
            return (1e3, "ms") if most < 1 else (1.0, "s")
        return (100.0, "%") if self.unit == "share" else (1.0, self.unit)


MEASURES = (
    RepeatMeasure(
        name="output_tokens_per_s",
        short="tokens/s",
        title="Output tokens/s",
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
        title="Inter-token latency, p99",
        noun="p99 inter-token latency",
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
    """A ratio: `1.32x`, `0.0430x`, `120x`; with more digits where it is close to 1: `1.0004x`."""
    distinct = (digits for digits in range(3, MAX_DIGITS) if float(f"{value:.{digits}g}") != 1)
    return ratio(value, next(distinct, 3))


def change_text(before: float, after: float) -> str:
    """The change from one value to another: `+1.23 %`, `-0.300 %`, `0 %`. `before` is not 0."""
    return change(after / before - 1)
