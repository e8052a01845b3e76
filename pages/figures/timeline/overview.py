"""The timeline of a run too dense for single spans: lane x time bin, each cell in the color of its largest phase.

It is drawn as one heatmap. Dead cells keep their hatching: a lane is several rows of cells, and dead cells alternate
between two reds along the diagonal. A second, invisible heatmap has the shares of each cell for the hover text.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import counted, duration
from pages.figures.colors import PHASES, palette
from pages.figures.timeline.spans import Unit, unit_columns

CLEAR = "rgba(0,0,0,0)"
MAX_BINS = 900
MAX_CELLS = 60_000
BLANK = 0  # cell codes: no data yet, then the phases in order, then the lines over dead
HATCHED = len(PHASES) + 1


def phase_shares(
    spans: pd.DataFrame, *, unit: Unit, window: tuple[float, float], num_lanes: int, num_bins: int
) -> np.ndarray:
    """The share of each phase in each cell, from 0 to 1: float array (phase, lane, bin). The remainder is empty.

    A span that covers part of a bin counts as that part.
    """
    start, end = unit_columns(unit)
    changes = np.zeros((len(PHASES) - 1, num_lanes, num_bins + 1))
    scale = num_bins / (window[1] - window[0])
    for index, phase in enumerate(PHASES[:-1]):
        mine = spans[spans["phase"] == phase]
        lanes = mine["lane"].to_numpy(dtype=int)
        for column, sign in ((start, 1.0), (end, -1.0)):
            _add_edge(changes[index], lanes, (mine[column].to_numpy(dtype=float) - window[0]) * scale, sign)
    covered = np.clip(np.cumsum(changes, axis=2)[:, :, :num_bins], 0.0, 1.0)
    covered /= np.maximum(covered.sum(axis=0), 1.0)
    return np.concatenate([covered, 1.0 - covered.sum(axis=0, keepdims=True)])


def _add_edge(changes: np.ndarray, lanes: np.ndarray, at: np.ndarray, sign: float) -> None:
    """Add where spans begin (sign 1) or end (-1), `at` in bins, to the changes of coverage from bin to bin.

    The bin with the edge is covered from the edge on. `changes` is (lane, bin + 1).
    """
    last = changes.shape[1] - 1
    at = np.clip(at, 0.0, float(last))
    whole = np.floor(at).astype(int)
    left = 1.0 - (at - whole)
    np.add.at(changes, (lanes, whole), sign * left)
    before_last = whole < last
    np.add.at(changes, (lanes[before_last], whole[before_last] + 1), sign * (1.0 - left[before_last]))


def add_overview(
    figure: go.Figure,
    spans: pd.DataFrame,
    *,
    unit: Unit,
    window: tuple[float, float],
    num_lanes: int,
    rows_a_lane: int,
    dark: bool,
) -> None:
    """Add the two heatmaps over the lanes' axes, and the bin width to the x axis title. Takes merged spans.

    `rows_a_lane` is the number of cell rows per lane; with more than one, the last is the gap between lanes.
    """
    num_bins = max(40, min(MAX_BINS, MAX_CELLS // num_lanes))
    shares = phase_shares(spans, unit=unit, window=window, num_lanes=num_lanes, num_bins=num_bins)
    bin_width = (window[1] - window[0]) / num_bins
    has_begun = window[0] + np.arange(num_bins) * bin_width < float(spans[unit_columns(unit)[1]].max())
    across = {"x0": window[0] + bin_width / 2, "dx": bin_width}
    figure.add_heatmap(
        z=_texture(np.where(has_begun, shares.argmax(axis=0) + 1, BLANK), rows_a_lane),
        y0=-0.5 + 0.5 / rows_a_lane,
        dy=1 / rows_a_lane,
        zmin=-0.5,
        zmax=HATCHED + 0.5,
        colorscale=_color_steps(dark),
        showscale=False,
        hoverinfo="skip",
        **across,
    )
    figure.add_heatmap(
        z=np.zeros((num_lanes, num_bins), dtype=np.uint8),
        customdata=np.moveaxis(np.rint(shares * 100), 0, -1).astype(np.uint8),
        colorscale=[[0, CLEAR], [1, CLEAR]],
        showscale=False,
        hovertemplate=_hover_template(unit),
        **across,
    )
    width_text = duration(bin_width) if unit == "second" else counted(bin_width)
    nouns = {"step": "steps", "second": "seconds", "pass": "forward passes"}[unit]
    figure.update_layout(xaxis_title_text=f"{nouns}, binned by {width_text} (each bin's largest phase)")


def _texture(codes: np.ndarray, rows_a_lane: int) -> np.ndarray:
    """(lane, bin) codes -> (lane x rows_a_lane, bin), with dead hatched along the diagonal and a gap between lanes."""
    rows = np.repeat(codes, rows_a_lane, axis=0).astype(np.uint8)
    down, across = np.indices(rows.shape)
    is_line = (down + across) % 5 == 0
    rows[(rows == PHASES.index("dead") + 1) & is_line] = HATCHED
    if rows_a_lane > 1:
        rows[down % rows_a_lane == rows_a_lane - 1] = BLANK
    return rows


def _color_steps(dark: bool) -> list[list[object]]:
    """A color scale of flat steps, one per code."""
    colors = palette(dark)
    fills = [CLEAR, *(colors.phase(phase) for phase in PHASES), colors.dead_weave]
    return [[(i + edge) / len(fills), fill] for i, fill in enumerate(fills) for edge in (0, 1)]


def _hover_template(unit: Unit) -> str:
    at = {"second": "%{x:,.3r}\u00a0s", "step": "step %{x:,.0f}", "pass": "pass %{x:,.0f}"}[unit]
    lines = [f"{phase} %{{customdata[{i}]}}\u00a0%" for i, phase in enumerate(PHASES)]
    return f"<b>lane %{{y}}</b>, around {at}<br>{'<br>'.join(lines)}<extra></extra>"
