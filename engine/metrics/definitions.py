"""How latencies may be counted: the same words mean different sums in different tools, and here each can be chosen.

The first option of every choice is the lab's own; `Definitions()` is all of them, and what every metric means unless
other options are chosen. `latency` computes them. About tools it says only what their published code or documentation
says; they change, so it holds for no particular version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, Self

from engine.metrics.distribution import PercentileRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """One option of each choice, by name."""

    ttft: Literal["arrival", "admission"] = "arrival"
    itl: Literal["gap", "mean"] = "gap"
    tpot: Literal["without-first", "with-first"] = "without-first"
    percentile: PercentileRule = "linear"
    failures: Literal["left-out", "infinite"] = "left-out"

    @classmethod
    def from_names(cls, names: Mapping[str, object]) -> Self:
        """What an address asks for. An option that does not exist is the lab's own: a link never fails by it."""
        known = {choice.name: {option.name for option in choice.options} for choice in CHOICES}
        return cls(**{name: value for name, value in names.items() if value in known.get(name, ())})  # type: ignore[arg-type]

    def changed(self) -> dict[str, str]:
        """The choices that are not the lab's own, with the option that was taken."""
        mine, own = self.names(), Definitions().names()
        return {name: option for name, option in mine.items() if option != own[name]}

    def names(self) -> dict[str, str]:
        """Every choice with its option."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to count. `used_by` tells which published tools count so, sentence by sentence."""

    name: str
    label: str
    formula: str
    meaning: str
    used_by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What can be counted in more ways than one; the first option is the lab's own."""

    name: str
    label: str
    options: tuple[Option, ...]

    def option(self, name: str) -> Option:
        """KeyError for an option that does not exist."""
        return {option.name: option for option in self.options}[name]


CHOICES = (
    Choice(
        name="ttft",
        label="Time to first token",
        options=(
            Option(
                name="arrival",
                label="from arrival",
                formula="first delivery - arrival_s",
                meaning="From the moment a request meant to come, the wait for a slot included: what a reader feels.",
                used_by=(
                    "vidur's prefill_time_e2e counts from arrival.",
                    "vLLM's serving benchmark, GenAI-Perf, AIPerf, LLMPerf and GuideLLM stand outside the server and "
                    "count from the moment they send a request: the server's queue counts, a client's does not.",
                ),
            ),
            Option(
                name="admission",
                label="from admission",
                formula="first delivery - admitted_s",
                meaning="From the moment the request had a slot: what the engine takes, however long the queue was.",
                used_by=("vidur's prefill_time_execution_plus_preemption counts from the first scheduling.",),
            ),
        ),
    ),
    Choice(
        name="itl",
        label="Inter-token latency",
        options=(
            Option(
                name="gap",
                label="every gap",
                formula="delivery of a token - delivery of the same request's token before it",
                meaning="One sample a gap: a single long pause shows, and a long answer counts more than a short one.",
                used_by=("vLLM's serving benchmark collects every gap, between chunks of its stream.",),
            ),
            Option(
                name="mean",
                label="a request's mean",
                formula="mean of a request's gaps",
                meaning="One sample a request: a pause that one answer made is averaged away.",
                used_by=(
                    "AIPerf, as GenAI-Perf before it: (latency - TTFT) / (tokens - 1), one value a request.",
                    "GuideLLM: (last - first) / (tokens - 1) of a request, weighted by its gaps.",
                    "LLMPerf's inter-token latency is one value a request too, the first token's wait included: it is "
                    "the time per output token with its first token, here.",
                ),
            ),
        ),
    ),
    Choice(
        name="tpot",
        label="Time per output token",
        options=(
            Option(
                name="without-first",
                label="without the first token",
                formula="(last delivery - first delivery) / (output_tokens - 1)",
                meaning="The pace of an answer once it has begun. Not defined for a single token.",
                used_by=("vLLM's serving benchmark: (latency - TTFT) / (tokens - 1), answers of one token left out.",),
            ),
            Option(
                name="with-first",
                label="with the first token",
                formula="(last delivery - arrival_s) / output_tokens",
                meaning="The whole time an answer took, spread over its tokens: the wait for its beginning counts in. "
                "Defined for a single token, and for answers returned whole.",
                used_by=(
                    "GuideLLM's time per output token: (last token - request sent) / tokens.",
                    "LLMPerf's inter-token latency: the sum of all waits, the first token's included, / tokens.",
                    "vidur's request_e2e_time_normalised, the normalized latency of several papers.",
                ),
            ),
        ),
    ),
    Choice(
        name="percentile",
        label="Percentiles",
        options=(
            Option(
                name="linear",
                label="linear between samples",
                formula="the sample at place (n - 1) x p, on the line between its two neighbors",
                meaning="May be a value that nobody measured, between two that were; of no matter with many samples.",
                used_by=(
                    "vLLM's serving benchmark (numpy's percentile as it is), LLMPerf (pandas' quantile as it is).",
                ),
            ),
            Option(
                name="nearest",
                label="nearest rank",
                formula="the sample of rank ceil(n x p)",
                meaning="Always a sample that was measured: the least one that a share p of all do not exceed.",
                used_by=(),
            ),
        ),
    ),
    Choice(
        name="failures",
        label="Requests that did not finish",
        options=(
            Option(
                name="left-out",
                label="left out",
                formula="no sample where a request did not get that far",
                meaning="What a cut-off request did get is counted, what it never got is not: a run that drops its "
                "slowest requests looks faster.",
                used_by=(
                    "vLLM's serving benchmark takes latencies from successful requests alone, and counts the others.",
                    "LLMPerf leaves out requests that ended in an error, GuideLLM tells them apart by status.",
                ),
            ),
            Option(
                name="infinite",
                label="counted as infinite",
                formula="infinity where a request did not get that far: its slot, first token, next token, end",
                meaning="Who never got an answer waits for ever. A percentile that falls on such a wait has no bound.",
                used_by=(),
            ),
        ),
    ),
)
