"""Definitions of latencies. Tools define TTFT, ITL and TPOT differently; each definition can be chosen here.

The first option of every choice is the lab's default. `Definitions()` holds all defaults. `latency` computes latencies
by any of them. Statements about tools follow their published code or documentation, of no particular version.
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
        """The definitions in an address. Unknown options become the default, so a link never fails."""
        known = {choice.name: {option.name for option in choice.options} for choice in CHOICES}
        return cls(**{name: value for name, value in names.items() if value in known.get(name, ())})  # type: ignore[arg-type]

    def changed(self) -> dict[str, str]:
        """The choices that differ from the lab's default, with their options."""
        mine, own = self.names(), Definitions().names()
        return {name: option for name, option in mine.items() if option != own[name]}

    def names(self) -> dict[str, str]:
        """The option of every choice."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionOption:
    """One definition. `used_by` lists, one sentence each, the published tools that use it."""

    name: str
    label: str
    formula: str
    meaning: str
    used_by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionChoice:
    """A term with several definitions. The first option is the lab's default."""

    name: str
    label: str
    options: tuple[DefinitionOption, ...]

    @property
    def default(self) -> DefinitionOption:
        """The lab's own definition."""
        return self.options[0]

    def option(self, name: str) -> DefinitionOption:
        """KeyError for an option that does not exist."""
        return {option.name: option for option in self.options}[name]


CHOICES = (
    DefinitionChoice(
        name="ttft",
        label="Time to first token",
        options=(
            DefinitionOption(
                name="arrival",
                label="from arrival",
                formula="first delivery - arrival_s",
                meaning="From the intended arrival, queueing included: what a client experiences.",
                used_by=(
                    "vidur's prefill_time_e2e counts from arrival.",
                    "vLLM's serving benchmark, GenAI-Perf, AIPerf, LLMPerf and GuideLLM run outside the server and "
                    "count from sending a request: the server's queue counts, the client's does not.",
                ),
            ),
            DefinitionOption(
                name="admission",
                label="from admission",
                formula="first delivery - admitted_s",
                meaning="From the admission to a slot: the engine's time without queueing.",
                used_by=("vidur's prefill_time_execution_plus_preemption counts from the first scheduling.",),
            ),
        ),
    ),
    DefinitionChoice(
        name="itl",
        label="Inter-token latency",
        options=(
            DefinitionOption(
                name="gap",
                label="every gap",
                formula="delivery of a token - delivery of the same request's token before it",
                meaning="One sample per gap: single long gaps show, and long answers weigh more than short ones.",
                used_by=("vLLM's serving benchmark collects every gap, between chunks of its stream.",),
            ),
            DefinitionOption(
                name="mean",
                label="mean per request",
                formula="mean of a request's gaps",
                meaning="One sample per request: a single long gap is averaged out.",
                used_by=(
                    "AIPerf, like GenAI-Perf before it: (latency - TTFT) / (tokens - 1), one value per request.",
                    "GuideLLM: (last - first) / (tokens - 1) of a request, weighted by its gaps.",
                    "LLMPerf's inter-token latency is one value per request and includes the first token: here, the "
                    "time per output token with the first token.",
                ),
            ),
        ),
    ),
    DefinitionChoice(
        name="tpot",
        label="Time per output token",
        options=(
            DefinitionOption(
                name="without-first",
                label="without the first token",
                formula="(last delivery - first delivery) / (output_tokens - 1)",
                meaning="The mean gap after the first token. Not defined for a single token.",
                used_by=("vLLM's serving benchmark: (latency - TTFT) / (tokens - 1), answers of one token left out.",),
            ),
            DefinitionOption(
                name="with-first",
                label="with the first token",
                formula="(last delivery - arrival_s) / output_tokens",
                meaning="The total time of an answer per token, time to first token included. Also defined for a "
                "single token and for answers returned in full.",
                used_by=(
                    "GuideLLM's time per output token: (last token - request sent) / tokens.",
                    "LLMPerf's inter-token latency: the sum of all waits, including for the first token, / tokens.",
                    "vidur's request_e2e_time_normalised, the normalized latency of several papers.",
                ),
            ),
        ),
    ),
    DefinitionChoice(
        name="percentile",
        label="Percentiles",
        options=(
            DefinitionOption(
                name="linear",
                label="linear between samples",
                formula="the value at position (n - 1) x p, on the line between neighboring samples",
                meaning="May lie between two measured values; the difference vanishes with many samples.",
                used_by=(
                    "vLLM's serving benchmark (numpy's percentile as it is), LLMPerf (pandas' quantile as it is).",
                ),
            ),
            DefinitionOption(
                name="nearest",
                label="nearest rank",
                formula="the sample of rank ceil(n x p)",
                meaning="Always a measured sample: the smallest one that a share p of all samples do not exceed.",
                used_by=(),
            ),
        ),
    ),
    DefinitionChoice(
        name="failures",
        label="Requests that did not finish",
        options=(
            DefinitionOption(
                name="left-out",
                label="left out",
                formula="no sample for what a request did not reach",
                meaning="An unfinished request counts only with what it received, so a run that drops its slowest "
                "requests looks faster.",
                used_by=(
                    "vLLM's serving benchmark uses latencies of successful requests only and counts the others.",
                    "LLMPerf leaves out requests that ended in an error; GuideLLM separates them by status.",
                ),
            ),
            DefinitionOption(
                name="infinite",
                label="counted as infinite",
                formula="infinity for what a request did not reach: its slot, first token, next token, end",
                meaning="An unfinished request waits forever. A percentile that falls on such a wait is infinite.",
                used_by=(),
            ),
        ),
    ),
)
