"""Latencies of every request and every gap between tokens, by chosen `Definitions`.

Times count from the intended arrival, so queueing is always included. A token counts when it is delivered; in full
response mode, when its batch ends. Nothing is interpolated, and a missing value is NaN, never 0. The store's table
macro `latencies` is tested equal to this module.

With failures counted as infinite, an unfinished request has an infinite latency for whatever it never received: its
slot, its first token, its next token, its end. In full response mode there are no gaps and no time per token without
the first, so these have no infinite samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.core.record import RunRecord, Table
from engine.metrics.definitions import CHOICES, Definitions
from engine.metrics.distribution import STATISTICS, Distribution

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """A latency with one sample per request or per gap. Its metric is `<key>_s`."""

    key: str
    label: str
    formula: str
    meaning: str
    level: Literal["request", "gap"]


_LAB = {choice.name: choice.default for choice in CHOICES}  # the lab's definitions

LATENCIES = (
    Latency(
        key="queue_wait",
        label="Queue wait",
        formula="admitted_s - arrival_s",
        meaning="From the intended arrival of a request until it was assigned a slot.",
        level="request",
    ),
    Latency(
        key="ttft",
        label="Time to first token (TTFT)",
        formula=_LAB["ttft"].formula,
        meaning="From the intended arrival until the first token was delivered, time in the queue included.",
        level="request",
    ),
    Latency(
        key="itl",
        label="Inter-token latency (ITL)",
        formula=_LAB["itl"].formula,
        meaning="Every gap between two tokens of an answer. Not defined for answers returned in full.",
        level="gap",
    ),
    Latency(
        key="tpot",
        label="Time per output token (TPOT)",
        formula=_LAB["tpot"].formula,
        meaning="Mean gap of a finished answer. Not defined for a single token, or for answers returned in full.",
        level="request",
    ),
    Latency(
        key="e2e",
        label="End-to-end latency (E2E)",
        formula="last delivery - arrival_s",
        meaning="From the intended arrival until the last token was delivered. Finished requests only.",
        level="request",
    ),
)
DEFAULT = Definitions()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Latencies:
    """`requests` has one row per request, by request id: request_id, queue_wait_s, ttft_s, itl_s (its mean gap),
    tpot_s, e2e_s, output_tokens. NaN where undefined, infinite where failures count as infinite.

    `gap_s` are all gaps between consecutive tokens, in order of request and token; `gap_request_id` holds their
    requests. A request returned in full has none.
    """

    requests: Table
    gap_request_id: Integers
    gap_s: Floats
    definitions: Definitions

    def samples(self, key: str) -> Floats:
        """Samples in seconds of one latency of LATENCIES, without NaN: by request id, gaps by request and token.

        Infinite gaps of unfinished requests come last.
        """
        values: Floats = self.requests[f"{key}_s"]
        if key == "itl" and self.definitions.itl == "gap":
            infinite = values[np.isinf(values)]
            return np.concatenate([self.gap_s, infinite]) if infinite.size else self.gap_s
        return values[~np.isnan(values)]

    def distributions(self) -> dict[str, Distribution]:
        """Each latency of LATENCIES as a distribution, by its key."""
        return {latency.key: Distribution.of(self.samples(latency.key)) for latency in LATENCIES}


def latencies(record: RunRecord, definitions: Definitions = DEFAULT) -> Latencies:
    """Every latency of a run by the chosen definitions."""
    token_requests, delivered_s = deliveries(record)
    answers = _answers(record, token_requests, delivered_s)
    gap_request_id, gap_s = _gaps(record, token_requests, delivered_s)
    since_s = answers["admitted_s"] if definitions.ttft == "admission" else answers["arrival_s"]
    finished = answers["state"] == "finished"
    values = {
        "queue_wait_s": answers["admitted_s"] - answers["arrival_s"],
        "ttft_s": answers["first_s"] - since_s,
        "itl_s": _mean_gaps(answers["request_id"], gap_request_id, gap_s),
        "tpot_s": np.where(finished, _per_token_s(answers, definitions), np.nan),
        "e2e_s": np.where(finished, answers["last_s"] - answers["arrival_s"], np.nan),
    }
    if definitions.failures == "infinite":
        for name in _infinite_latencies(record, definitions):
            never = ~finished & (np.isnan(values[name]) | (name == "itl_s"))
            values[name] = np.where(never, np.inf, values[name])
    requests = {"request_id": answers["request_id"], **values, "output_tokens": answers["output_tokens"]}
    return Latencies(requests=requests, gap_request_id=gap_request_id, gap_s=gap_s, definitions=definitions)


def latency_metrics(
    distributions: Mapping[str, Distribution], definitions: Definitions = DEFAULT
) -> dict[str, float | int | None]:
    """The latency metrics of a run, by name: each of STATISTICS and the number of samples."""
    metrics: dict[str, float | int | None] = {}
    for key, distribution in distributions.items():
        for statistic in STATISTICS:
            metrics[f"{key}_{statistic.key}_s"] = distribution.percentile(statistic.percent, definitions.percentile)
        metrics[f"{key}_n"] = distribution.n
    return metrics


def request_answers(record: RunRecord) -> Table:
    """The times behind the latencies, one row per request, by request id: request_id, state, arrival_s, admitted_s,
    returned_s, delivery of the first and the last token (first_s, last_s), output_tokens. NaN where missing."""
    return _answers(record, *deliveries(record))


def deliveries(record: RunRecord) -> tuple[Integers, Floats]:
    """Every token's request and delivery time, in order of request and token; NaN if not delivered."""
    tokens = record.tokens
    order = np.argsort(tokens["request_id"].astype(np.int64) << 32 | tokens["token_index"], kind="stable")
    token_requests, delivered_s = tokens["request_id"][order], tokens["delivered_s"][order]
    missing = np.isnan(delivered_s)
    if missing.any():
        delivered_s[missing] = _returned_s(record, token_requests[missing])
    return token_requests, delivered_s


