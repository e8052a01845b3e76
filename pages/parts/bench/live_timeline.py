"""The slot timeline of a live run as plain HTML, which is cheap to redraw.

It looks like pages.figures.timeline.timeline, with a tooltip on each span but without zoom, and only in steps. A plotly
figure takes a tenth of a second of CPU time from the run that is measured; this takes a fraction of that.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass

import pandas as pd

from pages.figures.colors import Palette, palette

LANE_PX, THIN_LANE_PX = 30, 9
MANY_LANES = 16
LINED_SHARE = 0.004  # of the width: narrower bars have no edge line, which would cover them
NUMBERED_SHARE = 0.025  # of the width: two digits fit on a phone
FINE_SHARE = 0.0015  # of the width: narrower bars are merged if there are very many
MAX_BARS = 1500
MAX_MARKS = 200  # the newest preemptions
PHASES = {"prefill": "prefill", "decode": "decode", "dead": "dead slot", "empty": "empty"}


@dataclass(slots=True)
class Bar:
    """A phase of a request in a lane, from one step to another."""

    lane: int
    start: float
    end: float
    phase: str
    request: int | None
    tokens: int | None
    chunk: int | None = None


def live_timeline(
    spans: pd.DataFrame,
    passes: pd.DataFrame,
    *,
    window: tuple[float, float],
    num_lanes: int,
    title: str,
    preemptions: pd.DataFrame | None = None,
    note: str = "",
    dark: bool = False,
) -> str:
    """The timeline as HTML. Only `num_lanes` determines its height.

    `spans`, `passes` and `preemptions` (events) have the store's columns and may be empty. `window` is the axis in
    steps. `note` appears across the lanes as long as they are empty.
    """
    colors = palette(dark)
    lane_px = LANE_PX if num_lanes <= MANY_LANES else THIN_LANE_PX
    bars = join_spans(spans, window, num_lanes)
    by_lane: list[list[str]] = [[] for _ in range(num_lanes)]
    for bar in bars:
        by_lane[bar.lane].append(_bar(bar, window, lane_px))
    marks = _marks(preemptions, window, by_lane)
    lanes = "".join(
        f'<div class="lane"><i>{lane if lane_px == LANE_PX or lane % 8 == 0 else ""}</i>{"".join(drawn)}</div>'
        for lane, drawn in enumerate(by_lane)
    )
    message = f'<div class="note">{html.escape(note)}</div>' if note and not bars else ""
    legend = "".join(f'<span><b class="{phase}"></b>{label}</span>' for phase, label in PHASES.items())
    legend += '<span class="preempted">▼ preempted</span>' if marks else ""
    theme = "dark" if dark else "light"
    return (
        f'<div class="slots {theme}" role="img" aria-label="{html.escape(title)}: slots over steps">'
        f'<div class="head"><strong>{html.escape(title)}</strong>{legend}</div>'
        f'<div class="plot">{_axis(window)}<div class="queue"><i>queue</i>{_queue(passes, window)}</div>'
        f'{lanes}{message}</div><div class="across">step</div></div>{_style(colors, theme, lane_px)}'
    )


def join_spans(spans: pd.DataFrame, window: tuple[float, float], num_lanes: int) -> list[Bar]:
    """Spans as bars, by lane and start. Open spans end at the newest step; spans that a slot move split are joined.

    Of more than about MAX_BARS, neighbors that are too narrow to distinguish are merged.
    """
    if spans.empty:
        return []
    newest = float(spans[["start_step", "end_step"]].max().max())
    columns = ["lane", "start_step", "end_step", "phase", "request_id", "tokens_so_far", "chunk"]
    rows = spans.loc[spans["phase"] != "empty"].reindex(columns=columns).sort_values(["lane", "start_step"])
    fine = (window[1] - window[0]) * max(FINE_SHARE, num_lanes / MAX_BARS)
    many = len(rows) > MAX_BARS
    bars: list[Bar] = []
    for lane, start, end, phase, *counts in rows.itertuples(index=False, name=None):
        request, tokens, chunk = map(_whole, counts)
        bar = Bar(int(lane), float(start), newest if pd.isna(end) else float(end), phase, request, tokens, chunk)
        last = bars[-1] if bars and bars[-1].lane == bar.lane else None
        if last is not None and bar.start - last.end < 1e-6 and _same(last, bar):
            last.end, last.tokens = bar.end, bar.tokens
        elif last is not None and many and bar.end - last.start < fine:
            last.end = bar.end
        else:
            bars.append(bar)
    return bars


def _same(a: Bar, b: Bar) -> bool:
    return (a.phase, a.request, a.chunk) == (b.phase, b.request, b.chunk)


def _whole(value: float | None) -> int | None:
    return None if value is None or pd.isna(value) else int(value)


def _place(start: float, end: float, window: tuple[float, float]) -> str:
    span = window[1] - window[0]
    return f"left:{(start - window[0]) / span:.3%};width:{(end - start) / span:.3%}"


def _bar(bar: Bar, window: tuple[float, float], lane_px: int) -> str:
    share = (bar.end - bar.start) / (window[1] - window[0])
    is_numbered = bar.phase == "decode" and share >= NUMBERED_SHARE and lane_px == LANE_PX
    chunk = "" if bar.chunk is None else f", chunk {bar.chunk + 1}"
    hover = f"request {bar.request}: {PHASES[bar.phase]}{chunk}, {bar.tokens or 0} tokens so far, "
    hover += f"steps {bar.start:g} to {bar.end:g}"
    number = bar.request if is_numbered else ""
    place = _place(bar.start, bar.end, window) + (";border:0" if share < LINED_SHARE else "")
    return f'<div class="{bar.phase}" style="{place}" title="{hover}">{number}</div>'


def _marks(preemptions: pd.DataFrame | None, window: tuple[float, float], by_lane: list[list[str]]) -> int:
    """Add a triangle to the lane of each preempted request. Returns their number."""
    if preemptions is None or preemptions.empty:
        return 0
    newest = preemptions.tail(MAX_MARKS)
    events = newest[["lane", "request_id", "blocks", "tokens", "step"]]
    for lane, request, blocks, tokens, step in events.itertuples(index=False, name=None):
        effect = f"{blocks:.0f} blocks freed, {tokens:.0f} positions to recompute"
        left = _place(float(step), float(step), window)
        by_lane[int(lane)].append(f'<em style="{left}" title="request {request:.0f} preempted: {effect}">▼</em>')
    return len(newest)


def _queue(passes: pd.DataFrame, window: tuple[float, float]) -> str:
    """The queue depth as columns, scaled to the deepest so far."""
    if passes.empty:
        return ""
    depth = passes.groupby("step", sort=True)["queue_depth"].first()
    changed = depth[depth != depth.shift()]
    ends = [*changed.index[1:], depth.index[-1] + 1]
    deepest = max(1, int(depth.max()))
    columns = zip(changed.index, ends, changed, strict=True)
    return "".join(
        f'<div style="{_place(start, end, window)};height:{waiting / deepest:.0%}" title="{waiting} waiting"></div>'
        for start, end, waiting in columns
        if waiting
    )


def _axis(window: tuple[float, float]) -> str:
    """About eight round step numbers, each with a grid line."""
    span = window[1] - window[0]
    power = 10 ** math.floor(math.log10(max(span / 8, 1)))
    every = next(factor * power for factor in (1, 2, 5, 10) if span / (factor * power) <= 8.5)
    marks = [window[0] + i * every for i in range(int(span / every) + 1)]
    return "".join(f'<u style="{_place(mark, mark, window)}"><s>{mark:g}</s></u>' for mark in marks)


def _style(colors: Palette, theme: str, lane_px: int) -> str:
    lane = f".slots.{theme}"
    gap_px = 3 if lane_px == LANE_PX else 1
    dead = f"repeating-linear-gradient(135deg,{colors.dead} 0 5px,{colors.dead_line} 5px 7px)"
    return f"""<style>
