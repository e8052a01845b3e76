"""Counts, throughput, and the time spent in each kind of pass.

A pass lasts from its start until the device has its tokens. Passes never overlap.
"""

from __future__ import annotations

import numpy as np

from engine.metrics.distribution import percentile
from engine.metrics.latency import deliveries
from engine.metrics.metric import MeasuredRun, RunMetric, measured_sum, share
from engine.workload.arrivals import offered_rate


def prefill_and_mixed_s(run: MeasuredRun) -> float:
    """Seconds of all passes that prefill: prefill and mixed passes."""
    return float(run.of_kind("prefill").sum() + run.of_kind("mixed").sum())


def between_passes_s(run: MeasuredRun) -> float:
    if not run.pass_s.size:
        return 0.0
    span_s = run.passes("end_s").max() - run.passes("start_s").min()
    return max(0.0, float(span_s - run.pass_s.sum()))


def num_finished(run: MeasuredRun) -> int:
    return int((run.record.requests["state"] == "finished").sum())


def num_delivered_tokens(run: MeasuredRun) -> int:
    """Tokens delivered to clients. A batch in full response mode delivers none before it ends."""
    return int((~np.isnan(deliveries(run.record)[1])).sum())


def num_output_tokens(run: MeasuredRun) -> int:
    return len(run.record.tokens["request_id"])


