"""Captions: one sentence each, its numbers from the data, and no winner known in advance."""

from __future__ import annotations

import pandas as pd
import pytest

from pages.figures import captions
from pages.figures.sample import sample_run
from pages.figures.timeline.queue import queue_from_passes
from tests.support.no_break import nb

STATIC, CONTINUOUS = sample_run("static"), sample_run("continuous")


def samples(**series: list[float]) -> pd.DataFrame:
    return pd.concat([pd.DataFrame({"series": name, "value_s": values}) for name, values in series.items()])


def test_a_timeline_tells_its_dead_and_empty_share() -> None:
    # 4 lanes x 90 steps; dead 24 + 32 + 13 + 39 + 12 + 31 = 151 of 360
    assert captions.timeline(STATIC.spans) == (
        nb(
            "8 requests through 4 lanes in 90 steps (4.02 s): of all lane-steps, 41.9 % went to requests that had "
            "already finished (dead), and none stood empty."
        )
    )
    # 4 x 62 = 248, held 62 + 43 + 58 + 46 = 209
    assert nb("none went to requests that had already finished (dead), and 15.7 % stood empty") in captions.timeline(
        CONTINUOUS.spans
    )
    assert "of all lane time, " in captions.timeline(STATIC.spans, unit="second")


def test_one_request_of_one_token() -> None:
    text = captions.timeline(sample_run("static", budgets=(1,), slots=1).spans)
    assert text.startswith("1 request through 1 lane in 1 step (")
    assert "none went" in text


def test_compared_timelines_name_the_shorter_whichever_it_is() -> None:
    text = captions.timelines({"static": STATIC.spans, "continuous": CONTINUOUS.spans})
    assert text == (
        nb(
            "From start to end: continuous 62 steps, static 90 steps (1.45 times); dead, of all lane-steps: "
            "static 41.9 %, continuous none."
        )
    )
    swapped = captions.timelines({"static": CONTINUOUS.spans, "continuous": STATIC.spans})
    assert swapped.startswith("From start to end: static 62 steps, continuous 90 steps (1.45 times)")


def test_equal_runs_are_called_equal() -> None:
    assert "a 90 steps, b 90 steps (the same)" in captions.timelines({"a": STATIC.spans, "b": STATIC.spans})
    assert captions.latency(samples(a=[0.2, 0.4], b=[0.4, 0.2]), "queue wait") == (
        nb("Queue wait, median: a 300 ms, b 300 ms (the same); p95: a 390 ms, b 390 ms (the same).")
    )
    assert "(within half a percent)" in captions.latency(samples(a=[1.0], b=[1.001]), "queue wait")


def test_latency_of_one_run() -> None:
    assert captions.latency(samples(a=[0.1, 0.2, 0.3, 0.4, 0.5]), "gap between tokens", counted="gaps") == (
        nb("Gap between tokens: half of 5 gaps at most 300 ms, 95 % at most 480 ms.")
    )
    assert captions.latency(samples(a=[0.1]), "queue wait") == nb("Queue wait: 100 ms, from a single sample.")
    assert captions.latency(samples(a=[0.0, 0.0]), "queue wait") == nb("Queue wait: 0 s for all 2 requests.")
    assert captions.latency(samples(a=[float("nan")]), "queue wait") == "No sample of the queue wait yet."


def test_latency_compared_with_zero_names_no_ratio() -> None:
    text = captions.latency(samples(static=[0.0, 1.0], continuous=[0.0, 0.0]), "queue wait")
    assert text.startswith(nb("Queue wait, median: continuous 0 s, static 500 ms; "))


def test_passes_tell_prefills_share_and_the_decode_pass() -> None:
    passes = pd.DataFrame(
        {"kind": ["prefill", "decode", "decode"], "start_s": [0.0, 0.2, 0.3], "end_s": [0.2, 0.3, 0.5]}
    )
    assert captions.passes(passes) == (
        nb(
            "3 passes took 500 ms, 1 prefill pass 40.0 % of it; a decode pass took 150 ms at the median and 200 ms at "
            "most."
        )
    )
    assert captions.passes(passes.head(1)).endswith("; no decode pass has run.")


def test_waste_is_told_for_positions_and_memory() -> None:
    text = captions.waste(pd.concat([STATIC.ledger.assign(series="static"), CONTINUOUS.ledger.assign(series="cont.")]))
    assert nb("static 20.4 % padding and 43.9 % dead, cont. 33.6 % padding and 0 % dead") in text
    assert nb("static 19.0 % padding, 36.3 % dead and 13.5 % room, cont. 56.4 % room") in text


def test_queue_in_words() -> None:
    def queue(*depths: float) -> pd.DataFrame:
        return pd.DataFrame({"step": range(len(depths)), "time_s": range(len(depths)), "queue_depth": depths})

    assert captions.queue(queue(4, 1, 0, 0)) == nb("At most 4 requests waited; from 2.00 s on, none did.")
    assert captions.queue(queue(0, 1, 1)) == "At most 1 request waited; 1 request still waited at the last pass."
    assert captions.queue(queue(0, 0)) == "No request waited when a pass began."
    assert captions.queue(queue_from_passes(pd.DataFrame())) == "No pass has run yet, so no queue is known."


def test_throughput_in_words() -> None:
    tokens = pd.DataFrame({"delivered_s": [0.5, 1.0, 1.5, 2.0]})  # bins of 100 ms
    assert captions.throughput(tokens) == nb("4 tokens by 2.00 s: 10.0 tokens/s in the best 100 ms.")
    assert captions.throughput(tokens, output_tokens_per_s=2.5).startswith(nb("4 tokens by 2.00 s: 2.50 tokens/s; "))
    both = pd.concat([tokens.assign(series="a"), pd.DataFrame({"delivered_s": [1.0, 2.0], "series": "b"})])
    assert captions.throughput(both, output_tokens_per_s={"a": 2.0, "b": 0.5}) == (
        nb("Output tokens a second: b 0.500, a 2.00 (4.00 times); in the best 100 ms: a 10.0, b 10.0 (the same).")
    )


@pytest.mark.parametrize(
    "sentence",
    [
        captions.timeline(pd.DataFrame()),
        captions.timelines({}),
        captions.timelines({"static": pd.DataFrame()}),
        captions.latency(pd.DataFrame(), "TTFT"),
        captions.passes(pd.DataFrame()),
        captions.waste(pd.DataFrame()),
        captions.queue(pd.DataFrame()),
        captions.throughput(pd.DataFrame()),
    ],
)
def test_without_data_there_is_still_a_sentence(sentence: str) -> None:
    assert sentence.startswith("No")
    assert sentence.endswith(".")


def test_latency_without_bound() -> None:
    assert captions.latency(samples(a=[0.2, 0.4, float("inf")]), "queue wait") == (
        nb("Queue wait: half of 3 requests at most 400 ms, 95 % at most ∞; 1 of them without bound.")
    )
    assert captions.latency(samples(a=[float("inf")] * 2), "queue wait") == (
        "Queue wait: without bound for all 2 requests."
    )
    text = captions.latency(samples(static=[0.2, float("inf")], serial=[0.1, 0.1]), "queue wait")
    assert text == nb("Queue wait, median: serial 100 ms, static ∞; p95: serial 100 ms, static ∞.")
