"""The waste ledger: what a run computed or held for nothing, in slot-steps, token positions, seconds and memory.

Two kinds of computed waste: padding (columns of a live row that hold no token of its own) and dead rows (rows that run
on after their request ended). Slot-steps and positions are counted. Seconds are an attribution: a pass takes its time
as a whole, and each kind is charged the share that it has of the pass's positions.
"""

from __future__ import annotations

import numpy as np

from engine.core.metric import RunFacts, RunMetric, share


def wasted_s(facts: RunFacts, positions: str) -> float:
    """Every pass's seconds times the share that a column of positions has of the computed ones, added up."""
    computed = np.maximum(facts.passes("computed_positions"), 1)
    return float((facts.pass_s * facts.passes(positions) / computed).sum())


def kv_position_s(facts: RunFacts, positions: str) -> float:
    """A column of KV positions, each counted for the seconds of its pass."""
    return float((facts.pass_s * facts.passes(positions)).sum())


def kv_unused_position_s(facts: RunFacts) -> float:
    return kv_position_s(facts, "kv_reserved_positions") - kv_position_s(facts, "kv_used_positions")


def dead_fraction(facts: RunFacts) -> float | None:
    return share(facts.total("rows") - facts.total("live_rows"), facts.total("rows"))


SLOT_STEP_METRICS = (
    RunMetric(
        name="slot_steps",
        label="Slot-steps",
        unit="slot-steps",
        formula="sum of rows over all passes",
        meaning="How many rows were computed, counted once a pass. Each one yields a token, wanted or not.",
        better="lower",
        function=lambda facts: facts.total("rows"),
    ),
    RunMetric(
        name="useful_slot_steps",
        label="Useful slot-steps",
        unit="slot-steps",
        formula="sum of live_rows over all passes",
        meaning="The slot-steps whose token somebody still waited for. The same for every engine on the same requests.",
        better=None,
        function=lambda facts: facts.total("live_rows"),
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
        meaning="Token positions that the passes attended over: rows times width, or a packed prefill's own tokens.",
        better="lower",
        function=lambda facts: facts.total("computed_positions"),
    ),
    RunMetric(
        name="padding_positions",
        label="Padding positions",
        unit="positions",
        formula="sum of padding_positions over all passes",
        meaning="Positions of live rows that held no token of theirs: rows are computed as wide as the widest.",
        better="lower",
        function=lambda facts: facts.total("padding_positions"),
    ),
    RunMetric(
        name="dead_positions",
        label="Dead positions",
        unit="positions",
        formula="sum of dead_positions over all passes",
        meaning="All positions of rows whose request had already ended.",
        better="lower",
        function=lambda facts: facts.total("dead_positions"),
    ),
    RunMetric(
        name="padding_fraction",
        label="Padding",
        unit="share",
        formula="padding_positions / computed_positions",
        meaning="The share of all computed positions that was padding.",
        better="lower",
        function=lambda facts: share(facts.total("padding_positions"), facts.total("computed_positions")),
    ),
    RunMetric(
        name="dead_position_fraction",
        label="Dead positions, share",
        unit="share",
        formula="dead_positions / computed_positions",
        meaning="The share of all computed positions that belonged to dead rows.",
        better="lower",
        function=lambda facts: share(facts.total("dead_positions"), facts.total("computed_positions")),
    ),
    RunMetric(
        name="padding_s",
        label="Time charged to padding",
        unit="s",
        formula="sum of pass_s * padding_positions / computed_positions",
        meaning="Pass time charged to padding by its share of the positions. An attribution: not time to be saved.",
        better="lower",
        function=lambda facts: wasted_s(facts, "padding_positions"),
    ),
    RunMetric(
        name="dead_s",
        label="Time charged to dead rows",
        unit="s",
        formula="sum of pass_s * dead_positions / computed_positions",
        meaning="Pass time charged to dead rows by their share of the positions. An attribution: not time to be saved.",
        better="lower",
        function=lambda facts: wasted_s(facts, "dead_positions"),
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
        function=lambda facts: kv_position_s(facts, "kv_reserved_positions"),
    ),
    RunMetric(
        name="kv_unused_position_s",
        label="KV memory unused",
        unit="position-seconds",
        formula="sum of pass_s * (kv_reserved_positions - kv_used_positions)",
        meaning="The part of it that no running request had filled: room for tokens to come, padding, dead rows.",
        better="lower",
        function=kv_unused_position_s,
    ),
    RunMetric(
        name="kv_unused_fraction",
        label="KV memory unused, share",
        unit="share",
        formula="kv_unused_position_s / kv_reserved_position_s",
        meaning="The share of the reserved KV memory that stood empty, over the time that passes ran.",
        better="lower",
        function=lambda facts: share(kv_unused_position_s(facts), kv_position_s(facts, "kv_reserved_positions")),
    ),
    RunMetric(
        name="peak_memory_bytes",
        label="Peak memory",
        unit="bytes",
        formula="the largest peak_bytes of the memory log",
        meaning="The most memory in use at any time: the GPU's allocator, or on a CPU the whole process.",
        better="lower",
        function=lambda facts: facts.peak_memory_bytes,
    ),
)
