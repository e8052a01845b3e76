"""Each definition of a latency, calculated by hand for completed runs and a stopped one."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from engine.core.record import RunRecord
from engine.metrics.definitions import CHOICES, Definitions
from engine.metrics.distribution import STATISTICS, Distribution, percentile
from engine.metrics.latency import LATENCIES, latencies, latency_metrics
from engine.metrics.metrics import RUN_METRICS, run_metrics
from tests.support.runs.record_rows import record_of_rows
from tests.support.runs.records import CONTINUOUS, CUT_OFF, EMPTY, STATIC, WHOLE, request, tokens

INF = math.inf
ADMISSION = Definitions(ttft="admission")
MEAN = Definitions(itl="mean")
WITH_FIRST = Definitions(tpot="with-first")
NEAREST = Definitions(percentile="nearest")
INFINITE = Definitions(failures="infinite")


def column(record: RunRecord, name: str, definitions: Definitions) -> list[float | None]:
    """A column of the requests' latencies, None for NaN."""
    values = latencies(record, definitions).requests[name].tolist()
    return [None if math.isnan(value) else value for value in values]


def counted_metrics(record: RunRecord, definitions: Definitions = Definitions()) -> dict[str, Any]:  # noqa: B008 - frozen
    return latency_metrics(latencies(record, definitions).distributions(), definitions)


@pytest.mark.parametrize("record", [STATIC, WHOLE, CONTINUOUS, CUT_OFF, EMPTY])
def test_the_labs_own_definitions_give_the_metrics_of_the_run(record: RunRecord) -> None:
    metrics = run_metrics(record)
    counted = counted_metrics(record)
    latencies = [
        metric.name for metric in RUN_METRICS if metric.name.endswith(("_p50_s", "_p95_s", "_p99_s", "_max_s"))
    ]
    assert set(counted) >= {name for name in latencies if "pass" not in name}
    assert counted == {name: metrics[name] for name in counted}


def test_ttft_from_admission_leaves_the_queue_out() -> None:
    # First deliveries at 2, 2, 4; admitted at 1, 1, 3.5. Request 3 never got a slot.
    assert column(CONTINUOUS, "ttft_s", Definitions()) == [2.0, 1.0, 1.0, None]
    assert column(CONTINUOUS, "ttft_s", ADMISSION) == [1.0, 1.0, 0.5, None]
    metrics = counted_metrics(CONTINUOUS, ADMISSION)
    assert (metrics["ttft_p50_s"], metrics["ttft_max_s"], metrics["ttft_n"]) == (1.0, 1.0, 3)
    assert metrics["ttft_p95_s"] == pytest.approx(1.0)  # of 0.5, 1, 1


def test_itl_can_be_the_mean_of_each_request() -> None:
    # Gaps 1 and 2 of request 0, 2 of request 2; request 1 has a single token.
    assert latencies(CONTINUOUS).samples("itl").tolist() == [1.0, 2.0, 2.0]
    assert latencies(CONTINUOUS, MEAN).samples("itl").tolist() == [1.5, 2.0]
    metrics = counted_metrics(CONTINUOUS, MEAN)
    assert (metrics["itl_p50_s"], metrics["itl_max_s"], metrics["itl_n"]) == (1.75, 2.0, 2)
    assert metrics["itl_p95_s"] == pytest.approx(1.975)  # 1.5 + 0.95 x 0.5


def test_tpot_with_the_first_token_spreads_the_whole_wait_over_all_tokens() -> None:
    # Request 0: 5 s for 3 tokens; 1: 1 s for its only token; 2 was cut off, 3 got none.
    assert column(CONTINUOUS, "tpot_s", Definitions()) == [1.5, None, None, None]
    assert column(CONTINUOUS, "tpot_s", WITH_FIRST) == [pytest.approx(5 / 3), 1.0, None, None]
    # A batch returned whole at 3.25 s has no pace, but it took its time: two tokens, three tokens.
    assert column(WHOLE, "tpot_s", Definitions()) == [None, None]
    assert column(WHOLE, "tpot_s", WITH_FIRST) == [1.625, pytest.approx(3.25 / 3)]