COUNT_METRICS = (
    RunMetric(
        name="requests",
        label="Requests",
        unit="requests",
        formula="count of requests",
        meaning="Requests that arrived at the engine.",
        better=None,
        function=lambda run: len(run.record.requests["request_id"]),
    ),
    RunMetric(
        name="finished_requests",
        label="Finished requests",
        unit="requests",
        formula="count of requests whose state is finished",
        meaning="Requests that completed. The others were cut off when the run was stopped or failed.",
        better="higher",
        function=num_finished,
    ),
    RunMetric(
        name="prompt_tokens",
        label="Prompt tokens",
        unit="tokens",
        formula="sum of prompt_tokens over all requests",
        meaning="Tokens in all prompts, including those of the chat template.",
        better=None,
        function=lambda run: int(run.record.requests["prompt_tokens"].sum(dtype=np.int64)),
    ),
    RunMetric(
        name="output_tokens",
        label="Output tokens",
        unit="tokens",
        formula="count of tokens",
        meaning="Tokens generated for requests: the actual count, not the budget.",
        better=None,
        function=num_output_tokens,
    ),
    RunMetric(
        name="steps",
        label="Steps",
        unit="steps",
        formula="count of different steps of the passes",
        meaning="Iterations of the engine: admit, prefill newly admitted requests, decode once, evict.",
        better="lower",
        function=lambda run: len(np.unique(run.passes("step"))),
    ),
    RunMetric(
        name="passes",
        label="Passes",
        unit="passes",
        formula="prefill_passes + decode_passes + mixed_passes",
        meaning="Forward passes of the model.",
        better="lower",
        function=lambda run: len(run.pass_s),
    ),
    RunMetric(
        name="prefill_passes",
        label="Prefill passes",
        unit="passes",
        formula="count of passes whose kind is prefill",
        meaning="Passes that only prefill prompts. A completed prompt yields its first token.",
        better=None,
        function=lambda run: len(run.of_kind("prefill")),
    ),
    RunMetric(
        name="decode_passes",
        label="Decode passes",
        unit="passes",
        formula="count of passes whose kind is decode",
        meaning="Passes that only decode: each row gets one more token.",
        better="lower",
        function=lambda run: len(run.of_kind("decode")),
    ),
    RunMetric(
        name="mixed_passes",
        label="Mixed passes",
        unit="passes",
        formula="count of passes whose kind is mixed",
        meaning="Passes that prefill prompt chunks together with decode rows. Only the chunked engine has them.",
        better=None,
        function=lambda run: len(run.of_kind("mixed")),
    ),
    RunMetric(
        name="captured_passes",
        label="Captured passes",
        unit="passes",
        formula="count of passes with bucket_tokens",
        meaning="Passes that ran as one captured CUDA graph instead of operation by operation.",
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
        meaning="Time from the first arrival until all answers were delivered.",
        better="lower",
        function=lambda run: run.duration_s,
    ),
    RunMetric(
        name="output_tokens_per_s",
        label="Throughput",
        unit="tokens/s",
        formula="(count of tokens that were delivered, or whose request was returned) / duration_s",
        meaning="Output tokens delivered per second, total over all requests. Prompt tokens are not counted, nor are "
        "undelivered tokens of a batch that was cut off in full response mode.",
        better="higher",
        function=lambda run: share(num_delivered_tokens(run), run.duration_s),
    ),
    RunMetric(
        name="requests_per_s",
        label="Request throughput",
        unit="requests/s",
        formula="finished_requests / duration_s",
        meaning="Requests completed per second.",
        better="higher",
        function=lambda run: share(num_finished(run), run.duration_s),
    ),
    RunMetric(
        name="offered_requests_per_s",
        label="Offered rate",
        unit="requests/s",
        formula="(requests - 1) / (last arrival - first arrival)",
        meaning="The rate of intended arrivals. Not defined when all requests arrive at once.",
        better=None,
        function=lambda run: offered_rate(run.record.requests["arrival_s"]),
    ),
    RunMetric(
        name="prefill_tokens_per_s",
        label="Prefill rate",
        unit="tokens/s",
        formula="sum of prompt_tokens over all passes / (prefill_s + mixed_s)",
        meaning="Prompt tokens per second of prefill time. Mixed passes count in full, although they also decode. "
        "Tokens recomputed after a preemption count again.",
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
        meaning="Seconds spent in prefill passes. Decode rows are stalled meanwhile.",
        better="lower",
        function=lambda run: float(run.of_kind("prefill").sum()),
    ),
    RunMetric(
        name="decode_s",
        label="Time in decode",
        unit="s",
        formula="sum of pass_s over decode passes",
        meaning="Seconds spent in decode passes.",
        better="lower",
        function=lambda run: float(run.of_kind("decode").sum()),
    ),
    RunMetric(
        name="mixed_s",
        label="Time in mixed passes",
        unit="s",
        formula="sum of pass_s over mixed passes",
        meaning="Seconds spent in passes that prefill and decode at once. They are not split between the two.",
        better=None,
        function=lambda run: float(run.of_kind("mixed").sum()),
    ),
    RunMetric(
        name="prefill_share",
        label="Prefill, share of time",
        unit="share",
        formula="(prefill_s + mixed_s) / (prefill_s + decode_s + mixed_s)",
        meaning="The share of pass time spent on prefill. Mixed passes count in full, although they also decode.",
        better=None,
        function=lambda run: share(prefill_and_mixed_s(run), float(run.pass_s.sum())),
    ),
    RunMetric(
        name="prefill_pass_p50_s",
        label="Prefill pass, median",
        unit="s",
        formula="median of pass_s over prefill passes",
        meaning="Typical duration of a prefill pass: how long an admission stalls the decode rows.",
        better="lower",
        function=lambda run: percentile(run.of_kind("prefill"), 50),
    ),
    RunMetric(
        name="decode_pass_p50_s",
        label="Decode pass, median",
        unit="s",
        formula="median of pass_s over decode passes",
        meaning="Typical duration of a decode pass: the time between two tokens without stalls.",
        better="lower",
        function=lambda run: percentile(run.of_kind("decode"), 50),
    ),
    RunMetric(
        name="issue_s",
        label="Time to issue passes",
        unit="s",
        formula="sum of issue_s over all passes",
        meaning="Time the CPU needed to issue work to the GPU. Not defined on a CPU, which issues and runs at once.",
        better="lower",
        function=lambda run: measured_sum(run.passes("issue_s")),
    ),
    RunMetric(
        name="device_s",
        label="Time on the device",
        unit="s",
        formula="sum of device_s over all passes",
        meaning="Duration of the passes by the device's own clock, from each pass's first kernel to its last. Pauses "
        "in which the device waits for the CPU to issue the next kernel are included.",
        better="lower",
        function=lambda run: measured_sum(run.passes("device_s")),
    ),
    RunMetric(
        name="between_passes_s",
        label="Time between passes",
        unit="s",
        formula="last pass's end - first pass's start - sum of pass_s",
        meaning="Time in which no pass ran: scheduling, recording, or an idle engine.",
        better="lower",
        function=between_passes_s,
    ),
)
