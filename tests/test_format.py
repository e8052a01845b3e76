"""Numbers and foreign text as the pages write them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pages.parts.badges import badge_text, badges_of, status_badge
from pages.parts.format import code, count, number, plain, plural, rate, ratio, seconds, share, size


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (number(0.052149), "0.0521"),
        (number(1), "1.00"),
        (number(9.996), "10.0"),
        (number(99.96), "100"),
        (number(5214.9), "5,210"),
        (number(0), "0"),
        (number(-0.5), "-0.500"),
        (number(float("inf")), "∞"),
        (seconds(0), "0 s"),
        (seconds(0.0005), "500 µs"),
        (seconds(0.0521), "52.1 ms"),
        (seconds(0.99996), "1.00 s"),
        (seconds(75.53), "75.5 s"),
        (rate(312.4), "312 tok/s"),
        (rate(0.94, "req"), "0.940 req/s"),
        (share(0.4375), "43.8 %"),
        (share(0), "0 %"),
        (ratio(1.9231), "1.92x"),
        (size(512), "512 B"),
        (size(2.88 * 2**30), "2.88 GiB"),
        (size(3 * 2**40), "3.00 TiB"),
        (count(4096), "4,096"),
        (plural(1, "request"), "1 request"),
        (plural(2, "batch", "batches"), "2 batches"),
        (plural(0, "token"), "0 tokens"),
    ],
)
def test_written(written: str, expected: str) -> None:
    assert written == expected


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, pd.NA, pd.NaT])
def test_what_was_not_measured_is_a_dash_and_never_a_zero(missing: float | None) -> None:
    assert {write(missing) for write in (number, count, seconds, rate, share, ratio, size)} == {"–"}


def test_foreign_text_stays_what_it_is() -> None:
    assert plain("# a *b*\n$x$ <b> `c` :red[d]") == r"\# a \*b\* \$x\$ \<b\> \`c\` \:red\[d\]"


def test_a_command_stands_as_it_is_typed() -> None:
    assert code("run --model tiny-random") == "`run --model tiny-random`"
    assert code("run `x` [a](b)\nand more") == "`run x [a](b) and more`"


def test_badges_come_from_a_runs_columns() -> None:
    run = {"status": "completed", "random_weights": np.True_, "simulated": pd.NA, "watched": None}
    assert [badge.label for badge in badges_of(run)] == ["completed", "random weights"]
    assert badge_text({"status": "oom", "watched": 1, "simulated": True}) == "out of memory, simulated, watched live"
    assert badges_of({"status": "running"}, with_status=False) == []
    assert status_badge("odd").label == "odd"
