"""The steady window, its served requests, and queue growth: by hand, and on servers of known rate."""

import math

import numpy as np
import pytest

from engine.load.load_point import load_point
from engine.load.occupancy import Occupancy, mean_number, most_at_once, often_at_once
from engine.load.queue_growth import line_through, mean_backlog, queue_growth
from engine.load.steady_window import served_within, steady_window
from tests.support.load_server import decode_only, serve
from tests.support.runs.record_rows import record_of_rows
from tests.support.runs.records import EMPTY, request, tokens

# Two slots. Request 2 waits from 2 to 4, until request 0 has left.
FULL = record_of_rows(
    requests=[
        request(0, arrival_s=0.0, admitted_s=0.0),
        request(1, arrival_s=1.0, admitted_s=1.0),
        request(2, arrival_s=2.0, admitted_s=4.0),
    ],
    tokens=[*tokens(0, 1.0, 2.0, 3.0, 4.0), *tokens(1, 3.0, 5.0), *tokens(2, 5.0, 6.0, 7.0, 8.0)],
)


def occupancy(*rows: tuple[float, float, float], end_s: float | None = None) -> Occupancy:
    """One request per row of arrival, admission and leaving; all served."""
    arrival_s, admitted_s, left_s = (np.array(column, float) for column in zip(*rows, strict=True))
    return Occupancy(
        request_id=np.arange(len(rows)),
        arrival_s=arrival_s,
        admitted_s=admitted_s,
        left_s=left_s,
        served=np.ones(len(rows), np.bool_),
        end_s=float(left_s.max()) if end_s is None else end_s,
    )


def test_the_window_goes_from_full_slots_to_the_last_admission() -> None:
    window = steady_window(Occupancy.of(FULL))
    assert window is not None
    # Two run at once from 1 on, before one mean time in the system, (4 + 4 + 6) / 3 s, is over.
    assert (window.begin_s, window.end_s, window.coming_until_s) == (1.0, 4.0, 2.0)


def test_requests_across_an_edge_count_with_their_share_of_tokens() -> None:
    known = Occupancy.of(FULL)
    window = steady_window(known)
    assert window is not None
    served = served_within(FULL, known, window)
    assert served.tokens.tolist() == [3.0, 1.0, 0.0]  # after 1, up to 4: request 0 at 2, 3, 4, request 1 at 3
    assert served.share.tolist() == [0.75, 0.5, 0.0]
    assert served.requests_per_s() == pytest.approx(1.25 / 3)
    assert served.tokens_per_s() == pytest.approx(4 / 3)


def test_the_ramp_lasts_one_mean_time_in_the_system_if_slots_never_fill() -> None:
    # Two run at once only from 5 on; the mean time in the system is (1 + 1 + 2 + 1) / 4 = 1.25 s.
    window = steady_window(occupancy((0, 0, 1), (2, 2, 3), (4, 4, 6), (5, 5, 6)))
    assert window is not None
    assert (window.begin_s, window.end_s) == (1.25, 5.0)


def test_a_single_batch_is_all_ramp_and_tail() -> None:
    assert steady_window(occupancy((0, 0, 3), (0, 0, 4))) is None
    assert steady_window(Occupancy.of(EMPTY)) is None
    assert load_point(EMPTY).achieved_per_s is None


def test_unfinished_requests_stay_to_the_end_and_are_not_served() -> None:
    record = record_of_rows(
        requests=[
            request(0, arrival_s=0.0, admitted_s=0.0),
            request(1, arrival_s=0.0, admitted_s=4.0, state="stopped"),
            request(2, arrival_s=1.0, admitted_s=None, state="stopped"),
        ],
        tokens=[*tokens(0, 2.0, 4.0), *tokens(1, 6.0, 10.0)],
    )
    known = Occupancy.of(record)
    assert known.admitted_s.tolist() == [0.0, 4.0, 10.0]
    assert known.left_s.tolist() == [4.0, 10.0, 10.0]
    window = steady_window(known)
    assert window is not None
    assert served_within(record, known, window).share.tolist() == [1.0, 0.0, 0.0]


