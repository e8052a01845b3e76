"""Captions: one sentence each, with numbers from the data. No sentence assumes which run is faster."""

from __future__ import annotations

import pandas as pd
import pytest

from pages.figures.latency.cdf import latency_caption
from pages.figures.sample import sample_run
from pages.figures.timeline.passes import pass_kinds_caption
from pages.figures.timeline.timeline import timeline_caption, timelines_caption
from pages.figures.waste.waste import waste_caption
from tests.support.no_break import nb

STATIC, CONTINUOUS = sample_run("static"), sample_run("continuous")


def samples(**series: list[float]) -> pd.DataFrame:
    return pd.concat([pd.DataFrame({"series": name, "value_s": values}) for name, values in series.items()])


def test_a_timeline_gives_its_dead_and_empty_share() -> None:
    # 4 lanes x 90 steps; dead 24 + 32 + 13 + 39 + 12 + 31 = 151 of 360
    assert timeline_caption(STATIC.spans) == (
        nb(
            "8 requests ran in 4 lanes for 90 steps (4.02 s): 41.9 % of lane-steps (lanes x steps) dead, their request "
            "already finished, none empty."
        )
    )
    # 4 x 62 = 248, with a request 62 + 43 + 58 + 46 = 209
    continuous = timeline_caption(CONTINUOUS.spans)
    assert nb("no dead lane-steps, 15.7 % empty") in continuous
    assert "of lane time (lanes x seconds) dead" in timeline_caption(STATIC.spans, unit="second")


def test_one_request_of_one_token() -> None:
    text = timeline_caption(sample_run("static", budgets=(1,), slots=1).spans)
    assert text.startswith("1 request ran in 1 lane for 1 step (")
    assert "no dead lane-steps" in text


def test_compared_timelines_give_each_ratio_to_the_first() -> None:
    text = timelines_caption({"static": STATIC.spans, "continuous": CONTINUOUS.spans})
    assert text == (
        nb(
            "Total length: static 90 steps, continuous 62 steps (0.689x); dead share of lane-steps (lanes x steps): "
            "static 41.9 %, continuous none."
        )
    )
    swapped = timelines_caption({"static": CONTINUOUS.spans, "continuous": STATIC.spans})
    assert swapped.startswith("Total length: static 62 steps, continuous 90 steps (1.45x)")


def test_equal_runs_are_called_equal() -> None:
    assert "a 90 steps, b 90 steps (the same)" in timelines_caption({"a": STATIC.spans, "b": STATIC.spans})
    assert latency_caption(samples(a=[0.2, 0.4], b=[0.4, 0.2]), "queue wait") == (
        nb("Queue wait: median a 300 ms, b 300 ms (the same); largest a 400 ms, b 400 ms (the same).")
    )
    assert nb("(within 0.5 %)") in latency_caption(samples(a=[1.0], b=[1.001]), "queue wait")


def test_latency_of_one_run() -> None:
    assert latency_caption(samples(a=[0.1, 0.2, 0.3, 0.4, 0.5]), "gap between tokens", counted="gaps") == (
        nb("Gap between tokens: median 300 ms, largest 500 ms over 5 gaps.")
    )
    twenty = [0.1 * place for place in range(1, 21)]  # from 20 samples on, the p95: 1.9 + 0.05 x 0.1
    assert latency_caption(samples(a=twenty), "gap between tokens", counted="gaps") == (
        nb("Gap between tokens: median 1.05 s, p95 1.91 s over 20 gaps.")
    )
    assert latency_caption(samples(a=[0.1]), "queue wait") == nb("Queue wait: 100 ms, a single sample.")
    assert latency_caption(samples(a=[0.0, 0.0]), "queue wait") == nb("Queue wait: 0 s for all 2 requests.")
    assert latency_caption(samples(a=[float("nan")]), "queue wait") == "No sample of the queue wait yet."


def test_latency_compared_with_zero_has_no_ratio() -> None:
    text = latency_caption(samples(static=[0.0, 1.0], continuous=[0.0, 0.0]), "queue wait")
    assert text.startswith(nb("Queue wait: median static 500 ms, continuous 0 s; "))


def test_passes_give_the_prefill_share_and_the_decode_pass() -> None:
    kinds = pd.DataFrame(
        {
            "kind": ["prefill", "decode"],
            "passes": [1, 2],
            "seconds": [0.2, 0.3],
            "median_s": [0.2, 0.15],
            "longest_s": [0.2, 0.2],
        }
    )
    assert pass_kinds_caption(kinds) == (
        nb(
            "3 forward passes took 500 ms, 40.0 % in 1 prefill pass; decode passes took 150 ms (median) and at most "
            "200 ms."
        )
    )
    assert pass_kinds_caption(kinds.head(1)).endswith("; no decode pass ran.")


def test_waste_of_positions_and_memory() -> None:
    text = waste_caption(pd.concat([STATIC.totals.assign(series="static"), CONTINUOUS.totals.assign(series="cont.")]))
    assert nb("static 20.4 % padding and 43.9 % dead, cont. 33.6 % padding and 0 % dead") in text
    assert nb("static 19.0 % padding, 36.3 % dead and 13.5 % reserved ahead, cont. 56.4 % reserved ahead") in text


@pytest.mark.parametrize(
    "sentence",
    [
        timeline_caption(pd.DataFrame()),
        timelines_caption({}),
        timelines_caption({"static": pd.DataFrame()}),
        latency_caption(pd.DataFrame(), "TTFT"),
        pass_kinds_caption(pd.DataFrame()),
        waste_caption(pd.DataFrame()),
    ],
)
def test_without_data_the_caption_says_so(sentence: str) -> None:
    assert sentence.startswith("No")
    assert sentence.endswith(".")


def test_unbounded_latency() -> None:
    assert latency_caption(samples(a=[0.2, 0.4, float("inf")]), "queue wait") == (
        nb("Queue wait: median 400 ms, largest ∞ over 3 requests; 1 unbounded.")
    )
    assert latency_caption(samples(a=[float("inf")] * 2), "queue wait") == ("Queue wait: unbounded for all 2 requests.")
    text = latency_caption(samples(static=[0.2, float("inf")], serial=[0.1, 0.1]), "queue wait")
    assert text == nb("Queue wait: median static ∞, serial 100 ms; largest static ∞, serial 100 ms.")
