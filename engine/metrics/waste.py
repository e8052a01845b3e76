"""The waste ledger: what a run computed or held for nothing, in slot-steps, token positions, seconds and memory.

Two kinds of computed waste: padding (columns of a live row that hold no token of its own) and dead rows (rows that run
on after their request ended). Slot-steps and positions are counted. Seconds are an attribution: a pass takes its time
as a whole, and each kind is charged the share that it has of the pass's positions.
"""

from __future__ import annotations

import numpy as np

from engine.metrics.metric import MeasuredRun, RunMetric, measured_count, measured_sum, share


def wasted_s(run: MeasuredRun, positions: str) -> float:
    """Every pass's seconds times the share that a column of positions has of the computed ones, added up."""
    computed = np.maximum(run.passes("computed_positions"), 1)
    return float((run.pass_s * run.passes(positions) / computed).sum())


def kv_position_s(run: MeasuredRun, positions: str) -> float:
    """A column of KV positions, each counted for the seconds of its pass."""
    return float((run.pass_s * run.passes(positions)).sum())


def kv_held_position_s(run: MeasuredRun, positions: str) -> float | None:
    """The same of a column that older run logs do not have."""
    return measured_sum(run.pass_s * run.known(positions))


def kv_room_position_s(run: MeasuredRun) -> float | None:
    """What is held besides real tokens, and is neither padding, nor dead, nor the end of a block."""
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
        meaning="How many rows were computed, counted once a pass. Each one yields a token, wanted or not; a row whose "
        "prompt is not whole yet yields none and is not counted.",
        better="lower",
        function=lambda run: run.total("rows"),
    ),
    RunMetric(
        name="useful_slot_steps",
        label="Useful slot-steps",
        unit="slot-steps",
        formula="sum of live_rows over all passes",
        meaning="The slot-steps whose token somebody still waited for. The same for every engine on the same requests.",
        better=None,
        function=lambda run: run.total("live_rows"),
    ),
    RunMetric(
        name="dead_fraction",
        label="Dead slot-steps",
        unit="share",
        formula="1 - useful_slot_steps / slot_steps",
        meaning="The share of computed rows whose request had already ended: they wait in the batch for its slowest.",
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
        meaning="Token positions that the passes attended over: rows times width; where rows are read at their true "
        "length, that; and the tokens of a packed prefill.",
        better="lower",
        function=lambda run: run.total("computed_positions"),
    ),
    RunMetric(
        name="padding_positions",
        label="Padding positions",
        unit="positions",
        formula="sum of padding_positions over all passes",
        meaning="Positions of live rows that held no token of theirs: rows are computed as wide as the widest.",
        better="lower",
        function=lambda run: run.total("padding_positions"),
    ),
    RunMetric(
        name="dead_positions",
        label="Dead positions",
        unit="positions",
        formula="sum of dead_positions over all passes",
        meaning="All positions of rows whose request had already ended.",
        better="lower",
        function=lambda run: run.total("dead_positions"),
    ),
    RunMetric(
        name="padding_fraction",
        label="Padding",
        unit="share",
        formula="padding_positions / computed_positions",
        meaning="The share of all computed positions that was padding.",
        better="lower",
        function=lambda run: share(run.total("padding_positions"), run.total("computed_positions")),
    ),
    RunMetric(
        name="dead_position_fraction",
        label="Dead positions, share",
        unit="share",
        formula="dead_positions / computed_positions",
        meaning="The share of all computed positions that belonged to dead rows.",
        better="lower",
        function=lambda run: share(run.total("dead_positions"), run.total("computed_positions")),
    ),
    RunMetric(
        name="padding_s",
        label="Time charged to padding",
        unit="s",
        formula="sum of pass_s * padding_positions / computed_positions",
        meaning="Pass time charged to padding by its share of the positions. An attribution: not time to be saved.",
        better="lower",
        function=lambda run: wasted_s(run, "padding_positions"),
    ),
    RunMetric(
        name="dead_s",
        label="Time charged to dead rows",
        unit="s",
        formula="sum of pass_s * dead_positions / computed_positions",
        meaning="Pass time charged to dead rows by their share of the positions. An attribution: not time to be saved.",
        better="lower",
        function=lambda run: wasted_s(run, "dead_positions"),
    ),
    RunMetric(
        name="bucket_padding_fraction",
        label="Padding of CUDA graphs",
        unit="share",
        formula="1 - sum of tokens / sum of bucket_tokens, over captured passes",
        meaning="A captured pass has a fixed size, and what its tokens do not fill is computed for nothing. It is "
        "counted here alone, in tokens, and not among the positions above.",
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
        meaning="How often a running request lost its KV memory to an older one and had to wait again.",
        better="lower",
        function=lambda run: measured_count(run.record.requests["preemptions"]),
    ),
    RunMetric(
        name="recomputed_tokens",
        label="Tokens computed again",
        unit="tokens",
        formula="sum of recomputed_tokens over all passes",
        meaning="Tokens of prompts and answers whose keys and values were lost to a preemption and computed anew.",
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
        meaning="Room for keys and values that was held while passes ran: one token's place for one second counts 1.",
        better="lower",
        function=lambda run: kv_position_s(run, "kv_reserved_positions"),
    ),
    RunMetric(
        name="kv_unused_position_s",
        label="KV memory unused",
        unit="position-seconds",
        formula="sum of pass_s * (kv_reserved_positions - kv_used_positions)",
        meaning="The part of it that no running request had filled: the four kinds that follow.",
        better="lower",
        function=kv_unused_position_s,
    ),
    RunMetric(
        name="kv_padding_position_s",
        label="KV memory of padding",
        unit="position-seconds",
        formula="sum of pass_s * kv_padding_positions",
        meaning="The columns before the shorter prompts of a padded batch.",
        better="lower",
        function=lambda run: kv_held_position_s(run, "kv_padding_positions"),
    ),
    RunMetric(
        name="kv_dead_position_s",
        label="KV memory of dead rows",
        unit="position-seconds",
        formula="sum of pass_s * kv_dead_positions",
        meaning="All that rows still held after their request had ended.",
        better="lower",
        function=lambda run: kv_held_position_s(run, "kv_dead_positions"),
    ),
    RunMetric(
        name="kv_fragment_position_s",
        label="KV memory at the ends of blocks",
        unit="position-seconds",
        formula="sum of pass_s * kv_fragment_positions",
        meaning="The unfilled end of each request's last block: less than a block a request.",
        better="lower",
        function=lambda run: kv_held_position_s(run, "kv_fragment_positions"),
    ),
    RunMetric(
        name="kv_room_position_s",
        label="KV memory kept for tokens to come",
        unit="position-seconds",
        formula="sum of pass_s * (kv_reserved_positions - kv_used_positions - kv_padding_positions - kv_dead_positions "
        "- kv_fragment_positions)",
        meaning="Room up to the longest prompt and budget, held from the start whether or not it will be used, and "
        "slots that nobody has.",
        better="lower",
        function=kv_room_position_s,
    ),
    RunMetric(
        name="kv_unused_fraction",
        label="KV memory unused, share",
        unit="share",
        formula="kv_unused_position_s / kv_reserved_position_s",
        meaning="The share of the reserved KV memory that stood empty, over the time that passes ran.",
        better="lower",
        function=lambda run: share(kv_unused_position_s(run), kv_position_s(run, "kv_reserved_positions")),
    ),
    RunMetric(
        name="peak_memory_bytes",
        label="Peak memory",
        unit="bytes",
        formula="the largest peak_bytes of the memory log",
        meaning="The most memory in use since the run began to set up: of the GPU's allocator; on a CPU of the whole "
        "process, by the high-water mark that Linux keeps, or elsewhere the highest of samples between passes.",
        better="lower",
        function=lambda run: run.peak_memory_bytes,
    ),
)
