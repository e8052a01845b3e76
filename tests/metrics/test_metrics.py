"""Every metric, calculated by hand on small records."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.core.record import RunRecord
from engine.metrics.distribution import percentile
from engine.metrics.latency import latencies
from engine.metrics.metrics import RUN_METRICS, run_metrics
from tests.support.runs.record_rows import record_of_rows
from tests.support.runs.records import (
    CONTINUOUS,
    CUT_OFF,
    EMPTY,
    STATIC,
    STATIC_PASSES,
    STATIC_REQUESTS,
    WHOLE,
    request,
    run_pass,
    tokens,
)


def column(record: RunRecord, name: str) -> list[float | None]:
    """A column of the request metrics, None for NaN."""
    return [None if math.isnan(value) else value for value in latencies(record).requests[name].tolist()]


def test_queue_wait_counts_from_the_intended_arrival() -> None:
    assert column(CONTINUOUS, "queue_wait_s") == [1.0, 0.0, 0.5, None]


def test_the_first_token_counts_from_the_intended_arrival_even_of_a_request_cut_off() -> None:
    assert column(CONTINUOUS, "ttft_s") == [2.0, 1.0, 1.0, None]


def test_tpot_leaves_the_first_token_out_and_needs_a_second_and_an_end() -> None:
    # (5 - 2) / (3 - 1); one token; cut off; none.
    assert column(CONTINUOUS, "tpot_s") == [1.5, None, None, None]


def test_e2e_ends_with_the_last_token_of_a_finished_request() -> None:
    assert column(CONTINUOUS, "e2e_s") == [5.0, 1.0, None, None]


def test_output_tokens_are_those_generated() -> None:
    assert column(CONTINUOUS, "output_tokens") == [3, 1, 2, 0]


def test_itl_is_every_gap_within_a_request() -> None:
    found = latencies(CONTINUOUS)
    request_id, gap_s = found.gap_request_id, found.gap_s
    assert request_id.tolist() == [0, 0, 2]
    assert gap_s.tolist() == [1.0, 2.0, 2.0]


def test_a_batch_returned_whole_has_its_first_and_its_last_token_at_once() -> None:
    assert column(WHOLE, "ttft_s") == [3.25, 3.25]
    assert column(WHOLE, "e2e_s") == [3.25, 3.25]
    assert column(WHOLE, "tpot_s") == [None, None]
    assert latencies(WHOLE).gap_s.tolist() == []


def test_delivery_times_that_were_filled_in_later_do_not_make_gaps_of_a_whole_return() -> None:
    filled = record_of_rows(
        requests=[row | {"returned_s": 3.25} for row in STATIC_REQUESTS],
        passes=STATIC_PASSES,
        tokens=[*tokens(0, 3.25, 3.25), *tokens(1, 3.25, 3.25, 3.25)],
    )
    assert run_metrics(filled) == run_metrics(WHOLE)


def test_a_batch_cut_off_before_its_return_has_delivered_nothing() -> None:
    cut = record_of_rows(
        requests=[request(0), request(1, state="stopped")], tokens=[*tokens(0, None, None), *tokens(1, None)]
    )
    assert column(cut, "ttft_s") == column(cut, "e2e_s") == [None, None]
    metrics = run_metrics(cut)
    assert metrics["output_tokens"] == 3
    assert metrics["duration_s"] is metrics["output_tokens_per_s"] is None


def test_throughput_counts_delivered_tokens() -> None:
    metrics = run_metrics(CUT_OFF)
    assert (metrics["output_tokens"], metrics["duration_s"]) == (100, 1.0)
    assert metrics["output_tokens_per_s"] == 10.0


STATIC_VALUES = {
    "requests": 2,
    "finished_requests": 2,
    "prompt_tokens": 7,
    "output_tokens": 5,
    "steps": 2,
    "passes": 3,
    "prefill_passes": 1,
    "decode_passes": 2,
    "mixed_passes": 0,
    "captured_passes": 0,
    "duration_s": 3.0,
    "output_tokens_per_s": 5 / 3,
    "requests_per_s": 2 / 3,
    "offered_requests_per_s": None,
    "prefill_tokens_per_s": 7.0,  # 7 tokens in a pass of 1 s
    "itl_max_over_p50": 1.0,
    "slot_steps": 6,
    "useful_slot_steps": 5,
    "dead_fraction": 1 / 6,
    "computed_positions": 36,
    "padding_positions": 6,
    "dead_positions": 7,
    "padding_fraction": 1 / 6,
    "dead_position_fraction": 7 / 36,
    "padding_s": 0.425,  # 1 s x 3/10 + 0.5 s x 3/12
    "dead_s": 0.5,  # 1 s x 7/14
    # What older run logs do not tell is unknown, not 0.
    "bucket_padding_fraction": None,
    "preemptions": None,
    "recomputed_tokens": None,
    "prefill_s": 1.0,
    "decode_s": 1.5,
    "mixed_s": 0.0,
    "prefill_share": 0.4,
    "prefill_pass_p50_s": 1.0,
    "decode_pass_p50_s": 0.75,
    "issue_s": 0.4,
    "device_s": 2.2,
    "between_passes_s": 0.5,
    "kv_reserved_position_s": 40.0,  # 16 x 2.5 s
    "kv_unused_position_s": 21.5,  # 40 - (7 x 1 + 9 x 0.5 + 7 x 1)
    **dict.fromkeys(f"kv_{part}_position_s" for part in ("padding", "dead", "fragment", "room")),
    "kv_unused_fraction": 0.5375,
    "peak_memory_bytes": 123,
    "queue_wait_p50_s": 0.0,
    "queue_wait_p95_s": 0.0,
    "queue_wait_max_s": 0.0,
    "queue_wait_p99_s": None,
    "queue_wait_n": 2,
    "ttft_p50_s": 1.0,
    "ttft_p95_s": 1.0,
    "ttft_p99_s": None,
    "ttft_max_s": 1.0,
    "ttft_n": 2,
    "itl_p50_s": 1.0,
    "itl_p95_s": 1.0,
    "itl_p99_s": None,
    "itl_max_s": 1.0,
    "itl_n": 3,
    "tpot_p50_s": 1.0,
    "tpot_p95_s": 1.0,
    "tpot_p99_s": None,
    "tpot_max_s": 1.0,
    "tpot_n": 2,
    "e2e_p50_s": 2.5,
    "e2e_p95_s": 2.95,  # 2 + 0.95 x (3 - 2)
    "e2e_p99_s": None,
    "e2e_max_s": 3.0,
    "e2e_n": 2,
}
WHOLE_VALUES = STATIC_VALUES | {
    "duration_s": 3.25,
    "output_tokens_per_s": 5 / 3.25,
    "requests_per_s": 2 / 3.25,
    **dict.fromkeys(("ttft_p50_s", "ttft_p95_s", "ttft_max_s"), 3.25),
    **dict.fromkeys(("itl_p50_s", "itl_p95_s", "itl_max_s", "tpot_p50_s", "tpot_p95_s", "tpot_max_s")),
    "itl_max_over_p50": None,
    **dict.fromkeys(("e2e_p50_s", "e2e_p95_s", "e2e_max_s"), 3.25),
    "itl_n": 0,
    "tpot_n": 0,
}


@pytest.mark.parametrize(
    ("record", "values"), [(STATIC, STATIC_VALUES), (WHOLE, WHOLE_VALUES)], ids=["streamed", "whole"]
)
def test_every_metric_of_a_static_batch(record: RunRecord, values: dict[str, Any]) -> None:
    metrics = run_metrics(record, peak_memory_bytes=123)
    assert set(metrics) == set(values)
    for name, value in values.items():
        assert metrics[name] == (value if value is None else pytest.approx(value)), name


def test_metrics_of_a_stopped_run_with_open_arrivals() -> None:
    metrics = run_metrics(CONTINUOUS)
    expected = {
        "requests": 4,
        "finished_requests": 2,
        "output_tokens": 6,
        "duration_s": 6.0,
        "output_tokens_per_s": 1.0,
        "requests_per_s": 2 / 6,
        "offered_requests_per_s": 0.5,  # three gaps in 6 s
        "queue_wait_p50_s": 0.5,  # of 0, 0.5, 1
        "queue_wait_p95_s": 0.95,  # 0.5 + 0.9 x 0.5
        "queue_wait_n": 3,
        "ttft_p50_s": 1.0,  # of 1, 1, 2
        "ttft_p95_s": 1.9,  # 1 + 0.9 x 1
        "itl_p50_s": 2.0,  # of 1, 2, 2
        "itl_n": 3,
        "tpot_p50_s": 1.5,
        "tpot_n": 1,
        "e2e_p50_s": 3.0,  # of 1, 5
        "e2e_p95_s": 4.8,  # 1 + 0.95 x 4
        "e2e_n": 2,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)


def test_a_run_of_one_request_with_one_token() -> None:
    record = record_of_rows(
        requests=[request(0, arrival_s=2.0, admitted_s=2.5)],
        passes=[
            run_pass(
                "prefill", 0, 2.5, 3.0, rows=1, live_rows=1, prompt_tokens=4, computed_positions=4,
                kv_reserved_positions=5, kv_used_positions=4,
            )
        ],
        tokens=tokens(0, 3.0),
    )  # fmt: skip
    metrics = run_metrics(record)
    assert (metrics["duration_s"], metrics["output_tokens_per_s"]) == (1.0, 1.0)
    assert (metrics["queue_wait_p50_s"], metrics["ttft_p50_s"], metrics["e2e_p50_s"]) == (0.5, 1.0, 1.0)
    assert (metrics["itl_n"], metrics["tpot_n"], metrics["itl_p50_s"], metrics["tpot_p50_s"]) == (0, 0, None, None)
    assert (metrics["decode_passes"], metrics["decode_s"], metrics["decode_pass_p50_s"]) == (0, 0.0, None)
    assert (metrics["prefill_share"], metrics["dead_fraction"]) == (1.0, 0.0)
    # issue_s and device_s were not measured: unknown, not zero.
    assert metrics["issue_s"] is metrics["device_s"] is None


def test_an_empty_run_counts_nothing_and_claims_nothing() -> None:
    metrics = run_metrics(EMPTY)
    counts = {name for name, value in metrics.items() if value == 0}
    units = {metric.name: metric.unit for metric in RUN_METRICS}
    assert {name for name, value in metrics.items() if value is None} == set(metrics) - counts
    assert all(units[name] not in ("share", "tokens/s", "requests/s") for name in counts)
    assert not [name for name in counts if re.search("_(p50|p95|p99|max)_s$|^duration", name)]
    assert all(len(values) == 0 for values in latencies(EMPTY).requests.values())


def test_rows_may_come_in_any_order() -> None:
    shuffled = RunRecord(
        requests={name: values[[2, 0, 3, 1]] for name, values in CONTINUOUS.requests.items()},
        passes=CONTINUOUS.passes,
        tokens={name: values[[5, 2, 3, 0, 4, 1]] for name, values in CONTINUOUS.tokens.items()},
    )
    assert run_metrics(shuffled) == run_metrics(CONTINUOUS)
    assert column(shuffled, "e2e_s") == column(CONTINUOUS, "e2e_s")
    passes = {name: values[::-1] for name, values in STATIC.passes.items()}
    assert run_metrics(replace(STATIC, passes=passes)) == pytest.approx(run_metrics(STATIC))


def test_a_record_is_left_as_it_was() -> None:
    before = WHOLE.tokens["delivered_s"].copy()
    run_metrics(WHOLE)
    assert np.array_equal(WHOLE.tokens["delivered_s"], before, equal_nan=True)


def test_tokens_whose_request_was_lost_in_a_crash_still_count() -> None:
    lost = record_of_rows(requests=[request(0)], tokens=[*tokens(0, 1.0), *tokens(7, 1.0, None)])
    metrics = run_metrics(lost)
    assert (metrics["output_tokens"], metrics["ttft_n"], metrics["itl_n"]) == (3, 1, 0)


@pytest.mark.parametrize(
    ("samples", "percent", "value"),
    [
        ([3.0], 50, 3.0),
        ([1.0, 2.0], 50, 1.5),
        ([4.0, 1.0, 2.0, 3.0], 25, 1.75),  # place 0.75 of 1 2 3 4
        ([1.0, math.nan, 3.0], 50, 2.0),
        ([], 50, None),
        ([math.nan], 95, None),
        (list(range(1, 100)), 99, None),  # 99 samples are too few
        (list(range(1, 101)), 99, 99.01),  # place 98.01 of 1 … 100
    ],
)
def test_percentiles_are_linear_between_samples(samples: list[float], percent: float, value: float | None) -> None:
    found = percentile(np.array(samples, dtype=float), percent)
    assert found == (value if value is None else pytest.approx(value))
