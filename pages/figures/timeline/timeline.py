"""The slot timeline: lanes down, steps or seconds across, and the phase of each lane over time.

Gray is prefill, one span per chunk where prefill is chunked. Green is decode. Hatched red is dead: a row that is still
computed although its request has finished. A triangle marks a preemption. A thin strip above shows the queue. Up to
DENSE_SPANS visible spans are drawn one by one; above that the figure is an overview in time bins, and its x axis says
so. The last lanes, if more than FEW_UNUSED of them were never used, are folded into one line of text. The figure does
not know why a request waits or ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import duration, percent, plural
from pages.figures.colors import PHASES, Palette, palette
from pages.figures.comparison import compared
from pages.figures.layout import axis, hatch, label, legend_above, legend_name, new_figure, note_figure, set_layout
from pages.figures.timeline.overview import add_overview
from pages.figures.timeline.preemptions import add_preemptions
from pages.figures.timeline.queue import add_queue_strip
from pages.figures.timeline.spans import (
    AXIS_TITLES,
    Unit,
    closed_spans,
    fill_empty,
    hover_texts,
    merge_moves,
    unit_columns,
    visible_spans,
)

DENSE_SPANS = 4000
DENSE_SPANS_A_LANE = 600
NUMBER_PX = 12
LANE_FILL = 0.88
THINNEST_LANE_PX = 5
MIN_SHARE = 5e-4  # a smaller share of a lane is rounding
STRIP_PX = 42
STRIP_GAP_PX = 12
LEGEND_PX = 30
FEW_UNUSED = 4
FOLD_PX = 20
NO_SPANS = "No request has a slot yet."
DRAWING_ORDER = ("empty", "decode", "dead", "prefill")  # prefill last: half a step wide, it must not be covered
PHASE_LABELS = {"prefill": "prefill", "decode": "decode", "dead": "dead slot", "empty": "empty"}


def slot_timeline(
    spans: pd.DataFrame,
    *,
    unit: Unit = "step",
    queue: pd.DataFrame | None = None,
    x_range: tuple[float, float] | None = None,
    num_lanes: int | None = None,
    preemptions: pd.DataFrame | None = None,
    title: str = "",
    note: str = NO_SPANS,
    most_px: float = math.inf,
    folds: bool = True,
    dark: bool = False,
) -> go.Figure:
    """Draw spans (columns as in spans.COLUMNS) over lanes; `queue` is a frame of queue.queue_from_passes.

    `preemptions` are rows of the run log's events: lane, request_id, blocks, tokens, step, time_s. `x_range`, in the
    unit drawn, fixes the axis to make runs comparable. `num_lanes` adds lanes that no request used; `folds` folds them
    where they are many. `note` is the text of a figure without spans. The height depends only on the drawn lanes, the
    title and whether `queue` is given. `most_px` limits the height of all lanes together.
    """
    closed = closed_spans(spans)
    folded = unused_lanes(closed, num_lanes) if folds else 0
    lanes = _all_lanes(closed, num_lanes) - folded
    if lanes == 0:
        return note_figure(note, dark=dark, title=title)
    window = x_range or shared_range([closed], unit)
    merged = merge_moves(closed)
    shown = visible_spans(merged, unit, window)
    px = min(lane_px(lanes), most_px / lanes)
    figure = _canvas(lanes, px, window, unit, queue is not None, folded, title, dark)
    if closed.empty:
        _add_note(figure, note, dark)
    elif is_dense(shown, lanes, px):
        rows_a_lane = 5 if px >= THINNEST_LANE_PX else 1
        add_overview(figure, shown, unit=unit, window=window, num_lanes=lanes, rows_a_lane=rows_a_lane, dark=dark)
        for phase in PHASES:
            _add_legend_entry(figure, phase, dark)
    else:
        _add_bars(figure, visible_spans(fill_empty(merged, lanes, unit), unit, window), px, unit, window, dark)
    if preemptions is not None and not preemptions.empty:
        add_preemptions(figure, preemptions, y=preemptions["lane"].to_numpy(dtype=float), unit=unit, dark=dark)
    if queue is not None and not queue.empty:
        add_queue_strip(figure, queue, unit=unit, window=window, dark=dark)
    return figure


def unused_lanes(spans: pd.DataFrame, num_lanes: int | None) -> int:
    """The number of lanes after the last used one, which are folded: 0 for up to FEW_UNUSED, or without a span.

    Takes closed spans.
    """
    used = _all_lanes(spans, None)
    unused = (num_lanes or 0) - used
    return unused if used and unused > FEW_UNUSED else 0


def _all_lanes(spans: pd.DataFrame, num_lanes: int | None) -> int:
    """The lanes up to the last used one, and at least `num_lanes`."""
    return max(num_lanes or 0, 0 if spans.empty else int(spans["lane"].max()) + 1)


def is_dense(spans: pd.DataFrame, num_lanes: int, px: float | None = None) -> bool:
    """True where single spans are too many to draw or too narrow to see. `px` is the height of a lane."""
    px = lane_px(num_lanes) if px is None else px
    return len(spans) > min(DENSE_SPANS, DENSE_SPANS_A_LANE * num_lanes) or px < THINNEST_LANE_PX


def shared_range(frames: Sequence[pd.DataFrame], unit: Unit = "step") -> tuple[float, float]:
    """The x range that several runs share: from 0 to the end of the longest."""
    start, end = unit_columns(unit)
    ends = [frame[[start, end]].max().max() for frame in frames if not frame.empty]
    known = [float(value) for value in ends if pd.notna(value)]
    return (0.0, max(known, default=0.0) or 1.0)


def round_end(newest: float) -> float:
    """The next round number at or above `newest`, which is above 0. An axis that ends there rarely moves."""
    power = 10.0 ** math.floor(math.log10(newest))
    steps = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
    return next(step * power for step in steps if newest <= step * power * (1 + 1e-9))


def lane_px(num_lanes: int) -> float:
    """The height of a lane: 34 pixels for a few lanes, 8 for up to 150, then 1,200 pixels over all lanes."""
    return min(34.0, max(704 / num_lanes, min(8.0, 1200 / num_lanes)))


def number_px(px: float) -> int:
    """The font size of the request's number inside a span of a lane that is `px` high; 0 where lanes are too thin."""
    fits = int((px * LANE_FILL - 8) / 1.4)  # two pixels to spare: a browser rounds the height of a bar
    return min(NUMBER_PX, fits) if fits >= 8 else 0