def test_tpot_with_the_first_token_counts_from_arrival_whatever_ttft_does() -> None:
    both = Definitions(ttft="admission", tpot="with-first")
    assert column(CONTINUOUS, "tpot_s", both) == column(CONTINUOUS, "tpot_s", WITH_FIRST)


def test_percentiles_by_nearest_rank_are_samples() -> None:
    # E2E of 1 and 5: the median is the first of two, the 95th percentile the second.
    linear, nearest = counted_metrics(CONTINUOUS), counted_metrics(CONTINUOUS, NEAREST)
    assert (linear["e2e_p50_s"], linear["e2e_p95_s"]) == (3.0, pytest.approx(4.8))
    assert (nearest["e2e_p50_s"], nearest["e2e_p95_s"], nearest["e2e_max_s"]) == (1.0, 5.0, 5.0)


@pytest.mark.parametrize(
    ("n", "percent", "value"),
    [(1, 50, 1), (2, 50, 1), (3, 50, 2), (4, 50, 2), (7, 100, 7),
     (19, 95, 19), (20, 95, 19), (21, 95, 20), (40, 95, 38),
     (99, 99, None), (100, 99, 99), (101, 99, 100)],
)  # fmt: skip
def test_the_nearest_rank_is_the_least_that_a_share_of_all_do_not_exceed(n: int, percent: int, value: Any) -> None:
    samples = np.arange(n, 0, -1, dtype=float)  # n … 1, so that a value is its own rank
    assert percentile(samples, percent, "nearest") == value
    assert Distribution.of(samples).percentile(percent, "nearest") == value


def test_failures_counted_as_infinite_are_what_a_request_never_got() -> None:
    # 0 and 1 finished. 2 was cut off after its slot (0.5 s) and its first token (1 s); 3 never left the queue.
    assert column(CONTINUOUS, "queue_wait_s", INFINITE) == [1.0, 0.0, 0.5, INF]
    assert column(CONTINUOUS, "ttft_s", INFINITE) == [2.0, 1.0, 1.0, INF]
    assert column(CONTINUOUS, "tpot_s", INFINITE) == [1.5, None, INF, INF]
    assert column(CONTINUOUS, "e2e_s", INFINITE) == [5.0, 1.0, INF, INF]
    assert column(CONTINUOUS, "itl_s", INFINITE) == [1.5, None, INF, INF]
    # Every measured gap, and one that never ended for each of the two.
    assert latencies(CONTINUOUS, INFINITE).samples("itl").tolist() == [1.0, 2.0, 2.0, INF, INF]


def test_percentiles_that_fall_on_an_infinite_wait_have_no_bound() -> None:
    metrics = counted_metrics(CONTINUOUS, INFINITE)
    # ttft of 1, 1, 2, ∞: the median lies between 1 and 2, the 95th between 2 and ∞.
    assert (metrics["ttft_p50_s"], metrics["ttft_p95_s"], metrics["ttft_max_s"], metrics["ttft_n"]) == (
        1.5,
        INF,
        INF,
        4,
    )
    # e2e of 1, 5, ∞, ∞: already the median lies between 5 and ∞, by nearest rank it is the second sample.
    assert metrics["e2e_p50_s"] == INF
    nearest = counted_metrics(CONTINUOUS, Definitions(failures="infinite", percentile="nearest"))
    assert (nearest["e2e_p50_s"], nearest["e2e_p95_s"]) == (5.0, INF)
    # gaps of 1, 2, 2, ∞, ∞: the third is the median.
    assert (metrics["itl_p50_s"], metrics["itl_p95_s"], metrics["itl_n"]) == (2.0, INF, 5)


def test_a_median_that_is_a_sample_is_not_drawn_into_the_infinite_one_beside_it() -> None:
    assert percentile(np.array([1.0, 2.0, INF]), 50) == 2.0
    assert percentile(np.array([1.0, INF, INF]), 50) == INF
    assert percentile(np.array([INF, INF]), 50) == INF


def test_answers_returned_whole_have_no_gap_that_could_be_infinite() -> None:
    # CUT_OFF: request 0 was returned at 1 s with its 10 tokens, request 1 was stopped before its batch's end.
    assert latencies(CUT_OFF, INFINITE).samples("itl").tolist() == []
    assert column(CUT_OFF, "tpot_s", INFINITE) == [None, None]
    assert column(CUT_OFF, "tpot_s", Definitions(failures="infinite", tpot="with-first")) == [0.1, INF]
    assert column(CUT_OFF, "e2e_s", INFINITE) == [1.0, INF]
    assert column(CUT_OFF, "ttft_s", INFINITE) == [1.0, INF]


