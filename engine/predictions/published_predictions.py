"""Predictions that two published texts made before measuring, and their results: examples to compare with.

The texts' GPU is an A10 with 22.06 GiB, the model Qwen2.5-1.5B in fp16, greedy, up to 256 output tokens a request. The
mix is prompts of 16 to 4,096 tokens in equal shares with budgets of 64 to 256 tokens; the load is 400 requests for 32
slots. Seconds and rates apply only to that GPU. The `ratio` applies to any machine: what is divided by what, the range
that follows from the prediction, and the text's measurement. Where a text gave no number (nearly, unchanged), the range
is ours: 85 % or more, or within a quarter. `here` is the result of one H200 from docs/performance-graph.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

PublishedGrade = Literal["held", "missed", "not graded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRatio:
    """A prediction as a ratio, for any machine. `low` and `high` are its range; `measured` is the range that the text
    measured, or None. `measure` is a key of `published_grades.GRADES`."""

    of: str
    unit: str
    low: float | None
    high: float | None
    measured: tuple[float, float] | None
    measure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPrediction:
    """What the text expected, why, and what it measured, in our words. `page` and `query` link to that experiment."""

    name: str
    expected: str
    why: str
    found: str
    grade: PublishedGrade
    page: str
    query: dict[str, str] = field(default_factory=dict)
    ratio: PublishedRatio | None = None
    here: str = ""


MIX = "p16,p64,p256,p1024,p4096"
SWEEP = {"engine": "static", "prompts": MIX, "batch_size": "1,2,4,8,16,32,64,128,256", "budget": "256"}
LARGE_SWEEP = {**SWEEP, "batch_size": "1,2,4,8,16,32,64,128,256,512,1024"}
LOAD = {"prompts": MIX, "slots": "32", "requests": "400", "budget": "64-256"}
SPIKE = {
    "first": "continuous", "second": "paged", "prompts": "lengths", "mix": MIX, "requests": "64", "slots": "8",
    "budget": "64-256",
}  # fmt: skip

PUBLISHED: tuple[PublishedPrediction, ...] = (
    PublishedPrediction(
        name="flat-step",
        expected="A decode step still takes 22 ms as the batch grows, so B rows decode at nearly B x 45.5 tokens/s.",
        why="A pass launches the same 1,123 kernels for any number of rows.",
        found="87 to 100 % of B times the rate at B=1 at every prompt length, up to B=256.",
        grade="held",
        page="pages/sweep.py",
        query=SWEEP,
        ratio=PublishedRatio(
            of="the lowest decode rate of a batch up to 256 over B times the rate at B=1",
            unit="share",
            low=0.85,
            high=None,
            measured=(0.87, 1.0),
            measure="lowest_linear_share",
        ),
    ),
    PublishedPrediction(
        name="linear-until-353000",
        expected="Scaling stays linear until about 353,000 positions are cached: near B=690 at 512 tokens.",
        why="Only then does reading the KV cache take longer than the 22 ms of launches.",
        found="It ended between B=256 and 512 at each short prompt length, with fewer positions, limited by compute.",
        grade="missed",
        page="pages/sweep.py",
        query=LARGE_SWEEP,
    ),
    PublishedPrediction(
        name="capacity-never-first",
        expected="Memory bandwidth is the limit before memory runs out.",
        why="19 GiB next to the weights hold 711,000 positions, twice as many as can be read in 22 ms.",
        found="Memory ran out first at three of five prompt lengths, in prefill activations that were not counted.",
        grade="missed",
        page="pages/sweep.py",
        query=LARGE_SWEEP,
        ratio=PublishedRatio(
            of="share of prompt lengths at which memory ran out up to a batch of 1,024",
            unit="share",
            low=None,
            high=0.0,
            measured=(0.6, 0.6),
            measure="share_out_of_memory",
        ),
    ),
    PublishedPrediction(
        name="queue-at-rate-1",
        expected="At 1 request/s the median queue wait is under 1 s; static batching has 75.5 s.",
        why="158 tokens a request at 1 request/s need the decode rate of four rows; there are 32.",
        found="0.02 s.",
        grade="held",
        page="pages/load.py",
        query={**LOAD, "engines": "static,continuous", "rates": "1,2,3"},
        ratio=PublishedRatio(
            of="median queue wait of continuous over that of static, at a rate that only continuous sustains",
            unit="share",
            low=None,
            high=1 / 75.5,
            measured=(0.02 / 75.5, 0.02 / 75.5),
            measure="queue_ratio",
        ),
    ),
    PublishedPrediction(
        name="ttft-at-rate-1",
        expected="At 1 request/s 95 % of first tokens arrive within 2 s; static batching has 175.8 s.",
        why="At a low rate a first token waits only for its prefill and a short queue.",
        found="0.34 s.",
        grade="held",
        page="pages/load.py",
        query={**LOAD, "engines": "static,continuous", "rates": "1,2,3"},
        ratio=PublishedRatio(
            of="95th percentile of TTFT of continuous over that of static, at a rate that only continuous sustains",
            unit="share",
            low=None,
            high=2 / 175.8,
            measured=(0.34 / 175.8, 0.34 / 175.8),
            measure="ttft_ratio",
        ),
    ),
    PublishedPrediction(
        name="continuous-capacity",
        expected="Continuous batching sustains 2 to 4 requests/s; static batching sustains 0.66.",
        why="Finished rows leave at once, and waiting requests take their slots.",
        found="1.25 requests/s: every row still attends over the columns of the widest one.",
        grade="missed",
        page="pages/load.py",
        query={**LOAD, "engines": "static,continuous", "rates": "1,2,3"},
        ratio=PublishedRatio(
            of="capacity of continuous over that of static",
            unit="times",
            low=2 / 0.66,
            high=4 / 0.66,
            measured=(1.25 / 0.66, 1.25 / 0.66),
            measure="continuous_capacity",
        ),
        here="46.4 over 24.4 requests/s in graph execution, 1.90x: missed, by the text's own ratio.",
    ),
    PublishedPrediction(
        name="paged-capacity",
        expected="Paging sustains 2.5 to 3.5 requests/s; slots sustain 1.25.",
        why="Attention over true lengths should decode the mix like a uniform batch: at 1,300 tokens/s, not at 158.",
        found="The text does not measure it.",
        grade="not graded",
        page="pages/load.py",
        query={**LOAD, "engines": "continuous,paged", "rates": "1,2,3"},
        ratio=PublishedRatio(
            of="capacity of paged over that of continuous",
            unit="times",
            low=2.5 / 1.25,
            high=3.5 / 1.25,
            measured=None,
            measure="paged_capacity",
        ),
        here="55.5 over 46.4 requests/s in graph execution, 1.20x: missed.",
    ),
    PublishedPrediction(
        name="paged-queue-at-rate-2",
        expected="At 2 requests/s paging keeps the median queue wait under 1 s; slots have 37.2 s.",
        why="2 requests/s is below its expected capacity.",
        found="The text does not measure it.",
        grade="not graded",
        page="pages/load.py",
        query={**LOAD, "engines": "continuous,paged", "rates": "1,2,3"},
        ratio=PublishedRatio(
            of="median queue wait of paged over that of continuous, at a rate that only paged sustains",
            unit="share",
            low=None,
            high=1 / 37.2,
            measured=None,
            measure="paged_queue_ratio",
        ),
        here="Not tested: 0.017 s at 0.8 of paged's own capacity, but at 44 requests/s both engines keep up.",
    ),
    PublishedPrediction(
        name="paged-spike",
        expected="The stall that a prompt of 4,096 tokens causes in other rows stays as long.",
        why="Paging changes where KV is stored, not how a prompt is prefilled.",
        found="The text does not measure it; with slots the worst gap was 15 times the median.",
        grade="not graded",
        page="pages/bench.py",
        query=SPIKE,
        ratio=PublishedRatio(
            of="worst gap over median gap, of paged over that of continuous",
            unit="times",
            low=0.8,
            high=1.25,
            measured=None,
            measure="spike_ratio",
        ),
        here="12.2 times the median gap; slots have 11.9, 1.03x: held.",
    ),
)