def _canvas(
    lanes: int, px: float, window: tuple[float, float], unit: Unit, has_strip: bool, folded: int, title: str, dark: bool
) -> go.Figure:
    """The axes: lanes below, the queue strip above, one x axis. Heights depend on the number of lanes.

    `folded` lanes are a line of text under the others.
    """
    fold_px = FOLD_PX if folded else 0
    lanes_px = round(lanes * px) + 6 + fold_px
    strip_px = STRIP_PX + STRIP_GAP_PX if has_strip else 0
    figure = new_figure(plot_px=lanes_px + strip_px, dark=dark, title=title, top=LEGEND_PX)
    inner_px = lanes_px + strip_px
    top_of_lanes = lanes_px / inner_px
    every = max(1, math.ceil(14 / px))
    ticks = list(range(0, lanes, every))
    set_layout(
        figure,
        barmode="overlay",
        bargap=0,
        dragmode="zoom",
        showlegend=True,
        uniformtext={"mode": "hide", "minsize": number_px(px) or NUMBER_PX},
        xaxis=axis(dark, title=AXIS_TITLES[unit], range=list(window), anchor="y"),
        yaxis=axis(
            dark,
            title="lane",
            range=[lanes - 0.45 + fold_px / px, -0.55],
            tickvals=ticks,
            ticktext=[str(t) for t in ticks],
            showgrid=False,
            fixedrange=True,
            domain=[0, top_of_lanes],
        ),
        legend=legend_above(gap_px=6, plot_px=inner_px),
    )
    if has_strip:
        strip = axis(dark, title="queue", domain=[1 - STRIP_PX / inner_px, 1], anchor="x", fixedrange=True)
        set_layout(figure, yaxis2=strip)
    if folded:
        text = f"{plural(folded, 'more lane')} were never used"
        place = {"x": 0, "xref": "x domain", "y": lanes - 0.45 + fold_px / px / 2, "yref": "y"}
        figure.add_annotation(label(text, **place, font={"size": 12, "color": palette(dark).faint_text}))
    return figure


