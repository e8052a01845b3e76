"""What a reader of the answers notices: how long each request waited, and how evenly its tokens came.

All times count from the intended arrival, so that time spent in the queue is never left out. A token is there when it
was delivered; for a batch that is returned whole that is when the batch was handed over. Nothing is interpolated, and
what was not measured is NaN, never 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.record import RunRecord, Table

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]


def request_metrics(record: RunRecord) -> Table:
    """One row a request, by request id: request_id, queue_wait_s, ttft_s, tpot_s, e2e_s, output_tokens.

    NaN where undefined: a wait that has not ended, a first token that never came; tpot_s and e2e_s of a request that
    did not finish; tpot_s of one token, and of a request that was returned whole.
    """
    answers = request_answers(record)
    output_tokens, finished = answers["output_tokens"], answers["state"] == "finished"
    streamed = finished & np.isnan(answers["returned_s"]) & (output_tokens > 1)
    gaps = np.where(streamed, output_tokens - 1, 1)
    return {
        "request_id": answers["request_id"],
        "queue_wait_s": answers["admitted_s"] - answers["arrival_s"],
        "ttft_s": answers["first_s"] - answers["arrival_s"],
        "tpot_s": np.where(streamed, (answers["last_s"] - answers["first_s"]) / gaps, np.nan),
        "e2e_s": np.where(finished, answers["last_s"] - answers["arrival_s"], np.nan),
        "output_tokens": output_tokens,
    }


def request_answers(record: RunRecord) -> Table:
    """What latencies are made of, one row a request, by request id: request_id, state, arrival_s, admitted_s,
    returned_s, the delivery of its first and its last token (first_s, last_s), output_tokens; NaN where missing."""
    order = np.argsort(record.requests["request_id"])
    requests = {name: record.requests[name][order] for name in ("request_id", "state", *_REQUEST_TIMES)}
    token_requests, delivered_s = deliveries(record)
    first = np.searchsorted(token_requests, requests["request_id"], side="left")
    last = np.searchsorted(token_requests, requests["request_id"], side="right") - 1
    output_tokens = last - first + 1
    return {
        **requests,
        "first_s": _take(delivered_s, first, output_tokens),
        "last_s": _take(delivered_s, last, output_tokens),
        "output_tokens": output_tokens,
    }


def itl(record: RunRecord) -> tuple[Integers, Floats]:
    """Every gap between two neighbouring tokens of a request, in order of request and token: (request_id, gap_s).

    Requests that were returned whole have none: their tokens came at once.
    """
    token_requests, delivered_s = deliveries(record)
    gap_s = np.diff(delivered_s)
    whole = np.unique(record.requests["request_id"][~np.isnan(record.requests["returned_s"])])
    kept = (token_requests[1:] == token_requests[:-1]) & ~np.isnan(gap_s)
    if whole.size:
        kept &= ~np.isin(token_requests[1:], whole)
    return token_requests[1:][kept], gap_s[kept]


def deliveries(record: RunRecord) -> tuple[Integers, Floats]:
    """Every token's request and when a reader had it, in order of request and token; NaN where none has it yet."""
    tokens = record.tokens
    order = np.argsort(tokens["request_id"].astype(np.int64) << 32 | tokens["token_index"], kind="stable")
    token_requests, delivered_s = tokens["request_id"][order], tokens["delivered_s"][order]
    missing = np.isnan(delivered_s)
    if missing.any():
        delivered_s[missing] = _returned_s(record, token_requests[missing])
    return token_requests, delivered_s


_REQUEST_TIMES = ("arrival_s", "admitted_s", "returned_s")


def _returned_s(record: RunRecord, request_ids: Integers) -> Floats:
    """When each of these requests was handed over whole; NaN for one that was not, or that the log does not know."""
    known = record.requests["request_id"]
    if not known.size:
        return np.full(len(request_ids), np.nan)
    order = np.argsort(known)
    place = order[np.minimum(np.searchsorted(known, request_ids, sorter=order), len(known) - 1)]
    return np.where(known[place] == request_ids, record.requests["returned_s"][place], np.nan)


def _take(values: Floats, places: Integers, counts: Integers) -> Floats:
    """`values[places]`, NaN where a request has no token at all."""
    taken = np.full(len(places), np.nan)
    taken[counts > 0] = values[places[counts > 0]]
    return taken
