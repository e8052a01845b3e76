"""The slot timeline of a live run as plain HTML: the same picture as pages.figures.timeline.timeline, made to be redrawn often.

Building and redrawing a plotly figure takes a tenth of a second of a machine that is busy measuring; this takes a
fraction of that. It has the same colors, hatching, numbers, chunks and preemption marks, the queue strip, and a
tooltip a span, but no zoom. Every position is a share of the page's width. Steps only: seconds are for the Run page.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass

import pandas as pd

from pages.figures.colors import Palette, palette

LANE_PX, THIN_LANE_PX = 30, 9
MANY_LANES = 16
LINED_SHARE = 0.004  # what is narrower, as a chunk in a long run, would be hidden by the line at its edge
NUMBERED_SHARE = 0.025  # of the width: room for two digits on a phone
FINE_SHARE = 0.0015  # what is narrower joins its neighbor, where there are very many bars
MAX_BARS = 1500
MAX_MARKS = 200  # preemptions, the newest
PHASE_WORDS = {"prefill": "prefill", "decode": "decode", "dead": "dead slot", "empty": "empty"}


@dataclass(slots=True)
class Bar:
    """What a lane held from one step to another, as it is drawn."""

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
    """A block of HTML whose height depends on `num_lanes` alone.

    `spans`, `passes` and `preemptions` (events) have the store's columns and may be empty. `window` is the axis in
    steps. `note` is written across the lanes while there is nothing to draw.
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
    legend = "".join(f'<span><b class="{phase}"></b>{words}</span>' for phase, words in PHASE_WORDS.items())
    legend += '<span class="preempted">▼ preempted</span>' if marks else ""
    theme = "dark" if dark else "light"
    return (
        f'<div class="slots {theme}" role="img" aria-label="{html.escape(title)}: slots over steps">'
        f'<div class="head"><strong>{html.escape(title)}</strong>{legend}</div>'
        f'<div class="plot">{_axis(window)}<div class="queue"><i>queue</i>{_queue(passes, window)}</div>'
        f'{lanes}{message}</div><div class="across">step</div></div>{_style(colors, theme, lane_px)}'
    )


def join_spans(spans: pd.DataFrame, window: tuple[float, float], num_lanes: int) -> list[Bar]:
    """Spans as bars, by lane and start: open ends closed at the newest moment, a slot move healed.

    Where there are more than about MAX_BARS, neighbors are joined as long as they are too fine to be told apart.
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
    hover = f"request {bar.request}: {PHASE_WORDS[bar.phase]}{chunk}, {bar.tokens or 0} tokens so far, "
    hover += f"steps {bar.start:g} to {bar.end:g}"
    number = bar.request if is_numbered else ""
    place = _place(bar.start, bar.end, window) + (";border:0" if share < LINED_SHARE else "")
    return f'<div class="{bar.phase}" style="{place}" title="{hover}">{number}</div>'


def _marks(preemptions: pd.DataFrame | None, window: tuple[float, float], by_lane: list[list[str]]) -> int:
    """Put a triangle where a request lost its blocks, into its lane. Returns how many there are."""
    if preemptions is None or preemptions.empty:
        return 0
    newest = preemptions.tail(MAX_MARKS)
    told = newest[["lane", "request_id", "blocks", "tokens", "step"]]
    for lane, request, blocks, tokens, step in told.itertuples(index=False, name=None):
        lost = f"{blocks:.0f} blocks given back, {tokens:.0f} positions to compute again"
        left = _place(float(step), float(step), window)
        by_lane[int(lane)].append(f'<em style="{left}" title="request {request:.0f} preempted: {lost}">▼</em>')
    return len(newest)


def _queue(passes: pd.DataFrame, window: tuple[float, float]) -> str:
    """The queue as amber columns, as high as their share of the deepest so far."""
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
    """About eight round numbers of steps, each with a hairline."""
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
