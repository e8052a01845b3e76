"""What a run computed, spent and held, broken down into the useful part and each kind of waste.

Seconds are an attribution (a pass's seconds times the wasted share of its positions), not a measurement; their heading
says so. Memory counts for as long as it is held: padding and dead rows of a padded batch, the unfilled ends of the last
blocks of a paged one, and KV reserved for future tokens. Runs that did not log these parts have only `unused`. Tokens
in CUDA graphs are those of the captured passes, including the padding of their buckets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core.format import counted, duration
from pages.figures.colors import palette
from pages.figures.frames import records
from pages.figures.layout import hatch

GOOD = ("useful", "used")
PART_LABELS = {
    "useful": "useful",
    "used": "real tokens",
    "padding": "padding",
    "dead": "dead",
    "fragment": "block ends",
    "room": "reserved ahead",
    "unused": "unused",
    "bucket": "bucket padding",
}
NOISE = 1e-9  # the rounding error of a difference of two equal sums
COLUMNS = ("heading", "noun", "series", "part", "amount", "whole", "share", "before")


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """One way to count waste: its heading and unit, the name of the good part, and the columns of the wasted parts."""

    heading: str
    noun: str
    good: str = "useful"
    whole: tuple[str, ...]
    wasted: tuple[tuple[str, str], ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that a run must have for this breakdown."""
        return (*self.whole, *(column for _, column in self.wasted))


COMPUTED = Breakdown(
    heading="Computed token positions",
    noun="positions",
    whole=("computed_positions",),
    wasted=(("padding", "padding_positions"), ("dead", "dead_positions")),
)
SECONDS = Breakdown(
    heading="Time in passes, attributed by positions",
    noun="s",
    whole=("pass_s",),
    wasted=(("padding", "padding_s"), ("dead", "dead_s")),
)
HELD = Breakdown(
    heading="KV memory held over time, in position-seconds",
    noun="position-seconds",
    good="used",
    whole=("kv_reserved_position_s",),
    wasted=(
        ("padding", "kv_padding_position_s"),
        ("dead", "kv_dead_position_s"),
        ("fragment", "kv_fragment_position_s"),
        ("room", "kv_room_position_s"),
    ),
)
HELD_UNUSED = Breakdown(
    heading=HELD.heading,
    noun=HELD.noun,
    good="used",
    whole=HELD.whole,
    wasted=(("unused", "kv_unused_position_s"),),
)
GRAPH_TOKENS = Breakdown(
    heading="Tokens in CUDA graphs",
    noun="tokens",
    whole=("bucket_tokens",),
    wasted=(("bucket", "bucket_padding_tokens"),),
)
BreakdownGroups = tuple[tuple[Breakdown, ...], ...]  # a run uses the first breakdown of a group that it has data for
ALL_BREAKDOWNS: BreakdownGroups = ((COMPUTED,), (SECONDS,), (HELD, HELD_UNUSED), (GRAPH_TOKENS,))
IN_TIME: BreakdownGroups = ((SECONDS,), (GRAPH_TOKENS,))  # beside kv_layouts, which shows the others


def breakdown_shares(runs: pd.DataFrame, groups: BreakdownGroups = ALL_BREAKDOWNS) -> pd.DataFrame:
    """A row per breakdown, run and part, in COLUMNS: `share` of the whole, and the sum of the shares `before` it.

    Takes a row per run with the run metrics' names, and `series`. A breakdown that a run has no data for, or whose
    whole is 0, is left out.
    """
    rows: list[dict[str, object]] = []
    for alternatives in groups:
        for run in records(runs):
            run = _with_pass_seconds(run)
            breakdown = next((each for each in alternatives if _has(run, each)), None)
            if breakdown is not None:
                rows += _part_rows(breakdown, run)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _with_pass_seconds(run: dict[str, Any]) -> dict[str, Any]:
    """Add `pass_s`, the seconds in passes of all kinds. Old runs have no mixed passes."""
    if any(pd.isna(run.get(name)) for name in ("prefill_s", "decode_s")):
        return run
    mixed_s = run.get("mixed_s")
    return run | {"pass_s": run["prefill_s"] + run["decode_s"] + (0.0 if pd.isna(mixed_s) else mixed_s)}


def _has(run: dict[str, Any], breakdown: Breakdown) -> bool:
    return all(run.get(name) is not None and not pd.isna(run[name]) for name in breakdown.needs)


def _part_rows(breakdown: Breakdown, run: dict[str, Any]) -> list[dict[str, object]]:
    whole = sum(float(run[column]) for column in breakdown.whole)
    if whole <= 0:
        return []
    amounts = {part: float(run[column]) for part, column in breakdown.wasted}
    amounts = {part: amount if amount > NOISE * whole else 0.0 for part, amount in amounts.items()}
    amounts = {breakdown.good: whole - sum(amounts.values())} | amounts
    before = 0.0
    rows: list[dict[str, object]] = []
    for part, amount in amounts.items():
        labels = (breakdown.heading, breakdown.noun, str(run.get("series", "")), part)
        rows.append(dict(zip(COLUMNS, (*labels, amount, whole, amount / whole, before), strict=True)))
        before += amount / whole
    return rows


def part_marker(part: str, dark: bool) -> dict[str, object]:
    """A fill and, where color is not enough, a pattern: dots, hatching, cross lines, or an outline."""
    colors = palette(dark)
    fills = {"padding": colors.padding, "bucket": colors.padding, "dead": colors.dead, "fragment": colors.fragment}
    hollow = part in ("unused", "room")
    fill = colors.empty if hollow else fills.get(part, colors.decode)
    marker: dict[str, object] = {
        "color": fill,
        "line": {"width": 1, "color": colors.faint_text if hollow else colors.surface},
    }
    if part == "dead":
        marker["pattern"] = dict(hatch(dark))
    shapes = {"padding": (".", colors.padding_line), "bucket": (".", colors.padding_line)}
    shapes["fragment"] = ("x", colors.fragment_line)
    if part in shapes:
        shape, line = shapes[part]
        style = {"fillmode": "overlay", "bgcolor": fill, "fgcolor": line, "size": 6, "solidity": 0.28, "fgopacity": 1}
        marker["pattern"] = {"shape": shape, **style}
    return marker


def amount_text(amount: float, noun: str) -> str:
    """An amount with its unit: 1.46 s, 21,100 positions."""
    if noun == "s":
        return duration(amount)
    return f"{counted(amount)} {noun}".rstrip()
