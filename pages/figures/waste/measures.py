"""What a run computed, spent and held, as measures with parts: the good part, and each kind of waste.

Seconds are an attribution (a pass's seconds times the wasted share of its positions), not a measurement, and are called
so. Memory is what was held, for as long as it was held: padding and dead rows of a padded batch, the unfilled ends of
the last blocks of a paged one, and room that is kept for tokens to come. Runs that did not log what their memory held
have only `unused`. Tokens in CUDA graphs are those of the captured passes, the padding of their buckets included.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core.format import counted, duration
from pages.figures.colors import palette
from pages.figures.layout import hatch

GOOD = ("useful", "used")
PART_WORDS = {
    "useful": "useful",
    "used": "used",
    "padding": "padding",
    "dead": "dead",
    "fragment": "block ends",
    "room": "room",
    "unused": "unused",
    "bucket": "bucket padding",
}
NOISE = 1e-9  # what is left of a difference of two equal sums
COLUMNS = ("heading", "noun", "series", "part", "amount", "whole", "share", "before")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One way to count waste: what the whole and its good part are called, and which columns are the wasted parts."""

    heading: str
    noun: str
    good: str = "useful"
    whole: tuple[str, ...]
    wasted: tuple[tuple[str, str], ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that a run must have for this measure."""
        return (*self.whole, *(column for _, column in self.wasted))


COMPUTED = Measure(
    heading="Computed token positions",
    noun="positions",
    whole=("computed_positions",),
    wasted=(("padding", "padding_positions"), ("dead", "dead_positions")),
)
SECONDS = Measure(
    heading="Seconds in passes, attributed by positions",
    noun="s",
    whole=("pass_s",),
    wasted=(("padding", "padding_s"), ("dead", "dead_s")),
)
HELD = Measure(
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
HELD_AS_A_WHOLE = Measure(
    heading=HELD.heading,
    noun=HELD.noun,
    good="used",
    whole=HELD.whole,
    wasted=(("unused", "kv_unused_position_s"),),
)
IN_BUCKETS = Measure(
    heading="Tokens of the passes that were CUDA graphs",
    noun="tokens",
    whole=("bucket_tokens",),
    wasted=(("bucket", "bucket_padding_tokens"),),
)
Measures = tuple[tuple[Measure, ...], ...]  # of each group, the first that a run has
MEASURES: Measures = ((COMPUTED,), (SECONDS,), (HELD, HELD_AS_A_WHOLE), (IN_BUCKETS,))
IN_TIME: Measures = ((SECONDS,), (IN_BUCKETS,))  # beside kv_layouts, which tells the rest


def ledger_shares(ledger: pd.DataFrame, measures: Measures = MEASURES) -> pd.DataFrame:
    """The ledger as one row a measure, run and part, in COLUMNS: `share` of the whole, and the shares `before` it.

    Takes one row a run with the run metrics' names, and `series`. A measure that a run lacks, or whose whole is 0, is
    left out.
    """
    rows: list[dict[str, object]] = []
    for alternatives in measures:
        for record in ledger.to_dict("records"):
            record = _with_pass_seconds(record)
            measure = next((m for m in alternatives if _has(record, m)), None)
            if measure is not None:
                rows += _parts(measure, record)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _with_pass_seconds(record: dict[Hashable, Any]) -> dict[Hashable, Any]:
    """Adds `pass_s`, the seconds in passes of every kind; a run that is too old for mixed passes had none."""
    kinds = [record.get(name) for name in ("prefill_s", "decode_s")]
    if any(seconds is None or pd.isna(seconds) for seconds in kinds):
        return record
    mixed = record.get("mixed_s")
    return record | {"pass_s": sum(kinds) + (0.0 if mixed is None or pd.isna(mixed) else mixed)}


def _has(record: dict[Hashable, Any], measure: Measure) -> bool:
    return all(record.get(name) is not None and not pd.isna(record[name]) for name in measure.needs)


def _parts(measure: Measure, record: dict[Hashable, Any]) -> list[dict[str, object]]:
    whole = sum(float(record[column]) for column in measure.whole)
    if whole <= 0:
        return []
    amounts = {part: float(record[column]) for part, column in measure.wasted}
    amounts = {part: amount if amount > NOISE * whole else 0.0 for part, amount in amounts.items()}
    amounts = {measure.good: whole - sum(amounts.values())} | amounts
    before, rows = 0.0, []
    for part, amount in amounts.items():
        what = (measure.heading, measure.noun, str(record.get("series", "")), part)
        rows.append(dict(zip(COLUMNS, (*what, amount, whole, amount / whole, before), strict=True)))
        before += amount / whole
    return rows


def part_marker(part: str, dark: bool) -> dict[str, object]:
    """A fill and, where color alone would not do, a pattern: dots, hatching, cross lines, or an outline."""
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
        shape, ink = shapes[part]
        look = {"fillmode": "overlay", "bgcolor": fill, "fgcolor": ink, "size": 6, "solidity": 0.28, "fgopacity": 1}
        marker["pattern"] = {"shape": shape, **look}
    return marker


def amount_text(amount: float, noun: str) -> str:
    """An amount with its unit: 1.46 s, 21,100 positions."""
    if noun == "s":
        return duration(amount)
    return f"{counted(amount)} {noun}".rstrip()
