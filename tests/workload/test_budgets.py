"""Budget laws: exact counts, both ends included, and what is refused."""

from collections import Counter

import numpy as np
import pytest

from engine.workload.budgets import CountedBudget, EosBudget, RangeBudget, parse_budget


def draw(text: str, count: int, seed: int = 0) -> list[int]:
    budgets: list[int] = parse_budget(text).draw(count, np.random.default_rng(seed)).tolist()
    return budgets


def test_one_number_is_everyones_budget() -> None:
    assert parse_budget("64") == RangeBudget(low=64, high=64)
    assert draw("64", 3) == [64, 64, 64]


def test_a_range_holds_both_of_its_ends_equally_often() -> None:
    counts = Counter(draw("8-11", 8000))
    assert sorted(counts) == [8, 9, 10, 11]
    # 2,000 expected of each, with a standard deviation of sqrt(8,000 * 1/4 * 3/4) = 39.
    assert all(abs(n - 2000) < 160 for n in counts.values())


def test_counted_budgets_are_counted_exactly_and_shuffled() -> None:
    assert parse_budget("8x32+8x256") == CountedBudget(groups=((8, 32), (8, 256)))
    budgets = draw("8x32+8x256", 16)
    assert Counter(budgets) == {32: 8, 256: 8}
    assert budgets != sorted(budgets)
    assert budgets != draw("8x32+8x256", 16, seed=1)


def test_counted_budgets_must_count_every_request() -> None:
    line = "^budget '8x32\\+8x256' counts 16 requests, the workload has 15: make them equal$"
    with pytest.raises(ValueError, match=line):
        draw("8x32+8x256", 15)


@pytest.mark.parametrize(("text", "cap"), [("eos", 256), ("eos:200", 200)])
def test_eos_lets_the_model_end_under_a_cap(text: str, cap: int) -> None:
    assert parse_budget(text) == EosBudget(cap=cap)
    assert not parse_budget(text).ignore_eos
    assert draw(text, 2) == [cap, cap]


@pytest.mark.parametrize("text", ["64", "64-256", "8x32"])
def test_a_numeric_budget_ignores_the_end_of_sequence(text: str) -> None:
    assert parse_budget(text).ignore_eos


@pytest.mark.parametrize("text", ["64", "64-256", "eos"])
def test_no_requests_need_no_budgets(text: str) -> None:
    assert draw(text, 0) == []


def test_spaces_do_not_matter() -> None:
    assert parse_budget(" 8x32 + 8x256 ") == parse_budget("8x32+8x256")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "use 64, 64-256, 8x32+8x256, eos or eos:200"),
        ("many", "use 64, 64-256"),
        ("-3", "use 64, 64-256"),
        ("1.5", "use 64, 64-256"),
        ("8x32+", "use 64, 64-256"),
        ("8x32+64", "use 64, 64-256"),
        ("eos:", "use 64, 64-256"),
        ("eos:x", "use 64, 64-256"),
        ("٣", "use 64, 64-256"),
        ("0", "use 1 to 131,072 tokens"),
        ("0-5", "use 1 to 131,072 tokens"),
        ("131073", "use 1 to 131,072 tokens"),
        ("9999999999999", "use 1 to 131,072 tokens"),
        ("eos:0", "use 1 to 131,072 tokens"),
        ("8x0", "use 1 to 131,072 tokens"),
        ("0x8", "a group needs at least 1 request"),
        ("256-64", "the range runs backward; use 64-256"),
    ],
)
def test_a_bad_budget_is_refused_in_one_clear_line(text: str, line: str) -> None:
    with pytest.raises(ValueError, match=f"^budget {text!r}: {line}".replace("+", r"\+")):
        parse_budget(text)
