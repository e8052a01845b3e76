"""A run under load: Little's law, goodput under limits, and the table of engines over rates, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from engine.experiments.experiment import Summary
from engine.load.findings import QUEUES, confirmation_text, queue_text, rate_text
from engine.load.goodput import Goodput, Limits
from engine.load.load_point import LoadPoint, load_point
from engine.load.load_table import LoadSample, LoadTable, SaturationPoint, load_table
from engine.load.queue_growth import QueueGrowth
from tests.support.load_server import serve
from tests.support.no_break import nb
from tests.support.runs.record_rows import record_of_rows
from tests.support.runs.records import EMPTY, request, tokens

NOTHING = load_point(EMPTY)


def growth(grows: bool) -> QueueGrowth:
    rise = 5.0 if grows else 0.0
    line = {"begin_s": 0.0, "end_s": 10.0, "slope_per_s": rise / 10, "rise": rise, "t": rise}
    return QueueGrowth(**line, backlog=rise, is_behind=False, is_swamped=False)


def sample(engine: str, rate: float | None, *, role: str = "rate", repeat: int = 0, **figures: object) -> LoadSample:
    point = replace(NOTHING, **figures) if figures else None  # type: ignore[arg-type]
    return LoadSample(
        engine=engine,
        role=role,
        rate_per_s=rate,
        repeat=repeat,
        status="completed" if point else "oom",
        run_id=None,
        point=point,
        error=None if point else "no room",
    )


def test_rates_and_queues_have_one_text_in_reports_and_on_the_page() -> None:
    shown = [rate_text("rate", 2.0), rate_text("rate", 0.12345), rate_text("saturation", None)]
    assert shown == ["2/s", "0.1235/s", "all at once"]
    assert [rate_text("below", 4.5), rate_text("above", 5.5)] == ["0.9 x capacity", "1.1 x capacity"]
    assert [QUEUES[grows] for grows in (True, False, None)] == ["grows", "does not grow", "unknown"]


def test_littles_law_of_evenly_spaced_requests() -> None:
    # One arrives per second and stays 2.5 s, with free slots: 1/s x 2.5 s = 2.5 in the system.
    rows = [request(i, arrival_s=float(i), admitted_s=float(i)) for i in range(40)]
    token_rows = [row for i in range(40) for row in tokens(i, i + 1.0, i + 2.5)]
    point = load_point(record_of_rows(requests=rows, tokens=token_rows))
    little = point.little
    assert little is not None
    # Three run at once from 2 on, and one mean time in the system is over at 2.5: 37 arrive after 2.
    assert (little.n, little.arrivals_per_s, little.mean_stay_s) == (37, 1.0, 2.5)
    assert little.mean_number == pytest.approx(2.5)
    assert little.ratio == pytest.approx(1.0)
    assert little.holds
    assert point.offered_per_s == 1.0
    assert point.achieved_per_s == pytest.approx(1.0, rel=0.02)
    assert point.waiting_mean == 0.0


def test_half_a_request_per_second_can_keep_thirteen_in_the_system() -> None:
    rows = [request(i, arrival_s=2.0 * i, admitted_s=2.0 * i) for i in range(60)]
    token_rows = [row for i in range(60) for row in tokens(i, 2.0 * i + 1, 2.0 * i + 26)]
    little = load_point(record_of_rows(requests=rows, tokens=token_rows)).little
    assert little is not None
    assert (little.arrivals_per_s, little.mean_number) == (pytest.approx(0.5), pytest.approx(13.0))


def test_the_law_fails_where_requests_pile_up() -> None:
    # One slot, 4 s per request, one arrival per second: the time in the system keeps growing.
    little = load_point(serve("serial", 1, [4] * 40, np.arange(40.0).tolist())).little
    assert little is not None
    assert not little.holds


def test_all_at_once_has_no_arrival_rate() -> None:
    point = load_point(serve("static", 4, [4] * 40, [0.0] * 40))
    assert (point.little, point.growth, point.offered_per_s) == (None, None, None)


def test_goodput_counts_requests_within_both_limits_and_each_limit() -> None:
    # TTFT 1, 3, 1, 9 s; TPOT 1, 1, 3 s and none; request 4 never finished.
    record = record_of_rows(
        requests=[request(i, admitted_s=float(i), state="stopped" if i == 4 else "finished") for i in range(5)],
        tokens=[
            *tokens(0, 1.0, 2.0),
            *tokens(1, 3.0, 4.0),
            *tokens(2, 1.0, 4.0),
            *tokens(3, 9.0),
            *tokens(4, 1.0),
        ],
    )
    point = load_point(record, Limits(ttft_s=3.0, tpot_s=1.0))
    # Request 0 and 2 run at once from 2 on, the last admission is at 4: tokens at 3 and 4 count, all of 1's.
    assert point.window is not None
    assert (point.window.begin_s, point.window.end_s) == (3.0, 4.0)
    assert point.goodput == Goodput(
        n=5, share=0.4, ttft_share=0.6, tpot_share=0.6, requests_per_s=0.5, tokens_per_s=1.0
    )
    assert load_point(record, Limits(ttft_s=0.5)).goodput == Goodput(
        n=5, share=0.0, ttft_share=0.0, tpot_share=None, requests_per_s=0.0, tokens_per_s=0.0
    )
    assert load_point(record).goodput is None


@pytest.mark.parametrize("limit_s", [0.0, -1.0, float("nan"), float("inf")])
def test_invalid_limits_are_refused(limit_s: float) -> None:
    with pytest.raises(ValueError, match="ttft-limit-s .*: use seconds above 0"):
        Limits(ttft_s=limit_s)


def test_too_few_requests_do_not_show_that_a_queue_does_not_grow() -> None:
    few = replace(NOTHING, requests=12, most_running=4, growth=growth(False))
    assert few.grows is None
    assert queue_text("static", few) == (
        "static: 12 requests are too few to tell whether the queue grows; use at least 6 times as many as run at once."
    )
    enough = replace(few, requests=24, offered_per_s=2.0, achieved_per_s=1.0)
    assert enough.grows is False
    assert queue_text("static", enough) == nb(
        "static: queue does not grow, the backlog stayed the same from 0 s to 10.0 s."
    )
    assert replace(few, growth=growth(True)).grows is True


def test_an_engine_that_achieves_less_than_half_of_the_offered_rate_has_no_steady_queue() -> None:
    behind = replace(NOTHING, requests=40, most_running=4, growth=growth(False), offered_per_s=5.1, achieved_per_s=1.9)
    assert behind.grows is None
    assert queue_text("static", behind) == nb(
        "static: unclear whether the queue grows, since 1.90 of 5.10 requests/s were achieved."
    )


def test_percentiles_have_a_count_and_start_at_the_intended_arrival() -> None:
    record = record_of_rows(
        requests=[request(i, arrival_s=float(i), admitted_s=i + 0.5 * i) for i in range(4)],
        tokens=[row for i in range(4) for row in tokens(i, i + 1.0 * i)],
    )
    point = load_point(record)
    assert (point.queue_wait_p50_s, point.queue_wait_n) == (0.75, 4)  # of 0, 0.5, 1, 1.5
    assert (point.ttft_p50_s, point.ttft_n) == (1.5, 4)  # of 0, 1, 2, 3
    assert point.ttft_p95_s == pytest.approx(2.85)  # 0.95 of the way from the first to the fourth


def known_table() -> LoadTable:
    """Static keeps up at rate 1 (capacity 1.5), continuous up to 2 (capacity 2.4)."""
    waits_s = {("static", 1.0): 0.5, ("static", 2.0): 10.0, ("continuous", 1.0): 0.02, ("continuous", 2.0): 0.1}
    samples = [
        sample(engine, rate, queue_wait_p50_s=wait_s, growth=growth(engine == "static" and rate == 2.0))
        for (engine, rate), wait_s in waits_s.items()
    ]
    for engine, rates in (("static", (1.4, 1.5, 1.8)), ("continuous", (2.4, 2.2, 2.6))):
        samples += [
            sample(engine, None, role="saturation", repeat=i, achieved_per_s=rate, output_tokens_per_s=100 * rate)
            for i, rate in enumerate(rates)
        ]
    samples += [
        sample("static", 1.35, role="below", growth=growth(False)),
        sample("static", 1.65, role="above", growth=growth(True)),
        sample("continuous", 2.16, role="below", growth=growth(False)),
    ]
    return load_table(["static", "continuous"], samples)


def test_capacity_is_a_median_over_repeats_with_a_ratio_to_the_first_engine() -> None:
    table = known_table()
    static, continuous = table.capacity("static"), table.capacity("continuous")
    assert static is not None
    assert continuous is not None
    assert static.requests_per_s == Summary(median=1.5, low=1.4, high=1.8, n=3)
    assert static.tokens_per_s == 150.0
    assert table.capacity_ratio("continuous") == pytest.approx(1.6)
    assert table.capacity_ratio("static") == 1.0
    assert static.is_confirmed is True
    assert continuous.is_confirmed is None  # the run above it is missing


def test_capacity_is_refuted_if_the_queue_contradicts_it() -> None:
    saturated = sample("static", None, role="saturation", achieved_per_s=2.0, output_tokens_per_s=20.0)
    for below, above in ((True, True), (False, False), (True, False)):
        around = [
            sample("static", 1.8, role="below", growth=growth(below), achieved_per_s=1.7),
            sample("static", 2.2, role="above", growth=growth(above)),
        ]
        capacity = load_table(["static"], [saturated, *around]).capacity("static")
        assert capacity is not None
        assert capacity.is_confirmed is False
        text = confirmation_text(capacity)
        assert (nb("already grows at 0.9 times the capacity, where 1.70 requests/s were served") in text) is below
        assert ("does not grow at 1.1 times the capacity" in text) is not above


@pytest.mark.parametrize(
    ("requests", "grows_above", "expected"), [(128, False, True), (192, False, False), (128, True, True)]
)
def test_too_few_requests_to_confirm_a_capacity_are_named(requests: int, grows_above: bool, expected: bool) -> None:
    figures = {"achieved_per_s": 2.0, "output_tokens_per_s": 20.0, "requests": requests, "most_running": 32}
    rows = [
        sample("static", None, role="saturation", **figures),
        sample("static", 1.8, role="below", growth=growth(grows_above)),
        sample("static", 2.2, role="above", growth=growth(grows_above)),
    ]
    capacity = load_table(["static"], rows).capacity("static")
    assert capacity is not None
    text = "128 requests are too few for an engine that ran 32 at once: use at least 6 times as many requests as slots."
    assert (text in confirmation_text(capacity)) is expected


def test_a_machine_that_was_not_equally_fast_is_named() -> None:
    saturated = sample(
        "static", None, role="saturation", achieved_per_s=2.0, output_tokens_per_s=20.0, decode_pass_p50_s=0.05
    )
    for pass_s, expected in ((0.055, False), (0.08, True), (0.03, True)):
        around = [
            sample("static", 1.8, role="below", growth=growth(True), decode_pass_p50_s=pass_s),
            sample("static", 2.2, role="above", growth=growth(True), decode_pass_p50_s=0.05),
        ]
        capacity = load_table(["static"], [saturated, *around]).capacity("static")
        assert capacity is not None
        assert ("The machine was not equally fast" in confirmation_text(capacity)) is expected
        faster = nb("took 50.0 ms with all requests at once and 30.0 ms in these runs (1.67 times as fast)")
        slower = nb("took 50.0 ms with all requests at once and 80.0 ms in these runs (1.60 times as long)")
        text = confirmation_text(capacity)
        assert (faster in text, slower in text) == (pass_s == 0.03, pass_s == 0.08)


def test_the_saturation_point_is_between_the_last_steady_and_the_first_growing_rate() -> None:
    table = known_table()
    assert table.saturation_point("static") == SaturationPoint(
        engine="static", held_per_s=1.0, lost_per_s=2.0, held_wait_s=0.5, lost_wait_s=10.0
    )
    found = table.saturation_point("static")
    assert found is not None
    assert found.wait_ratio == 20.0
    none = table.saturation_point("continuous")
    assert none is not None
    assert (none.held_per_s, none.lost_per_s, none.wait_ratio) == (2.0, None, None)
    grew = load_table(["static"], [sample("static", 3.0, growth=growth(True), queue_wait_p50_s=7.0)]).saturation_point(
        "static"
    )
    assert grew is not None
    assert (grew.held_per_s, grew.lost_per_s, grew.lost_wait_s) == (None, 3.0, 7.0)


def test_over_repeats_the_majority_decides() -> None:
    repeats = [sample("static", 1.0, repeat=i, growth=growth(grew)) for i, grew in enumerate((True, False, True))]
    assert load_table(["static"], repeats).rows[0].grows is True
    assert load_table(["static"], repeats[:2]).rows[0].grows is False


def test_a_table_of_failures_has_errors_and_no_numbers() -> None:
    table = load_table(["static"], [sample("static", 1.0), sample("static", None, role="saturation")])
    rows = [(row.status, row.error, row.grows, row.middle) for row in table.rows]
    assert rows == [("oom", "no room", None, None)] * 2
    assert (table.capacity("static"), table.saturation_point("static"), table.capacity_ratio("static")) == (
        None,
        None,
        None,
    )
    assert load_table([], []).rows == ()


def test_rows_are_sorted_by_engine_and_rate_then_role() -> None:
    order = [(row.engine, row.role, row.rate_per_s) for row in known_table().rows]
    assert order[:5] == [
        ("static", "rate", 1.0),
        ("static", "rate", 2.0),
        ("static", "saturation", None),
        ("static", "below", 1.35),
        ("static", "above", 1.65),
    ]


def test_the_median_repeat_is_drawn() -> None:
    repeats = [sample("static", 1.0, repeat=i, achieved_per_s=rate) for i, rate in enumerate((0.9, 1.1, 1.0))]
    middle: LoadPoint | None = load_table(["static"], repeats).rows[0].middle
    assert middle is not None
    assert middle.achieved_per_s == 1.0
