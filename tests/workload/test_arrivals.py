"""Arrival laws: their rates, their spread, and what is refused."""

import numpy as np
import pytest

from engine.workload.arrivals import ClosedArrival, offered_rate, parse_arrival, rate_deviation, rate_text, rescaled
from tests.support.no_break import nb


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def gaps_s(text: str, count: int = 20_000) -> np.ndarray:
    """The gaps of `count` arrivals, the one before the first included."""
    return np.diff(parse_arrival(text).times_s(count, generator()), prepend=0.0)


def test_closed_arrivals_are_all_there_at_the_start() -> None:
    assert parse_arrival("closed") == ClosedArrival()
    assert parse_arrival("closed").times_s(3, generator()).tolist() == [0.0, 0.0, 0.0]


def test_constant_arrivals_start_at_zero_and_keep_their_distance() -> None:
    assert parse_arrival("constant:4").times_s(4, generator()).tolist() == [0.0, 0.25, 0.5, 0.75]


def test_poisson_gaps_have_the_asked_mean_and_a_variation_of_one() -> None:
    gaps = gaps_s("poisson:2.5")
    # The mean of 20,000 exponential gaps of 0.4 s has a standard error of 0.4 / sqrt(20,000) = 0.0028.
    assert gaps.mean() == pytest.approx(0.4, abs=0.0085)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.03)


def test_poisson_gaps_are_not_clamped() -> None:
    # Of 20,000 gaps e^-5 = 0.67 %, some 135, are over five times the mean; cut-off gaps would raise the rate.
    gaps = gaps_s("poisson:1")
    assert 90 <= (gaps > 5).sum() <= 190


@pytest.mark.parametrize("cv", [0.5, 1.0, 3.0])
def test_gamma_gaps_have_the_asked_mean_and_variation(cv: float) -> None:
    gaps = gaps_s(f"gamma:2:{cv}")
    # Standard error of the mean: cv * 0.5 / sqrt(20,000); three of them.
    assert gaps.mean() == pytest.approx(0.5, abs=3 * cv * 0.5 / 20_000**0.5)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.08)


@pytest.mark.parametrize("text", ["poisson:2", "gamma:2:3"])
def test_the_first_gap_is_drawn_like_any_other(text: str) -> None:
    arrival = parse_arrival(text)
    first = np.array([arrival.times_s(1, generator(seed))[0] for seed in range(2000)])
    assert (first > 0).all()
    assert first.mean() == pytest.approx(0.5, rel=0.15)  # bursty gaps: standard error 3.4 % for cv 3 … 6.7 %


@pytest.mark.parametrize("text", ["closed", "poisson:2", "constant:2", "gamma:2:3"])
def test_times_never_fall_and_may_be_none_at_all(text: str) -> None:
    arrival = parse_arrival(text)
    assert arrival.times_s(0, generator()).tolist() == []
    assert (np.diff(arrival.times_s(500, generator())) >= 0).all()


def test_the_offered_rate_counts_gaps_over_their_time() -> None:
    # Four arrivals within 3 s: three gaps, one a second.
    assert offered_rate(np.array([1.0, 1.5, 2.0, 4.0])) == 1.0
    assert offered_rate(np.array([4.0, 1.0])) == pytest.approx(1 / 3)


@pytest.mark.parametrize("times_s", [[], [3.0], [2.0, 2.0]])
def test_there_is_no_offered_rate_without_a_gap(times_s: list[float]) -> None:
    assert offered_rate(np.array(times_s)) is None


@pytest.mark.parametrize(
    "text", ["", "open", "closed:1", "poisson", "constant", "gamma:1", "poisson:1:2", "gamma:1:2:3"]
)
def test_an_unknown_form_says_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match=r"use closed, poisson:R, constant:R or gamma:R:CV"):
        parse_arrival(text)


@pytest.mark.parametrize("rate", ["", "x", "0", "-1", "nan", "inf", "1e-9", "1e9"])
@pytest.mark.parametrize("form", ["poisson:{}", "constant:{}", "gamma:{}:2"])
def test_a_bad_rate_is_refused(form: str, rate: str) -> None:
    with pytest.raises(ValueError, match="use a rate of 0.000001 to 1,000,000.requests/s"):
        parse_arrival(form.format(rate))


@pytest.mark.parametrize("cv", ["", "x", "0", "-1", "nan", "inf", "1000"])
def test_a_bad_variation_is_refused(cv: str) -> None:
    with pytest.raises(ValueError, match=r"use a coefficient of variation of 0\.01 to 100"):
        parse_arrival(f"gamma:1:{cv}")


def test_rescaled_times_have_exactly_the_requested_rate() -> None:
    times_s = np.array([1.0, 2.0, 4.0, 7.0])  # three gaps in 6 s: 0.5 requests/s
    assert offered_rate(times_s) == 0.5
    assert rescaled(times_s, 2.0).tolist() == [0.25, 0.5, 1.0, 1.75]
    assert offered_rate(rescaled(times_s, 2.0)) == 2.0


def test_nothing_is_rescaled_without_a_rate() -> None:
    for times_s, rate in ((np.zeros(3), 2.0), (np.array([3.0]), 2.0), (np.array([1.0, 2.0]), None)):
        assert rescaled(times_s, rate).tolist() == times_s.tolist()


def test_the_drawn_rate_is_told_beside_the_requested_one() -> None:
    assert rate_text(2.0, [0.0, 0.25, 0.5]) == nb("2 requests/s requested, 4.00 requests/s drawn (+100 %)")
    assert rate_text(4.0, [0.0, 0.25, 0.5]) == nb("4 requests/s requested, 4.00 requests/s drawn (0 %)")
    assert rate_text(None, [0.0, 0.0]) == rate_text(2.0, [0.5]) == ""
    assert rate_deviation(2.0, 3.0) == 0.5
    assert rate_deviation(None, 3.0) is rate_deviation(2.0, None) is None
