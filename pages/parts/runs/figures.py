"""What the figures on Run and on Compare share: the switch of the time axis, the latencies, and how to read each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import count, duration, is_missing, number, percent, plural
from engine.core.presets import PRESETS
from engine.metrics.definitions import Definitions
from engine.metrics.distribution import Distribution
from engine.metrics.latency import LATENCIES, Latency
from engine.metrics.metric import Value
from pages.figures.timeline.spans import RunUnit
from pages.parts.shared.page_state import linked, one_of, value_of

UNIT = "unit"  # in the address: `?unit=seconds`
UNITS: dict[str, RunUnit] = {"steps": "step", "seconds": "second"}

TIMELINE_HELP = """
Each lane is one slot of the batch, from the run's start (left) to its end (right). The number is the request in it.

- **Prefill** (slate): the prompt is processed, and the first token comes out. With chunked prefill, each chunk is a
  span.
- **Decode** (green): one more token at every step.
- **Dead** (red, hatched): the request has ended, but its row is computed until the batch ends.
- **Empty** (near white): no request in the slot.
- **Preempted** (triangle): the request lost its KV blocks and waits again; its tokens are recomputed later.

The strip above shows how many requests wait. By step, all steps have the same width: this is the schedule. By second,
it is the time that the schedule took on this machine.

Click a request to mark it everywhere and to read its prompt and answer. Point at a pass to read its values. Play, or
step with the arrow keys, to reveal the run up to a step; space plays and pauses, Escape clears the mark.
"""

WASTE_HELP = """
Positions and slot-steps are **counted**. Seconds are **attributed**: padding and dead rows are charged their share of
each pass's positions. This shows where the time went, not what a run without waste would save. Memory is in
**position-seconds**: the memory of one token's keys and values, held for one second.

Memory that holds no token of a running request is padding, rows of ended requests, **reserved** memory for tokens to
come, or **block ends**: the unfilled rest of the last block of each block table. **Bucket padding** is what a CUDA
graph computes beyond the tokens of its pass, because it was captured for a larger size; nothing of it is stored.
"""


LEAST_LANE_PX = 8.0


def lanes_px(num_lanes: int, room_px: float) -> float:
    """The height of all lanes of a timeline that has room for `room_px`; more where lanes would become too thin."""
    return max(room_px, LEAST_LANE_PX * num_lanes)


def draw_timeline_tools() -> None:
    """The switch between steps and seconds, and how to read a timeline."""
    unit_switch()
    with st.popover("How to read this", type="tertiary"):
        st.markdown(TIMELINE_HELP)


def unit_switch() -> RunUnit:
    """Draw the switch between steps and seconds, and return the chosen unit."""
    with linked(UNIT, "steps", one_of(list(UNITS))) as key:
        chosen = st.segmented_control(
            "Axis", list(UNITS), required=True, key=key, persist_state="page", label_visibility="collapsed"
        )
    return UNITS.get(chosen or "steps", "step")


def chosen_unit() -> RunUnit:
    """The unit that the page's switch shows, for a figure further down."""
    return UNITS.get(value_of(UNIT, "steps", one_of(list(UNITS))) or "steps", "step")


def discarded_text(config: RunConfig, metrics: Mapping[str, Value]) -> str:
    """The row-steps computed after an end of sequence that was known one pass late; empty for static batching."""
    rows, live = metrics.get("slot_steps"), metrics.get("useful_slot_steps")
    if PRESETS[config.engine].forms_batches or rows is None or live is None or is_missing(rows) or rows <= live:
        return ""
    late = int(rows - live)
    how_many = f"{plural(late, 'row-step')} of {count(rows)} ({percent(late / rows)})"
    return (
        f"{how_many} {'was' if late == 1 else 'were'} discarded and counted as dead: "
        "the next pass was issued before the end of a sequence was known."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyFigure:
    """A latency as it is drawn. `phrase` is its name within a sentence, `counted` what one sample is, in the plural."""

    latency: Latency
    phrase: str
    counted: str

    @property
    def key(self) -> str:
        return self.latency.key

    @property
    def title(self) -> str:
        return self.latency.label


_PHRASES = {
    "queue_wait": "queue wait",
    "ttft": "time to first token",
    "itl": "gap between tokens",
    "tpot": "time per output token",
    "e2e": "time to a whole answer",
}
LATENCY_FIGURES = tuple(
    LatencyFigure(latency=each, phrase=_PHRASES[each.key], counted="gaps" if each.level == "gap" else "requests")
    for each in LATENCIES
)

LATENCY_HELP = "\n".join(f"- **{latency.label}**: {latency.meaning}" for latency in LATENCIES)

FULL = "not defined: in full response mode, all tokens of an answer arrive at once"
SINGLE = "not defined: no answer has a second token"


def counted_noun(latency: LatencyFigure, definitions: Definitions) -> str:
    """What one sample is, in the plural; of mean gaps there is one per request."""
    return "requests" if latency.key == "itl" and definitions.itl == "mean" else latency.counted


def overlaid(latencies: Mapping[str, Distribution], definitions: Definitions) -> pd.DataFrame:
    """One latency of several named runs, as the CDF takes it: columns series, value_s, rank, n, p50_s, p95_s."""
    parts = [_points(distribution, definitions).assign(series=name) for name, distribution in latencies.items()]
    columns = ["series", "value_s", "rank", "n", "p50_s", "p95_s"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns, dtype=float)


def _points(distribution: Distribution, definitions: Definitions) -> pd.DataFrame:
    """The points of a distribution; one point at infinity where every sample is infinite."""
    value_s, rank = distribution.value_s, distribution.ranks
    if distribution.num_unbounded and not len(value_s):
        value_s, rank = np.array([np.inf]), np.array([distribution.n])
    marks = {f"p{percent}_s": distribution.percentile(percent, definitions.percentile) for percent in (50, 95)}
    return pd.DataFrame({"value_s": value_s, "rank": rank, "n": distribution.n, **marks})


def absence(latency: LatencyFigure, requests: pd.DataFrame, status: str) -> str:
    """Why a run has no sample of this latency, as the end of a sentence."""
    if requests.empty:
        return "no request has arrived" + (" yet" if status == "running" else "")
    if latency.key in ("itl", "tpot"):
        if requests["returned_s"].notna().any():
            return FULL
        if int(requests["output_tokens"].fillna(0).max()) <= 1 and status == "completed":
            return SINGLE
    return "no request has got that far yet" if status == "running" else "no request got that far before the run ended"


def worst_gap_text(metrics: Mapping[str, Mapping[str, Value]]) -> str:
    """`Worst gap over median gap: paged 9.1 times (124 ms over 13.6 ms), chunked 2.8 times …`, in the runs' order.

    It shows how long other requests' prefills interrupt an answer. Empty where no run has gaps.
    """
    known = {name: (of["itl_max_s"], of["itl_p50_s"]) for name, of in metrics.items() if of.get("itl_p50_s")}
    ratios = {name: worst / median for name, (worst, median) in known.items() if worst and median and worst < math.inf}
    if not ratios:
        return ""
    parts = [
        f"{name} {number(ratios[name])} times ({duration(known[name][0])} over {duration(known[name][1])})"
        for name in ratios
    ]
    return f"Worst gap over median gap: {', '.join(parts)}."
