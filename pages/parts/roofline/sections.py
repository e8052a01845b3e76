"""The sections of the Roofline page: finding, roofline, bend, issue and device time, and the table by kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from engine.hardware.pass_points import Utilization, pass_points, utilization
from engine.hardware.roofline import Ceilings
from pages.figures.frames import records
from pages.figures.roofline.pass_time import pass_time_bars
from pages.figures.roofline.roofline import Roof, roofline
from pages.parts.roofline.bend import BendCase
from pages.parts.roofline.ceilings import ChosenCeilings
from pages.parts.roofline.findings import (
    FIGURES,
    HEADER,
    bend_text,
    bend_tiles,
    floor_text,
    headline,
    issue_text,
    kind_rows,
    launch_text,
    left_out_text,
    points_caption,
    share_tiles,
)
from pages.parts.roofline.passes import MeasuredPasses
from pages.parts.runs.badges import show_badges
from pages.parts.shared.charts import in_columns, show_still
from pages.parts.shared.lab import is_dark
from pages.parts.shared.markdown import plain
from pages.parts.shared.tables import draw_table
from pages.parts.shared.tiles import draw_tiles


def ceilings_of(one: MeasuredPasses, chosen: ChosenCeilings, first: MeasuredPasses) -> Ceilings | None:
    """The chosen ceilings, if the series has the first one's dtype, model and device; else None."""
    if chosen.machine is None or (one.dtype, one.shape) != (first.dtype, first.shape):
        return None
    if one.device.get("name") != first.device.get("name"):
        return None
    return chosen.machine.ceilings


def used_of(one: MeasuredPasses, ceilings: Ceilings | None) -> tuple[Utilization, ...]:
    """The share of the ceilings that each kind of pass reached."""
    return utilization(one.points, ceilings)


def draw_finding(series: Sequence[MeasuredPasses], chosen: ChosenCeilings, cases: Sequence[BendCase]) -> None:
    """Badges, the finding, and tiles for a single series."""
    first = series[0]
    with st.container(border=True):
        show_badges(first.row, with_status=False)
        for one in series:
            ceilings = ceilings_of(one, chosen, first)
            text = headline("" if len(series) == 1 else one.name, used_of(one, ceilings), ceilings)
            st.markdown(f"#### {plain(text)}" if len(series) == 1 else f"- {plain(text)}")
        if len(series) == 1:
            ceilings = ceilings_of(first, chosen, first)
            tiles = share_tiles(used_of(first, ceilings)) if ceilings is not None else []
            if len(cases) == 1:
                predicted = cases[0].predicted(first.shape, ceilings)
                tiles += bend_tiles(predicted, cases[0].seen, has_roof=ceilings is not None)
            draw_tiles(tiles)


