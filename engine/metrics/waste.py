"""The waste breakdown: what a run computed or reserved without use, in slot-steps, positions, seconds and memory.

Computed waste is padding (columns of a live row without a token of its own) and dead rows (rows still computed after
their request ended). Slot-steps and positions are counted. Seconds are attributed: each kind of waste is charged its
share of a pass's positions.
"""

from __future__ import annotations

import numpy as np

from engine.metrics.metric import MeasuredRun, RunMetric, measured_count, measured_sum, share


def wasted_s(run: MeasuredRun, positions: str) -> float:
    """The sum over passes of seconds times the share that these positions have of the computed ones."""
    computed = np.maximum(run.passes("computed_positions"), 1)
    return float((run.pass_s * run.passes(positions) / computed).sum())


def kv_position_s(run: MeasuredRun, positions: str) -> float:
    """The sum over passes of KV positions times seconds."""
    return float((run.pass_s * run.passes(positions)).sum())


def kv_held_position_s(run: MeasuredRun, positions: str) -> float | None:
    """As `kv_position_s`, for a column that older run logs do not have."""
    return measured_sum(run.pass_s * run.known(positions))


def kv_unused_reservation_position_s(run: MeasuredRun) -> float | None:
    """Reserved positions that are not used, padding, dead or the end of a block."""
    parts = [run.known(f"kv_{part}_positions") for part in ("padding", "dead", "fragment")]
    taken = run.passes("kv_used_positions") + sum(parts)
    return measured_sum(run.pass_s * (run.passes("kv_reserved_positions") - taken))


def bucket_padding_fraction(run: MeasuredRun) -> float | None:
    captured = run.passes("bucket_tokens") >= 0
    filled = share(int(run.passes("tokens")[captured].sum()), int(run.passes("bucket_tokens")[captured].sum()))
    return None if filled is None else 1 - filled


def kv_unused_position_s(run: MeasuredRun) -> float:
    return kv_position_s(run, "kv_reserved_positions") - kv_position_s(run, "kv_used_positions")


def dead_fraction(run: MeasuredRun) -> float | None:
    return share(run.total("rows") - run.total("live_rows"), run.total("rows"))


SLOT_STEP_METRICS = (
    RunMetric(
        name="slot_steps",
        label="Slot-steps",
        unit="slot-steps",
        formula="sum of rows over all passes",
        meaning="Rows computed, counted once per pass. Each yields a token, whether needed or not. A row whose prefill "
        "is not complete yields none and is not counted.",
        better="lower",
        function=lambda run: run.total("rows"),
    ),
    RunMetric(
        name="useful_slot_steps",
        label="Useful slot-steps",
        unit="slot-steps",
        formula="sum of live_rows over all passes",
        meaning="Slot-steps whose token belongs to an answer. Equal for all engines on the same requests.",
        better=None,
        function=lambda run: run.total("live_rows"),
    ),
    RunMetric(
        name="dead_fraction",
        label="Dead slot-steps",
        unit="share",
        formula="1 - useful_slot_steps / slot_steps",
        meaning="The share of computed rows whose request had already ended and waits for the slowest of its batch.",
        better="lower",
        function=dead_fraction,
    ),
)

POSITION_METRICS = (
    RunMetric(
        name="computed_positions",
        label="Computed positions",
        unit="positions",
        formula="sum of computed_positions over all passes",
        meaning="Token positions that the passes attended over: rows times width, or each row's true length in paged "
        "decode, or the tokens of a packed prefill.",
        better="lower",
        function=lambda run: run.total("computed_positions"),
    ),
    RunMetric(
        name="padding_positions",
        label="Padding positions",
        unit="positions",
        formula="sum of padding_positions over all passes",
        meaning="Positions of live rows without a token of their own: every row is computed as wide as the widest.",
        better="lower",
        function=lambda run: run.total("padding_positions"),
    ),
    RunMetric(
        name="dead_positions",
        label="Dead positions",
        unit="positions",
        formula="sum of dead_positions over all passes",
        meaning="Positions of rows whose request had already ended.",
        better="lower",
        function=lambda run: run.total("dead_positions"),
    ),
    RunMetric(
        name="padding_fraction",
        label="Padding",
        unit="share",
        formula="padding_positions / computed_positions",
        meaning="The share of computed positions that was padding.",
        better="lower",
        function=lambda run: share(run.total("padding_positions"), run.total("computed_positions")),
    ),
    RunMetric(
        name="dead_position_fraction",
        label="Dead positions, share",
        unit="share",
        formula="dead_positions / computed_positions",
        meaning="The share of computed positions in dead rows.",
        better="lower",
        function=lambda run: share(run.total("dead_positions"), run.total("computed_positions")),
    ),
    RunMetric(
        name="padding_s",
        label="Time charged to padding",
        unit="s",
        formula="sum of pass_s * padding_positions / computed_positions",
        meaning="Pass time charged to padding by its share of positions. An attribution, not an achievable saving.",
        better="lower",
        function=lambda run: wasted_s(run, "padding_positions"),
    ),
    RunMetric(
        name="dead_s",
        label="Time charged to dead rows",
        unit="s",
        formula="sum of pass_s * dead_positions / computed_positions",
        meaning="Pass time charged to dead rows by their share of positions. An attribution, not an achievable saving.",
        better="lower",
        function=lambda run: wasted_s(run, "dead_positions"),
    ),
    RunMetric(
        name="bucket_padding_fraction",
        label="CUDA graph padding",
        unit="share",
        formula="1 - sum of tokens / sum of bucket_tokens, over captured passes",
        meaning="The share of tokens in captured passes that only fill the graph's fixed size. Counted in tokens, "
        "separately from the positions above.",
        better="lower",
        function=bucket_padding_fraction,
    ),
)

