"""Text of the Roofline page: findings, tiles and table rows. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.format import count, duration, is_missing, number, percent, plural, quantity
from engine.hardware.pass_points import LEAST_SAMPLES, Bend, Utilization
from engine.hardware.roofline import Ceilings
from pages.figures.roofline.roofline import bandwidth_text, rate_text
from pages.parts.shared.markdown import listed
from pages.parts.shared.tiles import Tile

HEADER = ("run", "passes", "kind", "median of shapes", "FLOP/byte", "read", "MBU", "computed", "MFU")
FIGURES = (1, 3, 4, 5, 6, 7, 8)
HOST_BOUND, ALL = 0.8, 0.95
MOST_LEFT_OUT = 6  # numbers of rows that are named


def kind_rows(name: str, used: Sequence[Utilization]) -> list[list[str]]:
    """A row a kind of pass, in the columns of HEADER; shares are dashes without ceilings."""
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
    """MBU and MFU of at most two kinds of passes."""
    tiles: list[Tile] = []
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
    """The bend as predicted, if there are ceilings, and as measured."""
    tiles = []
    if has_roof:
        value = "never" if predicted is None else count(predicted)
        tiles.append(Tile(label="bend predicted at batch", value=value, note="with KV reads", hint=BEND_HINT))
    return [*tiles, Tile(label="bend measured between", value=_seen_value(seen), note=_seen_note(seen), hint=SEEN_HINT)]


def _percent(value: float) -> str:
    return number(value * 100)


def _seen_value(seen: Bend | None) -> str:
    if seen is None:
        return "–"
    return "not reached" if seen.high is None else f"{count(seen.low)} and {count(seen.high)}"


def _seen_note(seen: Bend | None) -> str:
    if seen is None:
        return "one batch size only"
    return f"up to {plural(seen.low, 'row')}" if seen.high is None else f"pass time x{number(seen.growth)}"


MBU_HINT = "Model bandwidth utilization: bytes of weights and KV per second, as a share of the ceiling"
MFU_HINT = "Model FLOP utilization: FLOP per second that the passes need, as a share of the ceiling"
BEND_HINT = "The batch size at which a decode pass reaches the balance point"
SEEN_HINT = "Where the time of a decode pass grows faster than the square root of its rows"


def headline(name: str, used: Sequence[Utilization], ceilings: Ceilings | None) -> str:
    """The finding: which shares of the ceilings each kind of pass reached, and on which side of the balance point."""
    if not used:
        return "No pass has ended yet."
    text = "; ".join(_reached(of_kind, ceilings) for of_kind in used)
    return f"{name}: {text}." if name else f"{text[0].upper()}{text[1:]}."


def _reached(used: Utilization, ceilings: Ceilings | None) -> str:
    if ceilings is None:
        return (
            f"{used.kind} did {quantity(used.intensity, 'FLOP/byte')} and reached {rate_text(used.flop_per_s)}, "
            f"reading {bandwidth_text(used.bytes_per_s)}"
        )
    side = "left" if used.intensity < ceilings.balance_flop_per_byte else "right"
    return (
        f"{used.kind} did {quantity(used.intensity, 'FLOP/byte')}, {side} of the balance point, and reached "
        f"{percent(used.mbu)} of the bandwidth and {percent(used.mfu)} of the compute ceiling"
    )


def points_caption(marks: int, passes: int) -> str:
    """The number of passes that the marks show."""
    merged = "" if marks == passes else f" in {plural(marks, 'mark')}, one for each shape"
    return f"{plural(passes, 'pass', 'passes')}{merged}; larger marks are more passes."


def launch_text(ceilings: Ceilings, used: Sequence[Utilization], *, is_graph: bool, is_own: bool) -> str:
    """The time of issuing kernels, compared with a decode pass."""
    if is_graph:
        return "Its passes are CUDA graphs with one launch each, so issuing kernels is no ceiling."
    floor_s = ceilings.eager_issue_s
    text = (
        f"Issuing {count(ceilings.kernels_per_pass)} kernels at {duration(ceilings.launch_s)} each takes "
        f"{duration(floor_s)} per pass"
    )
    decode = next((of_kind for of_kind in used if of_kind.kind == "decode"), None)
    if decode is None or not is_own:
        return f"{text}."
    share = floor_s / decode.median_s
    return f"{text}, {percent(share) if share < ALL else 'about all'} of a decode pass."


def bend_text(name: str, width: int | None, predicted: int | None, seen: Bend | None, ceilings: Ceilings | None) -> str:
    """The predicted bend, with KV reads, and the measured one."""
    prefix = f"**{name}:** " if name else ""
    if width is None:
        return f"{prefix}no decode pass has run."
    findings = []
    if ceilings is not None:
        balance = quantity(ceilings.balance_flop_per_byte, "FLOP/byte")
        if predicted is None:
            findings.append(
                f"at a width of {count(width)} tokens, KV reads keep a decode pass below the balance point of "
                f"{balance} at any batch size"
            )
        else:
            findings.append(
                f"at a width of {count(width)} tokens, a decode pass reaches the balance point of {balance} "
                f"at **batch {count(predicted)}**"
            )
    findings.append(_seen_text(seen))
    return f"{prefix}{'; '.join(findings)}."


def _seen_text(seen: Bend | None) -> str:
    if seen is None:
        return "too few batch sizes have enough passes to measure the bend"
    times = f"{number(seen.growth)} times as long as one of"
    if seen.high is None:
        return (
            f"the bend is **not reached** up to {plural(seen.low, 'row')}: such a pass took {times} "
            f"{count(seen.smallest)}"
        )
    return (
        f"the measured bend is **between {count(seen.low)} and {count(seen.high)} rows**: a pass of "
        f"{count(seen.high)} took {times} {count(seen.low)}"
    )


def left_out_text(rows: Sequence[int]) -> str:
    """The numbers of rows that are missing from the measured bend; empty for none."""
    if not rows:
        return ""
    shown = [count(number_of) for number_of in rows[:MOST_LEFT_OUT]]
    more = [f"{count(len(rows) - MOST_LEFT_OUT)} more"] if len(rows) > MOST_LEFT_OUT else []
    numbers = listed([*shown, *more])
    noun = "row" if tuple(rows) == (1,) else "rows"
    return f"Left out: {numbers} {noun}, with fewer than {LEAST_SAMPLES} decode passes each."


def issue_text(row: Mapping[str, Any]) -> str:
    """Issue and device time of the most frequent decode passes: whether the host or the device limits them."""
    took, issue, device = (row.get(name) for name in ("median_s", "issue_s", "device_s"))
    low, high = int(row["rows_from"]), int(row["rows_to"])
    rows = plural(high, "row") if low == high else f"{low} to {high} rows"
    if is_missing(issue) or not took:
        return (
            f"The median decode pass of {rows} took {duration(took)}. On a CPU, issuing an operation also computes it."
        )
    share = float(issue or 0.0) / float(took)
    limit = "host-bound" if share >= HOST_BOUND else "device-bound" if share < 0.5 else "neither waits long"
    on_device = "" if is_missing(device) else f"; the device takes {duration(device)} from first to last kernel"
    return (
        f"The median decode pass of {rows} took {duration(took)}; the host issues kernels for {duration(issue)} "
        f"({percent(share)}){on_device}: {limit}."
    )


def floor_text(floor_s: float, median_s: float) -> str:
    """The share of a median decode pass that reading its bytes takes: the tick of the figure."""
    if math.isnan(floor_s) or floor_s <= 0 or not median_s > 0:
        return ""
    return f"Reading its bytes at the bandwidth ceiling takes {duration(floor_s)} ({percent(floor_s / median_s)})."