def draw_roofline(series: Sequence[MeasuredPasses], chosen: ChosenCeilings) -> None:
    """Passes as points under the ceilings."""
    st.subheader("Passes under the ceilings" if chosen.machine else "Passes by intensity", anchor="roofline")
    first = series[0]
    rows = [
        {
            "series": one.name,
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
    with st.expander("How bytes and FLOP are calculated"):
        st.markdown(WHY)


POINT_COLUMNS = ["series", "kind", "rows", "width", "passes", "seconds", "intensity", "flop_per_s"]


def _roof(first: MeasuredPasses, chosen: ChosenCeilings) -> Roof | None:
    if chosen.machine is None:
        return None
    ceilings = chosen.machine.ceilings
    issue_s = ceilings.eager_issue_s
    return Roof(
        name=chosen.machine.label,
        ceilings=ceilings,
        dtype=chosen.machine.dtype,
        launch_bytes_per_s=None if first.is_graph or issue_s <= 0 else first.shape.weight_bytes / issue_s,
    )


def draw_bend(series: Sequence[MeasuredPasses], chosen: ChosenCeilings, cases: Sequence[BendCase]) -> None:
    """The batch size at which more rows are no longer nearly free: predicted and measured."""
    st.subheader("Bend", anchor="bend")
    first = series[0]
    ceilings = ceilings_of(first, chosen, first)
    for case in cases:
        predicted = case.predicted(first.shape, ceilings)
        text = bend_text(case.name, case.width, predicted, case.seen, ceilings)
        st.markdown(f"{text[0].upper() + text[1:] if not case.name else text} {left_out_text(case.left_out)}".rstrip())
    st.caption(
        "The measured bend is the first doubling of rows over which the median decode pass grows faster than the "
        "square root of its rows. Mixed requests also change the width; a sweep keeps it constant."
    )


def draw_step_time(series: Sequence[MeasuredPasses], chosen: ChosenCeilings) -> None:
    """Issue time and device time of passes."""
    st.subheader("Issue and device time", anchor="parts")
    first = series[0]
    frames = [_times_of(one, ceilings_of(one, chosen, first), len(series) > 1) for one in series]
    times = pd.concat(frames, ignore_index=True)
    is_decode = times["kind"] == "decode"
    halves = [(name, times[kept]) for name, kept in (("decode", is_decode), ("prompts", ~is_decode)) if kept.any()]
    in_columns([partial(_draw_half, name, half) for name, half in halves])
    for one, frame in zip(series, frames, strict=True):
        decode = one.groups[(one.groups["kind"] == "decode") & (one.groups["seconds"] > 0)]
        if decode.empty:
            continue
        row = records(decode.assign(floor_s=frame["floor_s"]).nlargest(1, "passes"))[0]
        floor = floor_text(float(row["floor_s"]), float(row["median_s"]))
        prefix = "" if len(series) == 1 else f"{plain(one.name)}: "
        st.caption(f"{prefix}{issue_text(row)} {floor}".rstrip())


def _draw_half(name: str, half: pd.DataFrame) -> None:
    """Decode passes or prefill passes, on separate axes, because prefill passes take far longer."""
    title = "Decode" if name == "decode" else "Prefill and mixed"
    alt = f"Issue and device time of a pass, {name}"
    show_still(pass_time_bars(half, title=title, dark=is_dark()), key=f"parts_{name}", alt=alt)


def _times_of(one: MeasuredPasses, ceilings: Ceilings | None, is_named: bool) -> pd.DataFrame:
    """The pass groups of one series for the figure, prefill first."""
    groups = one.groups[one.groups["seconds"] > 0]
    points = pass_points(records(groups), one.shape)
    floors = [point.read_bytes / point.passes / ceilings.read_bytes_per_s if ceilings else math.nan for point in points]
    columns = ["kind", "rows_from", "rows_to", "passes", "issue_s", "device_s"]
    frame = groups[columns].assign(series=one.name if is_named else "", seconds=groups["median_s"], floor_s=floors)
    order = {"prefill": 0, "mixed": 1, "decode": 2}
    return frame.sort_values(
        ["kind", "rows_from"], key=lambda column: column.map(order) if column.name == "kind" else column
    )


def draw_kinds(series: Sequence[MeasuredPasses], chosen: ChosenCeilings) -> None:
    """A row for each series and kind of pass."""
    st.subheader("By kind of pass", anchor="kinds")
    first = series[0]
    rows = [row for one in series for row in kind_rows(one.name, used_of(one, ceilings_of(one, chosen, first)))]
    draw_table(HEADER, rows, figures=FIGURES)
    left_out = [one.name for one in series if chosen.machine and ceilings_of(one, chosen, first) is None]
    if left_out:
        st.caption(
            f":orange[{plain(', '.join(left_out))}: other model, dtype or device than the first, so not compared with "
            f"these ceilings.]"
        )
    st.caption(
        "MBU and MFU use the time of the passes, without the time between them. The median is of the medians of all "
        "shapes, weighted by their passes."
    )


WHY = """
Bytes per pass: every weight once, and the KV of every cached position that the pass attends over, for the KV heads.
Padding and dead rows count, because they are computed. FLOP: two per weight and token, the logits of rows that yield a
token, and four per query, position, query head and head dimension. Activations, norms, softmax and sampling do not
count.

The slope is the measured bandwidth of reading a large buffer, the flat top the measured rate of a large matrix product
in the run's dtype. The weights of a small model may stay in the last-level cache; its points can then be above the
slope.
"""