def _add_note(figure: go.Figure, note: str, dark: bool) -> None:
    """A text in the middle of empty lanes, under the usual legend."""
    for phase in PHASES:
        _add_legend_entry(figure, phase, dark)
    faint = palette(dark).faint_text
    place = {"x": 0.5, "xref": "x domain", "y": 0.5, "yref": "y domain", "xanchor": "center"}
    figure.add_annotation(label(note, **place, font={"size": 14, "color": faint}))


def _add_bars(
    figure: go.Figure, spans: pd.DataFrame, px: float, unit: Unit, window: tuple[float, float], dark: bool
) -> None:
    """One bar trace per phase. Every phase is in the legend, drawn or not, so the legends of two runs agree."""
    start, end = unit_columns(unit)
    size_px = number_px(px)
    numbered = _numbered(spans) & (size_px > 0)
    widths = spans[end] - spans[start]
    line_px, prefill_line_px = (_hairline_px(w, window) for w in (widths, widths[spans["phase"] == "prefill"]))
    for phase in DRAWING_ORDER:
        mine = spans[spans["phase"] == phase]
        if mine.empty:
            _add_legend_entry(figure, phase, dark)
            continue
        figure.add_bar(
            name=legend_name(PHASE_LABELS[phase]),
            legendrank=PHASES.index(phase),
            orientation="h",
            base=mine[start].to_numpy(),
            x=(mine[end] - mine[start]).to_numpy(),
            y=mine["lane"].to_numpy(),
            width=LANE_FILL,
            marker=_marker(phase, prefill_line_px if phase == "prefill" else line_px, dark),
            text=[f"{r:.0f}" if n else "" for r, n in zip(mine["request_id"], numbered[mine.index], strict=True)],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"size": size_px or NUMBER_PX, "color": _text_color(phase, palette(dark))},
            hovertext=hover_texts(mine, unit),
            hovertemplate="%{hovertext}<extra></extra>",
            showlegend=True,
        )


def _add_legend_entry(figure: go.Figure, phase: str, dark: bool) -> None:
    """List a phase in the legend where no span of it is drawn."""
    figure.add_bar(
        name=legend_name(PHASE_LABELS[phase]),
        legendrank=PHASES.index(phase),
        orientation="h",
        x=[None],
        y=[None],
        marker=_marker(phase, 0, dark),
        showlegend=True,
    )


def _numbered(spans: pd.DataFrame) -> pd.Series:
    """True for spans that show the request's number: decode, or prefill of a request that never decodes."""
    decoding = spans.loc[spans["phase"] == "decode", "request_id"]
    is_prefill_only = (spans["phase"] == "prefill") & ~spans["request_id"].isin(decoding)
    return ((spans["phase"] == "decode") | is_prefill_only) & spans["request_id"].notna()


def _marker(phase: str, line_px: float, dark: bool) -> dict[str, object]:
    colors = palette(dark)
    marker: dict[str, object] = {"color": colors.phase(phase), "line": {"width": line_px, "color": colors.surface}}
    if phase == "dead":
        marker["pattern"] = dict(hatch(dark))
    if phase == "prefill" and line_px < 1:
        marker["line"] = {"width": 0}  # a line would hide a narrow span; its neighbors have lines
    if phase == "empty":
        marker["line"] = {"width": line_px, "color": colors.empty_line}
    return marker


