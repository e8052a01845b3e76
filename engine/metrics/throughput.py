"""How much a run did and how fast: counts, throughput, and where the time went, pass by pass.

A pass's seconds are those from its start to the moment when the device had its tokens. Passes never overlap.
"""

from __future__ import annotations

import numpy as np

from engine.metrics.distribution import percentile
from engine.metrics.latency import deliveries
from engine.metrics.metric import MeasuredRun, RunMetric, measured_sum, share
from engine.workload.arrivals import offered_rate


def prefill_and_mixed_s(run: MeasuredRun) -> float:
    """The seconds of all passes that read prompts: prefill and mixed ones."""
    return float(run.of_kind("prefill").sum() + run.of_kind("mixed").sum())


def between_passes_s(run: MeasuredRun) -> float:
    if not run.pass_s.size:
        return 0.0
    span_s = run.passes("end_s").max() - run.passes("start_s").min()
    return max(0.0, float(span_s - run.pass_s.sum()))


def num_finished(run: MeasuredRun) -> int:
    return int((run.record.requests["state"] == "finished").sum())


def num_delivered_tokens(run: MeasuredRun) -> int:
    """The tokens that somebody has received: a batch that is returned whole delivers none before its return."""
    return int((~np.isnan(deliveries(run.record)[1])).sum())


def num_output_tokens(run: MeasuredRun) -> int:
    return len(run.record.tokens["request_id"])


COUNT_METRICS = (
    RunMetric(
        name="requests",
        label="Requests",
        unit="requests",
        formula="count of requests",
        meaning="The requests that the engine saw arrive.",
        better=None,
        function=lambda run: len(run.record.requests["request_id"]),
    ),
    RunMetric(
        name="finished_requests",
        label="Finished requests",
        unit="requests",
        formula="count of requests whose state is finished",
        meaning="The requests that got to their end. The others were cut off when the run was stopped or failed.",
        better="higher",
        function=num_finished,
    ),
    RunMetric(
        name="prompt_tokens",
        label="Prompt tokens",
        unit="tokens",
        formula="sum of prompt_tokens over all requests",
        meaning="How many tokens the prompts hold, the chat template's own included.",
        better=None,
        function=lambda run: int(run.record.requests["prompt_tokens"].sum(dtype=np.int64)),
    ),
    RunMetric(
        name="output_tokens",
        label="Output tokens",
        unit="tokens",
        formula="count of tokens",
        meaning="How many tokens were generated for somebody: what was said, not what was allowed.",
        better=None,
        function=num_output_tokens,
    ),
    RunMetric(
        name="steps",
        label="Steps",
        unit="steps",
        formula="count of different steps of the passes",
        meaning="Rounds of the engine: admit, prefill the newcomers, decode once, let the ended leave.",
        better="lower",
        function=lambda run: len(np.unique(run.passes("step"))),
    ),
    RunMetric(
        name="passes",
        label="Passes",
        unit="passes",
        formula="prefill_passes + decode_passes + mixed_passes",
        meaning="How often the model was run.",
        better="lower",
        function=lambda run: len(run.pass_s),
    ),
    RunMetric(
        name="prefill_passes",
        label="Prefill passes",
        unit="passes",
        formula="count of passes whose kind is prefill",
        meaning="Passes that read prompts, and nothing else; a prompt that is whole yields its first token.",
        better=None,
        function=lambda run: len(run.of_kind("prefill")),
    ),
    RunMetric(
        name="decode_passes",
        label="Decode passes",
        unit="passes",
        formula="count of passes whose kind is decode",
        meaning="Passes that yield one more token for every row.",
        better="lower",
        function=lambda run: len(run.of_kind("decode")),
    ),
    RunMetric(
        name="mixed_passes",
        label="Mixed passes",
        unit="passes",
        formula="count of passes whose kind is mixed",
        meaning="Passes that read pieces of prompts beside rows that decode. Only chunked prefill has them.",
        better=None,
        function=lambda run: len(run.of_kind("mixed")),
    ),
    RunMetric(
        name="captured_passes",
        label="Captured passes",
        unit="passes",
        formula="count of passes with bucket_tokens",
        meaning="Passes that ran as one CUDA graph, recorded beforehand, instead of operation by operation.",
        better="higher",
        function=lambda run: int(np.count_nonzero(run.passes("bucket_tokens") >= 0)),
    ),
)

