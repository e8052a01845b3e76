"""Preemptions as marks: at this moment a request lost its blocks and went back to the queue.

The mark is amber, as everything that waits, and a triangle pointing down, so it does not depend on its color.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import duration, plural
from pages.figures.colors import palette
from pages.figures.timeline.spans import Unit, point_column

MAX_MARKS = 1500
NAME = "preempted"


def preemptions_of(events: pd.DataFrame) -> pd.DataFrame:
    """The preemptions among the run log's events, in order."""
    return events[events["event"] == "preempt"].sort_values("time_s", ignore_index=True) if len(events) else events


def preemption_text(request_id: Any, blocks: Any, tokens: Any, step: Any, time_s: Any) -> str:
    """The request, the blocks it freed, the positions to recompute, and when; one line each."""
    return (
        f"<b>request {int(request_id)} preempted</b><br>{plural(blocks, 'block')} freed, "
        f"{plural(tokens, 'position')} to recompute<br>step {np.floor(step):,.0f}, {duration(time_s)}"
    )


def preemptions_text(preemptions: pd.DataFrame) -> str:
    """A sentence that explains the triangles; empty without preemptions."""
    if preemptions.empty:
        return ""
    marks = "triangle" if len(preemptions) == 1 else "triangles"
    return (
        f"{plural(len(preemptions), 'preemption')} ({marks}): a request lost its KV blocks to an older one and went "
        "back to the queue."
    )


def add_preemptions(
    figure: go.Figure, preemptions: pd.DataFrame, *, y: np.ndarray, unit: Unit, dark: bool = False
) -> None:
    """A mark on the first y axis at `y` per row (request_id, blocks, tokens, step, time_s); at most MAX_MARKS."""
    if len(preemptions) > MAX_MARKS:
        kept = np.unique(np.linspace(0, len(preemptions) - 1, MAX_MARKS).astype(int))
        preemptions, y = preemptions.iloc[kept], y[kept]
    colors = palette(dark)
    rows = preemptions[["request_id", "blocks", "tokens", "step", "time_s"]].itertuples(index=False, name=None)
    figure.add_scatter(
        x=preemptions[point_column(unit)].to_numpy(dtype=float),
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
        showlegend=False,  # a legend of five does not fit a phone; captions explain the triangle
        hovertext=[preemption_text(*row) for row in rows],
        hovertemplate="%{hovertext}<extra></extra>",
    )
