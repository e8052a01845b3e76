"""The parts of the Roofline page: the finding with its tiles, the roofline, the bend, a pass's parts, every kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from engine.hardware.pass_points import Utilization, pass_points, utilization
from engine.hardware.roofline import Ceilings
from pages.figures.roofline.pass_time import pass_time_bars
from pages.figures.roofline.roofline import Roof, roofline
from pages.parts.roofline.bend import BendCase
from pages.parts.roofline.ceilings import Chosen
from pages.parts.roofline.findings import (
    FIGURES,
    HEADER,
    bend_text,
    bend_tiles,
    floor_text,
    headline,
    kind_rows,
    launch_text,
    parts_text,
    points_caption,
    share_tiles,
)
from pages.parts.roofline.passes import Measured
from pages.parts.runs.badges import show_badges
from pages.parts.shared.charts import in_columns, show_still
from pages.parts.shared.lab import is_dark
from pages.parts.shared.markdown import plain
from pages.parts.shared.tables import draw_table
from pages.parts.shared.tiles import draw_tiles


def ceilings_of(one: Measured, chosen: Chosen, first: Measured) -> Ceilings | None:
    """The chosen ceilings, for a series of the same dtype and model; shares of another's would mean nothing."""
    if chosen.machine is None or (one.dtype, one.shape) != (first.dtype, first.shape):
        return None
    if one.device.get("name") != first.device.get("name"):
        return None
    return chosen.machine.ceilings


def used_of(one: Measured, ceilings: Ceilings | None) -> tuple[Utilization, ...]:
    """What its passes used of the ceilings, a kind of pass each."""
    return utilization(one.points, ceilings)


def draw_finding(series: Sequence[Measured], chosen: Chosen, cases: Sequence[BendCase]) -> None:
    """Badges, the finding in words, and for one series its tiles."""
    first = series[0]
    with st.container(border=True):
        show_badges(first.row, with_status=False)
        for one in series:
            ceilings = ceilings_of(one, chosen, first)
            words = headline("" if len(series) == 1 else one.name, used_of(one, ceilings), ceilings)
            st.markdown(f"#### {plain(words)}" if len(series) == 1 else f"- {plain(words)}")
        if len(series) == 1:
            ceilings = ceilings_of(first, chosen, first)
            tiles = share_tiles(used_of(first, ceilings)) if ceilings is not None else []
            if len(cases) == 1:
                predicted = cases[0].predicted(first.shape, ceilings)
                tiles += bend_tiles(predicted, cases[0].seen, has_roof=ceilings is not None)
            draw_tiles(tiles)


def draw_roofline(series: Sequence[Measured], chosen: Chosen) -> None:
    """Passes as points under the ceilings."""
    st.subheader("Passes under the ceilings", anchor="roofline")
    first = series[0]
    rows = [
        {
            "series": plain(one.name),
            "kind": point.kind,
            "rows": point.rows,
            "width": point.width,
            "passes": point.passes,
            "seconds": point.median_s,
            "intensity": point.intensity,
            "flop_per_s": point.flop_per_s,
        }
        for one in series
        for point in one.points
    ]
    points = pd.DataFrame(rows, columns=POINT_COLUMNS)
    show_still(roofline(points, _roof(first, chosen), dark=is_dark()), key="roofline", alt="Roofline")
    st.caption(points_caption(len(points), int(points["passes"].sum())))
    if chosen.machine is not None:
        used = used_of(first, ceilings_of(first, chosen, first))
        launches = launch_text(chosen.machine.ceilings, used, is_graph=first.is_graph, is_own=chosen.is_own)
        st.caption(f"{chosen.machine.source.rstrip('.')}. {launches}")
    with st.expander("How bytes and FLOP are counted"):
        st.markdown(WHY)


POINT_COLUMNS = ["series", "kind", "rows", "width", "passes", "seconds", "intensity", "flop_per_s"]


def _roof(first: Measured, chosen: Chosen) -> Roof | None:
    if chosen.machine is None:
        return None
    ceilings = chosen.machine.ceilings
    issue_s = ceilings.eager_issue_s
    return Roof(
        name=chosen.machine.label,
        read_bytes_per_s=ceilings.read_bytes_per_s,
        flop_per_s=ceilings.flop_per_s,
        dtype=chosen.machine.dtype,
        launch_bytes_per_s=None if first.is_graph or issue_s <= 0 else first.shape.weight_bytes / issue_s,
    )


