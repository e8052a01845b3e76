"""Preemptions as marks: a request lost its blocks at this moment and waits again. A shape of its own, and words.

The mark is amber as all that waits, and a triangle that points down, so that it is known without its color.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import duration, plural
from pages.figures.colors import palette
from pages.figures.timeline.spans import Unit

MAX_MARKS = 1500
NAME = "preempted"


def preemptions_of(events: pd.DataFrame) -> pd.DataFrame:
    """The preemptions among the run log's events, in order."""
    return events[events["event"] == "preempt"].sort_values("time_s", ignore_index=True) if len(events) else events


def preemption_text(request_id: Any, blocks: Any, tokens: Any, step: Any, time_s: Any) -> str:
    """The request, the blocks it gave back, the positions that have to be computed again, and when; with breaks."""
    return (
        f"<b>request {int(request_id)} preempted</b><br>{plural(blocks, 'block')} given back, "
        f"{plural(tokens, 'position')} to compute again<br>step {np.floor(step):,.0f}, {duration(time_s)}"
    )


def preemptions_text(preemptions: pd.DataFrame) -> str:
    """The sentence that says what the triangles are; empty where there are none."""
    if preemptions.empty:
        return ""
    one = len(preemptions) == 1
    where = "the triangle marks" if one else "triangles mark"
    return (
        f"{plural(len(preemptions), 'preemption')}: {where} where a request lost its KV blocks to an older one and "
        "went back into the queue."
    )


def add_preemptions(
    figure: go.Figure, preemptions: pd.DataFrame, *, y: np.ndarray, unit: Unit, dark: bool = False
) -> None:
    """A mark on the first y axis at `y` for each: request_id, blocks, tokens, step, time_s. Of very many, some."""
    if len(preemptions) > MAX_MARKS:
        kept = np.unique(np.linspace(0, len(preemptions) - 1, MAX_MARKS).astype(int))
        preemptions, y = preemptions.iloc[kept], y[kept]
    colors = palette(dark)
    told = preemptions[["request_id", "blocks", "tokens", "step", "time_s"]].itertuples(index=False, name=None)
    figure.add_scatter(
        x=preemptions["step" if unit == "step" else "time_s"].to_numpy(dtype=float),
        y=y,
        mode="markers",
        marker={
            "symbol": "triangle-down",
            "size": 11,
            "color": colors.waiting,
            "line": {"width": 1.5, "color": colors.text},
        },
        cliponaxis=False,
        name=NAME,
        showlegend=False,  # a legend of five does not fit a phone: captions say what a triangle is
        hovertext=[preemption_text(*row) for row in told],
        hovertemplate="%{hovertext}<extra></extra>",
    )