def test_maximum_and_mean_number() -> None:
    begin_s, end_s = np.array([0.0, 1.0, 4.0]), np.array([4.0, 5.0, 8.0])
    assert most_at_once(begin_s, end_s) == (2, 1.0)  # at 4 one ends before the next begins
    assert mean_number(begin_s, end_s, 0.0, 8.0) == pytest.approx(12 / 8)
    assert mean_number(begin_s, end_s, 2.0, 4.0) == 2.0
    assert most_at_once(np.array([]), np.array([])) == (0, 0.0)


def test_a_number_reached_for_moments_does_not_count() -> None:
    # Two run from 1 to 9, and a third only from 4 to 4.2: 0.2 of the 10 s.
    begin_s, end_s = np.array([0.0, 1.0, 4.0]), np.array([10.0, 9.0, 4.2])
    assert most_at_once(begin_s, end_s) == (3, 4.0)
    assert often_at_once(begin_s, end_s, 0.1) == (2, 1.0)
    assert often_at_once(begin_s, end_s, 0.02) == (3, 4.0)
    assert often_at_once(np.array([]), np.array([]), 0.1) == (0, 0.0)


@pytest.mark.parametrize(
    ("engine", "slots", "budget", "capacity_per_s"),
    [("serial", 1, 4, 1 / 4), ("static", 4, 5, 4 / 5), ("continuous", 4, 5, 4 / 5)],
)
def test_capacity_of_a_server_whose_rate_is_known(engine: str, slots: int, budget: int, capacity_per_s: float) -> None:
    # A batch with equal output lengths takes one pass per token; the prefill yields the first.
    point = load_point(serve(engine, slots, [budget] * 40, [0.0] * 40))
    assert point.achieved_per_s == pytest.approx(capacity_per_s, rel=1e-9)
    assert point.output_tokens_per_s == pytest.approx(capacity_per_s * budget, rel=1e-9)


@pytest.mark.parametrize(("count", "within"), [(48, 0.06), (400, 0.02)])
def test_capacity_where_answers_differ_in_length(count: int, within: float) -> None:
    budgets = np.random.default_rng(1).integers(5, 14, count)  # 9 on average: 8 s in a slot
    record = serve("continuous", 8, budgets.tolist(), [0.0] * count, decode_only)
    capacity_per_s = 8 / (budgets.mean() - 1)
    assert load_point(record).achieved_per_s == pytest.approx(capacity_per_s, rel=within)
    whole_run = count / record.tokens["delivered_s"].max()
    assert whole_run < (0.95 if count == 48 else 0.995) * capacity_per_s  # its tail makes the same server look slower


def test_the_backlog_changes_at_admissions() -> None:
    # Two slots, batches at 0, 4 and 8. At 0 four have arrived and two get slots; the fifth arrives at 5.
    known = occupancy((0, 0, 4), (0, 0, 4), (0, 4, 8), (0, 4, 8), (5, 8, 12))
    assert mean_backlog(known, np.array([0.0, 2.0, 4.0, 8.0])).tolist() == [2.0, 2.0, 0.0]
    assert mean_backlog(known, np.array([0.0, 3.0, 6.0])).tolist() == pytest.approx([2.0, 2 / 3])


def test_a_line_and_its_t_value() -> None:
    # Residuals -0.1, 0.3, -0.3, 0.1 follow each other with no positive correlation: error sqrt(0.2 / 2 / 5).
    slope, t = line_through(np.array([0.0, 1.0, 1.0, 2.0]), np.arange(4.0))
    assert (slope, t) == (pytest.approx(0.6), pytest.approx(0.6 / math.sqrt(0.02)))
    # The residuals are 5, 0, -3, -4, -3, 0, 5: correlation 24 / 84, error sqrt(84 / 5 / 28) times sqrt(9 / 5).
    bow = np.array([5.0, 0.0, -3.0, -4.0, -3.0, 0.0, 5.0])
    slope, t = line_through(np.arange(7.0) + bow, np.arange(7.0))
    assert (slope, t) == (pytest.approx(1.0), pytest.approx(1 / math.sqrt(0.6 * 1.8)))
    assert line_through(np.arange(5.0), np.arange(5.0)) == (pytest.approx(1.0), math.inf)
    assert line_through(np.zeros(5), np.arange(5.0)) == (0.0, 0.0)