def draw_bend(series: Sequence[Measured], chosen: Chosen, cases: Sequence[BendCase]) -> None:
    """The batch size at which more rows stop being nearly free: predicted, and seen."""
    st.subheader("The bend", anchor="bend")
    first = series[0]
    ceilings = ceilings_of(first, chosen, first)
    for case in cases:
        predicted = case.predicted(first.shape, ceilings)
        words = bend_text(case.name, case.width, predicted, case.seen, ceilings)
        st.markdown(words[0].upper() + words[1:] if not case.name else words)
    st.caption(
        "Seen: where a decode pass's median time first grows faster than the square root of its rows, over doublings: "
        "halfway between free and no gain at all. In a run of mixed requests widths change too; a sweep holds them."
    )


def draw_step_time(series: Sequence[Measured], chosen: Chosen) -> None:
    """Issue time and device time of a pass, apart."""
    st.subheader("Issuing and computing", anchor="parts")
    first = series[0]
    frames = [_parts_of(one, ceilings_of(one, chosen, first), len(series) > 1) for one in series]
    parts = pd.concat(frames, ignore_index=True)
    is_decode = parts["kind"] == "decode"
    halves = [(name, parts[kept]) for name, kept in (("decode", is_decode), ("prompts", ~is_decode)) if kept.any()]
    in_columns([partial(_draw_half, name, half) for name, half in halves])
    for one, frame in zip(series, frames, strict=True):
        decode = one.groups[(one.groups["kind"] == "decode") & (one.groups["seconds"] > 0)]
        if decode.empty:
            continue
        most = decode["passes"].idxmax()
        row = decode.loc[most].to_dict()
        floor = floor_text(float(frame["floor_s"].to_dict()[most]), float(row["median_s"]))
        who = "" if len(series) == 1 else f"{plain(one.name)}: "
        st.caption(f"{who}{parts_text(row)} {floor}".rstrip())


def _draw_half(name: str, half: pd.DataFrame) -> None:
    """Decode passes, or passes that read prompts: each on an axis of its own, since the latter take far longer."""
    title = "Decode" if name == "decode" else "Reading prompts"
    alt = f"Issue and device time of a pass, {name}"
    show_still(pass_time_bars(half, title=title, dark=is_dark()), key=f"parts_{name}", alt=alt)


def _parts_of(one: Measured, ceilings: Ceilings | None, is_named: bool) -> pd.DataFrame:
    """The groups of one series as the figure takes them, prefill first."""
    groups = one.groups[one.groups["seconds"] > 0]
    points = pass_points(groups.to_dict("records"), one.shape)
    floors = [point.read_bytes / point.passes / ceilings.read_bytes_per_s if ceilings else math.nan for point in points]
    columns = ["kind", "rows_from", "rows_to", "passes", "issue_s", "device_s"]
    frame = groups[columns].assign(
        series=plain(one.name) if is_named else "", seconds=groups["median_s"], floor_s=floors
    )
    order = {"prefill": 0, "mixed": 1, "decode": 2}
    return frame.sort_values(
        ["kind", "rows_from"], key=lambda column: column.map(order) if column.name == "kind" else column
    )


def draw_kinds(series: Sequence[Measured], chosen: Chosen) -> None:
    """Every series and kind of pass as a line."""
    st.subheader("By kind of pass", anchor="kinds")
    first = series[0]
    rows = [row for one in series for row in kind_rows(one.name, used_of(one, ceilings_of(one, chosen, first)))]
    draw_table(HEADER, rows, figures=FIGURES)
    left_out = [one.name for one in series if chosen.machine and ceilings_of(one, chosen, first) is None]
    if left_out:
        st.caption(
            f":orange[{plain(', '.join(left_out))}: another model, dtype or device than the first; not held against "
            f"these ceilings.]"
        )
    st.caption(
        "MBU and MFU are over the time of the passes alone; what the loop does between them is not in it. The median "
        "is of the shapes' own medians, each as often as it ran."
    )


WHY = """
Bytes: every weight once a pass, and each cached position that the pass attends over, of the KV heads (a group of query
heads shares them). Rows as wide as the widest are counted as wide; padding and dead rows are counted as they are
computed. FLOP: two a weight for each token through the layers, the logits of rows that yield a token, and four for each
query, position, query head and its width. Not counted: activations, norms, softmax, sampling.

The slope is the bandwidth that reading a large buffer reached, the flat top a large matrix product in the run's number
format. A small model's weights may stay in a CPU's or GPU's last cache: its points may then stand above the slope.
"""