def test_a_run_whose_requests_all_finished_has_no_failure_to_count() -> None:
    assert counted_metrics(STATIC, INFINITE) == counted_metrics(STATIC)


def test_a_run_that_failed_before_its_first_token_waits_for_ever() -> None:
    record = record_of_rows(requests=[request(0, state="stopped", admitted_s=None), request(1, state="waiting")])
    metrics = counted_metrics(record, INFINITE)
    assert metrics["queue_wait_n"] == 2
    assert metrics["ttft_p50_s"] == metrics["e2e_p50_s"] == metrics["itl_p50_s"] == metrics["tpot_p50_s"] == INF
    assert counted_metrics(record)["e2e_p50_s"] is None


def test_rows_may_come_in_any_order() -> None:
    shuffled = RunRecord(
        requests={name: values[[2, 0, 3, 1]] for name, values in CONTINUOUS.requests.items()},
        passes=CONTINUOUS.passes,
        tokens={name: values[[5, 2, 3, 0, 4, 1]] for name, values in CONTINUOUS.tokens.items()},
    )
    for definitions in (Definitions(), MEAN, INFINITE):
        assert counted_metrics(shuffled, definitions) == counted_metrics(CONTINUOUS, definitions)


def test_gaps_of_a_request_that_the_log_lost_count_as_gaps_and_for_no_request() -> None:
    lost = record_of_rows(
        requests=[request(1)], tokens=[*tokens(0, 1.0, 3.0), *tokens(1, 1.0, 2.0), *tokens(9, 1.0, 5.0)]
    )
    assert latencies(lost).samples("itl").tolist() == [2.0, 1.0, 4.0]
    assert latencies(lost, MEAN).samples("itl").tolist() == [1.0]


def test_few_points_stand_for_many_and_the_extremes_and_percentiles_are_exact() -> None:
    samples = np.random.default_rng(5).lognormal(size=50_001)
    kept = Distribution.of(samples, max_points=100)
    assert len(kept.value_s) <= 100 + 4 * 3
    assert (kept.value_s[0], kept.value_s[-1]) == (samples.min(), samples.max())
    assert np.array_equal(kept.value_s, np.sort(samples)[kept.ranks - 1])
    for percent in (50, 95, 99, 100):
        assert kept.percentile(percent) == pytest.approx(np.percentile(samples, percent), rel=1e-12)
        assert kept.percentile(percent, "nearest") == np.percentile(samples, percent, method="inverted_cdf")


def test_distributions_carry_what_the_samples_say() -> None:
    for definitions in (Definitions(), ADMISSION, MEAN, WITH_FIRST, NEAREST, INFINITE):
        found, metrics = latencies(CONTINUOUS, definitions), counted_metrics(CONTINUOUS, definitions)
        for latency, statistic in product(LATENCIES, STATISTICS):
            expected = percentile(found.samples(latency.key), statistic.percent, definitions.percentile)
            assert metrics[f"{latency.key}_{statistic.key}_s"] == expected
    e2e = latencies(CONTINUOUS, INFINITE).distributions()["e2e"]
    assert (e2e.n, e2e.num_unbounded, e2e.value_s.tolist()) == (4, 2, [1.0, 5.0])


def test_an_address_names_the_options_and_what_it_does_not_know_is_the_labs_own() -> None:
    names = {"ttft": "admission", "itl": "nonsense", "failures": "infinite", "run_id": "r1"}
    found = Definitions.from_names(names)
    assert found == Definitions(ttft="admission", failures="infinite")
    assert found.changed() == {"ttft": "admission", "failures": "infinite"}
    assert Definitions.from_names({}) == Definitions()


def test_the_first_option_of_every_choice_is_the_labs_own() -> None:
    assert {choice.name: choice.options[0].name for choice in CHOICES} == Definitions().names()
    for choice in CHOICES:
        for option in choice.options:
            assert Definitions.from_names({choice.name: option.name}).names()[choice.name] == option.name