.slots {{font-size: .75rem; line-height: 1; margin-bottom: .75rem}}
.slots .head {{display: flex; flex-wrap: wrap; gap: .2rem .9rem; align-items: center; margin-bottom: .5rem}}
.slots .head strong {{font-size: .95rem; min-width: 5.5rem}}
.slots .across {{text-align: center; opacity: .7; margin-left: 42px}}
.slots em {{position: absolute; top: -3px; transform: translateX(-50%); width: auto !important; font-style: normal;
  font-size: .8rem; color: {colors.waiting}; -webkit-text-stroke: .6px {colors.text}; z-index: 1}}
.slots .head .preempted {{color: {colors.text}}}
.slots .head b {{display: inline-block; width: 11px; height: 11px; margin-right: 5px; vertical-align: -1px}}
.slots .plot {{position: relative; margin-left: 42px; padding-bottom: 22px}}
.slots .plot i {{position: absolute; right: calc(100% + 8px); font-style: normal; opacity: .7; top: 35%}}
.slots .plot u, .slots .plot s {{position: absolute; text-decoration: none}}
.slots .plot u {{top: 0; bottom: 18px; border-left: 1px solid {colors.grid}}}
.slots .plot s {{top: calc(100% + 4px); transform: translateX(-50%); opacity: .7}}
.slots .lane, .slots .queue {{position: relative; height: {lane_px - 1}px; margin-bottom: {gap_px}px}}
.slots .queue {{height: 32px; margin-bottom: 8px; border-bottom: 1px solid {colors.grid}}}
.slots .queue div {{position: absolute; bottom: 0; background: {colors.waiting}; opacity: .55}}
.slots .lane {{background: {colors.empty}}}
.slots .lane div {{position: absolute; top: 0; bottom: 0; display: flex; align-items: center; justify-content: center;
  border-right: .6px solid {colors.surface}; overflow: hidden}}
{lane} .empty {{background: {colors.empty}; outline: 1px solid {colors.empty_line}}}
{lane} .prefill {{background: {colors.prefill}}}
{lane} .decode {{background: {colors.decode}; color: {colors.on_decode}}}
{lane} .dead {{background: {dead}}}
.slots .note {{position: absolute; inset: 40px 0 22px; display: flex; align-items: center; justify-content: center;
  font-size: .875rem; opacity: .7}}
@media (max-width: 640px) {{.slots .head strong {{flex-basis: 100%}}}}
</style>"""
