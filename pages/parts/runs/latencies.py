"""The five latencies of a run or of several, as points for the figures; and why a run has none of one kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.core.format import duration, number
from engine.metrics.definitions import Definitions
from engine.metrics.distribution import Distribution
from engine.metrics.metric import Value

WHOLE = "not defined here: the batch was returned whole, so an answer's tokens all came at once"
SINGLE = "not defined here: no answer has a second token"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyFigure:
    """One kind of latency. `words` reads within a sentence; `counted` is what one sample is, in the plural."""

    key: str
    title: str
    words: str
    counted: str
    why: str


LATENCY_FIGURES = (
    LatencyFigure(
        key="queue_wait",
        title="Queue wait",
        words="queue wait",
        counted="requests",
        why="From the moment a request meant to come until it got a slot. Waiting makes up most of a first token's "
        "time as soon as requests come faster than they are served.",
    ),
    LatencyFigure(
        key="ttft",
        title="Time to first token",
        words="time to first token",
        counted="requests",
        why="What a reader sees as thinking: the wait for a slot, then the pass that reads the prompt.",
    ),
    LatencyFigure(
        key="itl",
        title="Gap between tokens",
        words="gap between tokens",
        counted="gaps",
        why="Every single pause in a growing answer, not a mean a request: the long tail is where another request's "
        "prompt was read in between.",
    ),
    LatencyFigure(
        key="tpot",
        title="Time per output token",
        words="time per output token",
        counted="requests",
        why="An answer's own average pace after its first token: (last - first) / (tokens - 1).",
    ),
    LatencyFigure(
        key="e2e",
        title="Whole answer",
        words="time to a whole answer",
        counted="requests",
        why="From the moment a request meant to come until its last token; finished requests only.",
    ),
)


def counted_noun(latency: LatencyFigure, definitions: Definitions) -> str:
    """What one sample of it is, in the plural: where each request has one mean gap, a request."""
    return "requests" if latency.key == "itl" and definitions.itl == "mean" else latency.counted


def overlaid(latencies: Mapping[str, Distribution], definitions: Definitions) -> pd.DataFrame:
    """One latency of several named runs, as the CDF takes it: columns series, value_s, rank, n, p50_s, p95_s."""
    parts = [_points(distribution, definitions).assign(series=name) for name, distribution in latencies.items()]
    columns = ["series", "value_s", "rank", "n", "p50_s", "p95_s"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns, dtype=float)


def _points(distribution: Distribution, definitions: Definitions) -> pd.DataFrame:
    """The points of a distribution; where no sample has a bound, one that says so."""
    value_s, rank = distribution.value_s, distribution.ranks
    if distribution.num_unbounded and not len(value_s):
        value_s, rank = np.array([np.inf]), np.array([distribution.n])
    marks = {f"p{percent}_s": distribution.percentile(percent, definitions.percentile) for percent in (50, 95)}
    return pd.DataFrame({"value_s": value_s, "rank": rank, "n": distribution.n, **marks})


def absence(latency: LatencyFigure, requests: pd.DataFrame, status: str) -> str:
    """Why a run has no sample of this latency, as the end of a sentence."""
    if requests.empty:
        return "no request has arrived" + (" yet" if status == "running" else "")
    if latency.key in ("itl", "tpot"):
        if requests["returned_s"].notna().any():
            return WHOLE
        if int(requests["output_tokens"].fillna(0).max()) <= 1 and status == "completed":
            return SINGLE
    return (
        "no request has come that far yet" if status == "running" else "no request came that far before the run ended"
    )


def worst_gap_text(metrics: Mapping[str, Mapping[str, Value]]) -> str:
    """`Worst gap over median gap: chunked 2.8 times (38 ms over 13.6 ms), paged 9.1 times …`, the least first.

    What a reader who is being answered notices of the prompts that are read in between. Empty without any gaps.
    """
    known = {name: (of["itl_max_s"], of["itl_p50_s"]) for name, of in metrics.items() if of.get("itl_p50_s")}
    ratios = {name: worst / median for name, (worst, median) in known.items() if worst and median and worst < math.inf}
    if not ratios:
        return ""
    said = [
        f"{name} {number(ratios[name])} times ({duration(known[name][0])} over {duration(known[name][1])})"
        for name in sorted(ratios, key=lambda name: ratios[name])
    ]
    return f"Worst gap over median gap: {', '.join(said)}."