def _hairline_px(widths: pd.Series, window: tuple[float, float]) -> float:
    """A pixel between spans; less where the line would hide narrow spans (a plot is about 700 pixels wide)."""
    typical_px = float(np.quantile(widths, 0.25)) / (window[1] - window[0]) * 700 if len(widths) else 0.0
    return round(float(np.clip(typical_px / 6, 0.0, 1.0)), 2)


def _text_color(phase: str, colors: Palette) -> str:
    return {"prefill": colors.on_prefill, "decode": colors.on_decode}.get(phase, colors.text)


def timeline_caption(spans: pd.DataFrame, *, unit: Unit = "step", num_lanes: int | None = None) -> str:
    """For one timeline: requests, lanes, length, and the dead and the empty share of the lanes."""
    closed = closed_spans(spans)
    if closed.empty:
        return NO_SPANS
    lanes = max(num_lanes or 0, int(closed["lane"].max()) + 1)
    dead, empty = (_lane_share(closed, part, unit, lanes) for part in ("dead", "empty"))
    dead_text = (
        f"{percent(dead)} of {_lane_unit(unit)} (lanes x {unit}s) dead, their request already finished"
        if dead
        else f"no dead {_lane_unit(unit)}"
    )
    requests = plural(closed["request_id"].nunique(), "request")
    steps = plural(int(np.ceil(closed["end_step"].max() - 1e-9)), "step")
    return (
        f"{requests} ran in {plural(lanes, 'lane')} for {steps} ({duration(float(closed['end_s'].max()))}): "
        f"{dead_text}, {_share_text(empty)} empty."
    )


def timelines_caption(runs: Mapping[str, pd.DataFrame], *, unit: Unit = "step") -> str:
    """For several timelines on one axis: the length of each against the first, and its dead share."""
    closed = {name: frame for name, frame in ((n, closed_spans(f)) for n, f in runs.items()) if not frame.empty}
    if len(closed) < 2:
        return timeline_caption(next(iter(closed.values())), unit=unit) if closed else NO_SPANS
    end = unit_columns(unit)[1]
    ends = {name: float(frame[end].max()) for name, frame in closed.items()}
    if unit != "second":
        ends = {name: float(np.ceil(value - 1e-9)) for name, value in ends.items()}
    counted = {"step": _steps, "pass": _passes, "second": duration}[unit]
    lengths = compared(ends, counted)
    dead = {n: _lane_share(frame, "dead", unit, int(frame["lane"].max()) + 1) for n, frame in closed.items()}
    shares = ", ".join(f"{name} {_share_text(share)}" for name, share in dead.items())
    return f"Total length: {lengths}; dead share of {_lane_unit(unit)} (lanes x {unit}s): {shares}."


def _lane_unit(unit: Unit) -> str:
    return {"step": "lane-steps", "pass": "lane-passes", "second": "lane time"}[unit]


def _steps(count: float) -> str:
    return plural(count, "step")


def _passes(count: float) -> str:
    return plural(count, "forward pass", "forward passes")


def _lane_share(closed: pd.DataFrame, part: str, unit: Unit, lanes: int) -> float:
    """The share of lanes x duration that is in the phase `part`; `empty` is the time without a span."""
    start, end = unit_columns(unit)
    total = lanes * float(closed[end].max() - min(0.0, closed[start].min()))
    widths = closed[end] - closed[start]
    if total <= 0:
        return 0.0
    in_phase = float(widths.sum() if part == "empty" else widths[closed["phase"] == part].sum())
    share = 1.0 - in_phase / total if part == "empty" else in_phase / total
    return share if share > MIN_SHARE else 0.0


def _share_text(share: float) -> str:
    return "none" if share == 0 else percent(share)


if __name__ == "__main__":
    from pages.figures.demo import show
    from pages.figures.sample import sample_run
    from pages.figures.timeline.queue import queue_from_passes

    runs = {engine: sample_run(engine) for engine in ("static", "continuous")}
    steps = shared_range([run.spans for run in runs.values()])
    show(
        [
            slot_timeline(run.spans, queue=queue_from_passes(run.passes), x_range=steps, title=engine, dark=dark)
            for dark in (False, True)
            for engine, run in runs.items()
        ]
    )