RATE_METRICS = (
    RunMetric(
        name="duration_s",
        label="Duration",
        unit="s",
        formula="last delivery - first intended arrival",
        meaning="How long the readers as a whole had to wait until everything was said.",
        better="lower",
        function=lambda run: run.duration_s,
    ),
    RunMetric(
        name="output_tokens_per_s",
        label="Throughput",
        unit="tokens/s",
        formula="(count of tokens that were delivered, or whose request was returned) / duration_s",
        meaning="Tokens received a second, over all requests together. Prompts are not counted, nor are tokens that "
        "nobody has received: those of a batch that was cut off before it was returned whole.",
        better="higher",
        function=lambda run: share(num_delivered_tokens(run), run.duration_s),
    ),
    RunMetric(
        name="requests_per_s",
        label="Requests finished a second",
        unit="requests/s",
        formula="finished_requests / duration_s",
        meaning="How many requests a second the engine got to their end.",
        better="higher",
        function=lambda run: share(num_finished(run), run.duration_s),
    ),
    RunMetric(
        name="offered_requests_per_s",
        label="Requests offered a second",
        unit="requests/s",
        formula="(requests - 1) / (last arrival - first arrival)",
        meaning="The rate that really was offered, from the intended arrivals. There is none when all come at once.",
        better=None,
        function=lambda run: offered_rate(run.record.requests["arrival_s"]),
    ),
    RunMetric(
        name="prefill_tokens_per_s",
        label="Prefill rate",
        unit="tokens/s",
        formula="sum of prompt_tokens over all passes / (prefill_s + mixed_s)",
        meaning="Prompt tokens read a second while prompts were being read; in mixed passes rows decode meanwhile. "
        "What is read again after a preemption counts again.",
        better="higher",
        function=lambda run: share(run.total("prompt_tokens"), prefill_and_mixed_s(run)),
    ),
)

TIME_METRICS = (
    RunMetric(
        name="prefill_s",
        label="Time in prefill",
        unit="s",
        formula="sum of pass_s over prefill passes",
        meaning="Seconds spent on reading prompts alone. Rows that are decoding stand still meanwhile.",
        better="lower",
        function=lambda run: float(run.of_kind("prefill").sum()),
    ),
    RunMetric(
        name="decode_s",
        label="Time in decode",
        unit="s",
        formula="sum of pass_s over decode passes",
        meaning="Seconds spent on generating tokens after the first, and on nothing else.",
        better="lower",
        function=lambda run: float(run.of_kind("decode").sum()),
    ),
    RunMetric(
        name="mixed_s",
        label="Time in mixed passes",
        unit="s",
        formula="sum of pass_s over mixed passes",
        meaning="Seconds spent on both at once: pieces of prompts beside rows that decode. They are not split up.",
        better=None,
        function=lambda run: float(run.of_kind("mixed").sum()),
    ),
    RunMetric(
        name="prefill_share",
        label="Prefill, share of the time",
        unit="share",
        formula="(prefill_s + mixed_s) / (prefill_s + decode_s + mixed_s)",
        meaning="The share of pass time in which prompts were being read. Mixed passes count in full, though rows "
        "decode in them.",
        better=None,
        function=lambda run: share(prefill_and_mixed_s(run), float(run.pass_s.sum())),
    ),
    RunMetric(
        name="prefill_pass_p50_s",
        label="Prefill pass, median",
        unit="s",
        formula="median of pass_s over prefill passes",
        meaning="How long a typical prefill pass takes: the pause that an admission puts into its neighbors' answers.",
        better="lower",
        function=lambda run: percentile(run.of_kind("prefill"), 50),
    ),
    RunMetric(
        name="decode_pass_p50_s",
        label="Decode pass, median",
        unit="s",
        formula="median of pass_s over decode passes",
        meaning="How long a typical decode pass takes, and so the time between two tokens of an undisturbed answer.",
        better="lower",
        function=lambda run: percentile(run.of_kind("decode"), 50),
    ),
    RunMetric(
        name="issue_s",
        label="Time to issue passes",
        unit="s",
        formula="sum of issue_s over all passes",
        meaning="How long the CPU took to hand its work to the GPU. None on a CPU, where issuing and running are one.",
        better="lower",
        function=lambda run: measured_sum(run.passes("issue_s")),
    ),
    RunMetric(
        name="device_s",
        label="Time on the device",
        unit="s",
        formula="sum of device_s over all passes",
        meaning="How long passes took by the device's own clock, from a pass's first kernel to its last. Pauses count: "
        "a device that waits for the CPU to issue its next kernel counts that wait here.",
        better="lower",
        function=lambda run: measured_sum(run.passes("device_s")),
    ),
    RunMetric(
        name="between_passes_s",
        label="Time between passes",
        unit="s",
        formula="last pass's end - first pass's start - sum of pass_s",
        meaning="Time in which no pass ran: choosing rows, recording, or an idle engine with nothing to do.",
        better="lower",
        function=between_passes_s,
    ),
)