PREEMPTION_METRICS = (
    RunMetric(
        name="preemptions",
        label="Preemptions",
        unit="preemptions",
        formula="sum of preemptions over all requests",
        meaning="How often a running request lost its KV blocks to an older one and waited again.",
        better="lower",
        function=lambda run: measured_count(run.record.requests["preemptions"]),
    ),
    RunMetric(
        name="recomputed_tokens",
        label="Recomputed tokens",
        unit="tokens",
        formula="sum of recomputed_tokens over all passes",
        meaning="Tokens whose keys and values were lost to a preemption and computed again.",
        better="lower",
        function=lambda run: measured_count(run.passes("recomputed_tokens")),
    ),
)

KV_METRICS = (
    RunMetric(
        name="kv_reserved_position_s",
        label="KV memory reserved",
        unit="position-seconds",
        formula="sum of pass_s * kv_reserved_positions",
        meaning="KV memory reserved while passes ran. One token position reserved for one second counts 1.",
        better="lower",
        function=lambda run: kv_position_s(run, "kv_reserved_positions"),
    ),
    RunMetric(
        name="kv_unused_position_s",
        label="KV memory unused",
        unit="position-seconds",
        formula="sum of pass_s * (kv_reserved_positions - kv_used_positions)",
        meaning="Reserved KV memory that no running request had filled: the sum of the next four.",
        better="lower",
        function=kv_unused_position_s,
    ),
    RunMetric(
        name="kv_padding_position_s",
        label="KV memory in padding",
        unit="position-seconds",
        formula="sum of pass_s * kv_padding_positions",
        meaning="Padding columns before the shorter prompts of a padded batch.",
        better="lower",
        function=lambda run: kv_held_position_s(run, "kv_padding_positions"),
    ),
    RunMetric(
        name="kv_dead_position_s",
        label="KV memory in dead rows",
        unit="position-seconds",
        formula="sum of pass_s * kv_dead_positions",
        meaning="KV memory still held by rows whose request had ended.",
        better="lower",
        function=lambda run: kv_held_position_s(run, "kv_dead_positions"),
    ),
    RunMetric(
        name="kv_fragment_position_s",
        label="KV memory in partly filled blocks",
        unit="position-seconds",
        formula="sum of pass_s * kv_fragment_positions",
        meaning="Internal fragmentation: the unfilled end of each request's last block.",
        better="lower",
        function=lambda run: kv_held_position_s(run, "kv_fragment_positions"),
    ),
    RunMetric(
        name="kv_room_position_s",
        label="KV memory reserved for future tokens",
        unit="position-seconds",
        formula="sum of pass_s * (kv_reserved_positions - kv_used_positions - kv_padding_positions - kv_dead_positions "
        "- kv_fragment_positions)",
        meaning="Positions reserved for tokens not generated yet, up to the longest prompt and budget; empty slots.",
        better="lower",
        function=kv_unused_reservation_position_s,
    ),
    RunMetric(
        name="kv_unused_fraction",
        label="KV memory unused, share",
        unit="share",
        formula="kv_unused_position_s / kv_reserved_position_s",
        meaning="The share of reserved KV memory that was not in use while passes ran.",
        better="lower",
        function=lambda run: share(kv_unused_position_s(run), kv_position_s(run, "kv_reserved_positions")),
    ),
    RunMetric(
        name="peak_memory_bytes",
        label="Peak memory",
        unit="bytes",
        formula="the largest peak_bytes of the memory log",
        meaning="Peak memory since the run's set-up began: of the GPU's allocator, or of the whole process on a CPU "
        "(Linux's high-water mark; elsewhere the highest sample between passes).",
        better="lower",
        function=lambda run: run.peak_memory_bytes,
    ),
)
