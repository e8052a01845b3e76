"""The Roofline page in words: findings, tiles and table rows, all reckoned from the passes at hand. Pure text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.format import count, duration, is_missing, number, percent, plural
from engine.hardware.pass_points import Bend, Utilization
from engine.hardware.roofline import Ceilings
from pages.figures.roofline.roofline import bandwidth_text, rate_text
from pages.parts.shared.tiles import Tile

HEADER = ("run", "passes", "kind", "median of shapes", "FLOP a byte", "read", "MBU", "computed", "MFU")
FIGURES = (1, 3, 4, 5, 6, 7, 8)
HOST_BOUND, ALL = 0.8, 0.95


def kind_rows(name: str, used: Sequence[Utilization]) -> list[list[str]]:
    """A line a kind of pass, in HEADER's columns; shares are dashes without ceilings."""
    return [
        [
            name,
            count(of_kind.passes),
            of_kind.kind,
            duration(of_kind.median_s),
            number(of_kind.intensity),
            bandwidth_text(of_kind.bytes_per_s),
            percent(of_kind.mbu),
            rate_text(of_kind.flop_per_s),
            percent(of_kind.mfu),
        ]
        for of_kind in used
    ]


def share_tiles(used: Sequence[Utilization]) -> list[Tile]:
    """MBU and MFU of two kinds of passes at most."""
    tiles = []
    for kind in ("decode", "prefill", "mixed"):
        mine = next((of_kind for of_kind in used if of_kind.kind == kind), None)
        if mine is None or len(tiles) > 2:
            continue
        note = plural(mine.passes, "pass", "passes")
        tiles += [
            Tile(label=f"{kind} MBU", value=_percent(mine.mbu), unit="%", note=note, hint=MBU_HINT),
            Tile(label=f"{kind} MFU", value=_percent(mine.mfu), unit="%", note=note, hint=MFU_HINT),
        ]
    return tiles


def bend_tiles(predicted: int | None, seen: Bend | None, *, has_roof: bool) -> list[Tile]:
    """The bend as predicted, where there are ceilings to predict it from, and as seen."""
    tiles = []
    if has_roof:
        value = "never" if predicted is None else count(predicted)
        tiles.append(Tile(label="bend predicted at batch", value=value, note="KV reads counted", hint=BEND_HINT))
    return [*tiles, Tile(label="bend seen between", value=_seen_value(seen), note=_seen_note(seen), hint=SEEN_HINT)]


def _percent(value: float) -> str:
    return number(value * 100)


def _seen_value(seen: Bend | None) -> str:
    if seen is None:
        return "–"
    return "not reached" if seen.high is None else f"{count(seen.low)} and {count(seen.high)}"


def _seen_note(seen: Bend | None) -> str:
    if seen is None:
        return "one batch size only"
    return f"up to {plural(seen.low, 'row')}" if seen.high is None else f"a pass took {number(seen.growth)} times"


MBU_HINT = "Model bandwidth utilization: bytes of weights and of KV heads' keys and values, over time, over the ceiling"
MFU_HINT = "Model FLOP utilization: the arithmetic that the passes asked for, over time, over the ceiling"
BEND_HINT = "The batch size whose decode pass computes as much a byte as the balance point"
SEEN_HINT = "Where a decode pass's time grew faster than the square root of its rows"


def headline(name: str, used: Sequence[Utilization], ceilings: Ceilings | None) -> str:
    """The finding: how near decode and prefill came to what the machine can do, and on which side of the balance."""
    if not used:
        return "No pass has ended yet."
    who = f"{name}: " if name else ""
    said = "; ".join(_reached(of_kind, ceilings) for of_kind in used)
    return f"{who}{said}." if who else f"{said[0].upper()}{said[1:]}."


def _reached(used: Utilization, ceilings: Ceilings | None) -> str:
    if ceilings is None:
        return (
            f"{used.kind} did {number(used.intensity)} FLOP a byte and reached {rate_text(used.flop_per_s)}, reading "
            f"{bandwidth_text(used.bytes_per_s)}"
        )
    side = "left" if used.intensity < ceilings.balance_flop_per_byte else "right"
    return (
        f"{used.kind} did {number(used.intensity)} FLOP a byte, {side} of the balance point, and reached "
        f"{percent(used.mbu)} of the bandwidth and {percent(used.mfu)} of the arithmetic"
    )