@pytest.mark.parametrize(("engine", "slots"), [("static", 4), ("continuous", 4), ("continuous", 8), ("serial", 1)])
def test_the_queue_grows_above_capacity_and_not_below(engine: str, slots: int) -> None:
    budgets = np.random.default_rng(3).integers(5, 14, 64).tolist()
    capacity_per_s = load_point(serve(engine, slots, budgets, [0.0] * 64, decode_only)).achieved_per_s
    assert capacity_per_s is not None

    def grows(share: float) -> bool | None:
        arrivals_s = (np.arange(64) / (share * capacity_per_s)).tolist()
        return load_point(serve(engine, slots, budgets, arrivals_s, decode_only)).grows

    assert [grows(0.5), grows(0.9), grows(1.1), grows(2.0)] == [False, False, True, True]


def test_the_slope_is_the_surplus_of_arrivals() -> None:
    # One slot serves a request in 4 s; one arrives every 2 s: the backlog grows by 0.25 requests/s.
    growth = queue_growth(Occupancy.of(serve("serial", 1, [4] * 40, (np.arange(40) * 2.0).tolist())))
    assert growth is not None
    assert growth.slope_per_s == pytest.approx(0.25, rel=0.02)
    assert growth.rise == pytest.approx(0.25 * 78, rel=0.02)


def test_an_engine_that_never_catches_up_has_a_growing_queue_without_a_slope() -> None:
    # One slot serves a request in 4 s. A burst of twenty, then one arrival every 4 s: a steady backlog of about twenty.
    burst, steady = [0.2 * i for i in range(20)], [4.0 * i for i in range(1, 60)]
    growth = queue_growth(Occupancy.of(serve("serial", 1, [4] * 79, burst + steady)))
    assert growth is not None
    assert (growth.rises, growth.is_behind, growth.grows) == (False, True, True)
    assert growth.backlog == pytest.approx(20, abs=2)
    # The same after a burst of three is negligible for so many requests.
    burst, steady = [0.2 * i for i in range(3)], [4.0 * i for i in range(1, 77)]
    few = queue_growth(Occupancy.of(serve("serial", 1, [4] * 79, burst + steady)))
    assert few is not None
    assert (few.rises, few.is_behind, few.grows) == (False, False, False)


def test_an_engine_that_is_catching_up_has_no_growing_queue() -> None:
    # One is served in 4 s. After a burst of forty, one arrives every 5 s: fifteen are left at the last arrival.
    arrivals_s = [0.2 * i for i in range(40)] + [8.0 + 5.0 * i for i in range(100)]
    growth = queue_growth(Occupancy.of(serve("serial", 1, [4] * 140, arrivals_s)))
    assert growth is not None
    assert growth.backlog > 0.05 * 140
    assert growth.rise < -10
    assert growth.grows is False


def test_an_engine_that_is_swamped_before_its_next_admission_has_a_growing_queue() -> None:
    # All twenty arrive within the first batch's four seconds, so there is no backlog during the arrivals.
    growth = queue_growth(Occupancy.of(serve("static", 4, [4] * 20, (np.arange(20) * 0.1).tolist())))
    assert growth is not None
    assert (growth.rise, growth.is_swamped, growth.grows) == (0.0, True, True)


def test_growth_needs_enough_requests_over_time() -> None:
    assert queue_growth(Occupancy.of(serve("serial", 1, [2] * 9, (np.arange(9) * 1.0).tolist()))) is None  # too few
    assert queue_growth(Occupancy.of(serve("serial", 1, [2] * 20, [0.0] * 20))) is None  # all at once
    assert queue_growth(Occupancy.of(EMPTY)) is None
