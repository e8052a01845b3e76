"""Latencies by chosen definitions: each request's values, the samples of each latency, and the metrics over a run.

By `Definitions()` they are the lab's own (`latency`, `metrics`). A request that did not finish waits, counted as
infinite, for ever: for the slot, the first token, one more token and the end that it never got. Where a run's answers
are returned whole there are no gaps, and none is counted as infinite; a time per token without the first neither.
"""

from __future__ import annotations

import numpy as np

from engine.core.definitions import Definitions
from engine.core.distribution import Distribution, percentile
from engine.core.latency import Floats, itl, request_answers
from engine.core.metric import Value
from engine.core.record import RunRecord, Table

COUNTED = ("queue_wait", "ttft", "itl", "tpot", "e2e")
STATISTICS = {"p50": 50, "p95": 95, "p99": 99, "max": 100}
DEFAULT = Definitions()


def counted_requests(record: RunRecord, definitions: Definitions = DEFAULT) -> Table:
    """One row a request, by request id: request_id, queue_wait_s, ttft_s, itl_s (the mean of its gaps), tpot_s, e2e_s.

    NaN where undefined; infinite where it is counted so.
    """
    answers = request_answers(record)
    since_s = answers["admitted_s"] if definitions.ttft == "admission" else answers["arrival_s"]
    finished = answers["state"] == "finished"
    values = {
        "queue_wait_s": answers["admitted_s"] - answers["arrival_s"],
        "ttft_s": answers["first_s"] - since_s,
        "itl_s": _mean_gaps(record, answers),
        "tpot_s": np.where(finished, _per_token_s(answers, definitions), np.nan),
        "e2e_s": np.where(finished, answers["last_s"] - answers["arrival_s"], np.nan),
    }
    if definitions.failures == "infinite":
        for name in _waits_for_ever(record, definitions):
            never = ~finished & (np.isnan(values[name]) | (name == "itl_s"))
            values[name] = np.where(never, np.inf, values[name])
    return {"request_id": answers["request_id"], **values}


def counted_samples(record: RunRecord, definitions: Definitions = DEFAULT) -> dict[str, Floats]:
    """The samples of each latency of COUNTED, in seconds: those of requests by request id, gaps by request and token.

    An infinite gap of a request that did not finish comes after all others.
    """
    requests = counted_requests(record, definitions)
    samples = {key: requests[f"{key}_s"] for key in COUNTED}
    if definitions.itl == "gap":
        unended = requests["itl_s"][np.isinf(requests["itl_s"])]
        samples["itl"] = np.concatenate([itl(record)[1], unended])
    return {key: values[~np.isnan(values)] for key, values in samples.items()}


def distributions(record: RunRecord, definitions: Definitions = DEFAULT) -> dict[str, Distribution]:
    """Each latency of COUNTED as a distribution."""
    return {key: Distribution.of(values) for key, values in counted_samples(record, definitions).items()}


def counted_metrics(record: RunRecord, definitions: Definitions = DEFAULT) -> dict[str, Value]:
    """The metrics of latencies by their names in the glossary: p50, p95, p99, max and n of each."""
    metrics: dict[str, Value] = {}
    for key, values in counted_samples(record, definitions).items():
        for name, percent in STATISTICS.items():
            metrics[f"{key}_{name}_s"] = percentile(values, percent, definitions.percentile)
        metrics[f"{key}_n"] = len(values)
    return metrics


def metrics_of(counted: dict[str, Distribution], definitions: Definitions) -> dict[str, Value]:
    """The same metrics, of distributions."""
    metrics: dict[str, Value] = {}
    for key, distribution in counted.items():
        for name, percent in STATISTICS.items():
            metrics[f"{key}_{name}_s"] = distribution.percentile(percent, definitions.percentile)
        metrics[f"{key}_n"] = distribution.n
    return metrics


def returns_whole(record: RunRecord) -> bool:
    """Whether answers are handed over with their batch: one was, or tokens are there that nobody has been handed."""
    returned = ~np.isnan(record.requests["returned_s"])
    return bool(returned.any() or np.isnan(record.tokens["delivered_s"]).any())


def _mean_gaps(record: RunRecord, answers: Table) -> Floats:
    request_ids, gap_s = itl(record)
    places = np.searchsorted(answers["request_id"], request_ids)
    known = places < len(answers["request_id"])
    known[known] = answers["request_id"][places[known]] == request_ids[known]
    size = len(answers["request_id"])
    counts = np.bincount(places[known], minlength=size)
    totals = np.bincount(places[known], weights=gap_s[known], minlength=size)
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)


def _per_token_s(answers: Table, definitions: Definitions) -> Floats:
    tokens = answers["output_tokens"]
    if definitions.tpot == "with-first":
        return np.where(tokens > 0, (answers["last_s"] - answers["arrival_s"]) / np.maximum(tokens, 1), np.nan)
    streamed = np.isnan(answers["returned_s"]) & (tokens > 1)
    return np.where(streamed, (answers["last_s"] - answers["first_s"]) / np.maximum(tokens - 1, 1), np.nan)


def _waits_for_ever(record: RunRecord, definitions: Definitions) -> tuple[str, ...]:
    """The latencies of which a request that did not finish has an infinite one."""
    if not returns_whole(record):
        return ("queue_wait_s", "ttft_s", "itl_s", "tpot_s", "e2e_s")
    per_token = ("tpot_s",) if definitions.tpot == "with-first" else ()
    return ("queue_wait_s", "ttft_s", *per_token, "e2e_s")