def points_caption(marks: int, passes: int) -> str:
    """How many passes stand behind the marks."""
    together = "" if marks == passes else f" in {plural(marks, 'mark')}, those of about one shape together"
    return f"{plural(passes, 'pass', 'passes')}{together}; a larger mark stands for more of them."


def launch_text(ceilings: Ceilings, used: Sequence[Utilization], *, is_graph: bool, is_own: bool) -> str:
    """What issuing alone would take, beside what a decode pass took."""
    if is_graph:
        return "Its passes were CUDA graphs: one launch each, so issuing kernels is no ceiling here."
    floor_s = ceilings.eager_issue_s
    words = (
        f"Issuing {count(ceilings.kernels_per_pass)} operations at {duration(ceilings.launch_s)} each takes "
        f"{duration(floor_s)} a pass, whatever is in it"
    )
    decode = next((of_kind for of_kind in used if of_kind.kind == "decode"), None)
    if decode is None or not is_own:
        return f"{words}."
    part = floor_s / decode.median_s
    return f"{words}: {percent(part) if part < ALL else 'about all'} of a decode pass here."


def bend_text(name: str, width: int | None, predicted: int | None, seen: Bend | None, ceilings: Ceilings | None) -> str:
    """Where the bend is predicted, why it is not simply the balance point, and where it was seen."""
    who = f"**{name}:** " if name else ""
    if width is None:
        return f"{who}no decode pass has run, so there is no bend to look for."
    parts = []
    if ceilings is not None:
        balance = number(ceilings.balance_flop_per_byte)
        if predicted is None:
            parts.append(
                f"at a width of {count(width)} columns each row's own keys and values keep a pass below the balance "
                f"point of {balance} FLOP a byte at any batch size: reading stays ahead of arithmetic"
            )
        else:
            parts.append(
                f"at a width of {count(width)} columns a decode pass meets the balance point of {balance} FLOP a byte "
                f"at **batch {count(predicted)}**"
            )
    parts.append(_seen_text(seen))
    return f"{who}{'; '.join(parts)}."


def _seen_text(seen: Bend | None) -> str:
    if seen is None:
        return "too few batch sizes ran often enough to see it"
    times = f"{number(seen.growth)} times as long as one of"
    if seen.high is None:
        return (
            f"it was **not reached** up to {plural(seen.low, 'row')}: such a pass took {times} {count(seen.smallest)}"
        )
    return (
        f"it was seen **between {count(seen.low)} and {count(seen.high)} rows**: a pass of {count(seen.high)} took "
        f"{times} {count(seen.low)}"
    )


def parts_text(row: Mapping[str, Any]) -> str:
    """S1's split for the most frequent decode group: whether the host or the device is what a pass waits for."""
    took, issue, device = (row.get(name) for name in ("median_s", "issue_s", "device_s"))
    low, high = int(row["rows_from"]), int(row["rows_to"])
    rows = plural(high, "row") if low == high else f"{low} to {high} rows"
    if is_missing(issue) or not took:
        return (
            f"A decode pass of {rows} took {duration(took)} at the median. On a CPU issuing and computing are one: the "
            f"call that issues an operation carries it out."
        )
    part = float(issue or 0.0) / float(took)
    verdict = (
        "the host is what a pass waits for"
        if part >= HOST_BOUND
        else "the device is what a pass waits for"
        if part < 0.5
        else "neither waits long for the other"
    )
    on_device = "" if is_missing(device) else f", and the device needs {duration(device)} from first kernel to last"
    return (
        f"A decode pass of {rows} took {duration(took)} at the median; the host issues for {duration(issue)} of it "
        f"({percent(part)}){on_device}: {verdict}."
    )


def floor_text(floor_s: float, median_s: float) -> str:
    """What part of a median decode pass its bytes alone would take: the figure's tick over its bar."""
    if math.isnan(floor_s) or floor_s <= 0 or not median_s > 0:
        return ""
    took = f"{duration(floor_s)}: {percent(floor_s / median_s)}"
    return f"Its bytes alone, at the bandwidth of these ceilings, take {took}."
