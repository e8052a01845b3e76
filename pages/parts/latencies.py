"""The five latencies of a run or of several, as samples for the figures; and why a run has none of one kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from pages.parts.format import number, seconds

WHOLE = "not defined here: the batch was returned whole, so an answer's tokens all came at once"
SINGLE = "not defined here: no answer has a second token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """One kind of latency. `words` reads within a sentence; `counted` is what one sample is, in the plural."""

    key: str
    title: str
    words: str
    counted: str
    why: str


LATENCIES = (
    Latency(
        key="queue_wait",
        title="Queue wait",
        words="queue wait",
        counted="requests",
        why="From the moment a request meant to come until it got a slot. Waiting makes up most of a first token's "
        "time as soon as requests come faster than they are served.",
    ),
    Latency(
        key="ttft",
        title="Time to first token",
        words="time to first token",
        counted="requests",
        why="What a reader sees as thinking: the wait for a slot, then the pass that reads the prompt.",
    ),
    Latency(
        key="itl",
        title="Gap between tokens",
        words="gap between tokens",
        counted="gaps",
        why="Every single pause in a growing answer, not a mean a request: the long tail is where another request's "
        "prompt was read in between.",
    ),
    Latency(
        key="tpot",
        title="Time per output token",
        words="time per output token",
        counted="requests",
        why="An answer's own average pace after its first token: (last - first) / (tokens - 1).",
    ),
    Latency(
        key="e2e",
        title="Whole answer",
        words="time to a whole answer",
        counted="requests",
        why="From the moment a request meant to come until its last token; finished requests only.",
    ),
)


def samples(latency: Latency, requests: pd.DataFrame, gaps: pd.DataFrame) -> pd.Series:
    """The measured values of one run in seconds; what was not measured is left out. `gaps` has a column gap_s."""
    if latency.key == "itl":
        return gaps["gap_s"].dropna()
    return requests[f"{latency.key}_s"].dropna()


def overlaid(latency: Latency, runs: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]]) -> pd.DataFrame:
    """The samples of several named runs (requests, gaps), as the CDF takes them: columns series, value_s."""
    parts = [
        pd.DataFrame({"series": name, "value_s": samples(latency, requests, gaps).to_numpy(dtype=float)})
        for name, (requests, gaps) in runs.items()
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"series": [], "value_s": []})


def absence(latency: Latency, requests: pd.DataFrame, status: str) -> str:
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


def worst_gap_words(gaps: Mapping[str, pd.Series]) -> str:
    """`Worst gap over median gap: chunked 2.8 times (38 ms over 13.6 ms), paged 9.1 times …`, the least first.

    What a reader who is being answered notices of the prompts that are read in between. Empty without any gaps.
    """
    known = {name: gap_s.dropna() for name, gap_s in gaps.items()}
    known = {name: gap_s for name, gap_s in known.items() if len(gap_s) and gap_s.median() > 0}
    ratios = {name: float(gap_s.max() / gap_s.median()) for name, gap_s in known.items()}
    if not ratios:
        return ""
    said = [
        f"{name} {number(ratios[name])} times ({seconds(known[name].max())} over {seconds(known[name].median())})"
        for name in sorted(ratios, key=lambda name: ratios[name])
    ]
    return f"Worst gap over median gap: {', '.join(said)}."