_REQUEST_TIMES = ("arrival_s", "admitted_s", "returned_s")


def _answers(record: RunRecord, token_requests: Integers, delivered_s: Floats) -> Table:
    order = np.argsort(record.requests["request_id"])
    requests = {name: record.requests[name][order] for name in ("request_id", "state", *_REQUEST_TIMES)}
    first = np.searchsorted(token_requests, requests["request_id"], side="left")
    last = np.searchsorted(token_requests, requests["request_id"], side="right") - 1
    output_tokens = last - first + 1
    return {
        **requests,
        "first_s": _take(delivered_s, first, output_tokens),
        "last_s": _take(delivered_s, last, output_tokens),
        "output_tokens": output_tokens,
    }


def _gaps(record: RunRecord, token_requests: Integers, delivered_s: Floats) -> tuple[Integers, Floats]:
    gap_s = np.diff(delivered_s)
    whole = np.unique(record.requests["request_id"][~np.isnan(record.requests["returned_s"])])
    kept = (token_requests[1:] == token_requests[:-1]) & ~np.isnan(gap_s)
    if whole.size:
        kept &= ~np.isin(token_requests[1:], whole)
    return token_requests[1:][kept], gap_s[kept]


def _mean_gaps(request_ids: Integers, gap_request_id: Integers, gap_s: Floats) -> Floats:
    """The mean gap of each request. Gaps of requests that are missing from the log are ignored."""
    counts = np.searchsorted(gap_request_id, request_ids, side="right") - np.searchsorted(gap_request_id, request_ids)
    if counts.sum() < len(gap_s):
        gap_s = gap_s[np.isin(gap_request_id, request_ids)]
    places = np.repeat(np.arange(len(request_ids)), counts)
    totals = np.bincount(places, weights=gap_s, minlength=len(request_ids))
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)


def _per_token_s(answers: Table, definitions: Definitions) -> Floats:
    tokens = answers["output_tokens"]
    if definitions.tpot == "with-first":
        return np.where(tokens > 0, (answers["last_s"] - answers["arrival_s"]) / np.maximum(tokens, 1), np.nan)
    streamed = np.isnan(answers["returned_s"]) & (tokens > 1)
    return np.where(streamed, (answers["last_s"] - answers["first_s"]) / np.maximum(tokens - 1, 1), np.nan)


def _infinite_latencies(record: RunRecord, definitions: Definitions) -> tuple[str, ...]:
    """The latencies that are infinite for an unfinished request."""
    if not _returns_whole(record):
        return ("queue_wait_s", "ttft_s", "itl_s", "tpot_s", "e2e_s")
    per_token = ("tpot_s",) if definitions.tpot == "with-first" else ()
    return ("queue_wait_s", "ttft_s", *per_token, "e2e_s")


def _returns_whole(record: RunRecord) -> bool:
    """Whether answers are returned in full: one was, or some tokens have no delivery time of their own."""
    returned = ~np.isnan(record.requests["returned_s"])
    return bool(returned.any() or np.isnan(record.tokens["delivered_s"]).any())


def _returned_s(record: RunRecord, request_ids: Integers) -> Floats:
    """When each of these requests was returned in full; NaN if it was not, or is missing from the log."""
    known = record.requests["request_id"]
    if not known.size:
        return np.full(len(request_ids), np.nan)
    order = np.argsort(known)
    place = order[np.minimum(np.searchsorted(known, request_ids, sorter=order), len(known) - 1)]
    return np.where(known[place] == request_ids, record.requests["returned_s"][place], np.nan)


def _take(values: Floats, places: Integers, counts: Integers) -> Floats:
    """`values[places]`, NaN where a request has no token."""
    taken = np.full(len(places), np.nan)
    taken[counts > 0] = values[places[counts > 0]]
    return taken
