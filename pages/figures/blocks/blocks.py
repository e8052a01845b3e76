"""The KV pool over time: the request that holds each block, the free blocks, and the unfilled share of held blocks.

Three panels over one x axis. Top: the free blocks, with a mark per preemption. Middle: the pool, blocks down, each in
the color of the request that holds it. Bottom: the unfilled ends of the last blocks as a share of the held positions,
which is what paging wastes. A large pool or a long run is drawn in coarser cells: each covers several blocks over
several passes, has the color of the request that held most of it, and its hover text says how much was held.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import count, counted, duration, percent, plural
from pages.figures.blocks.request_colors import color_codes, color_scale, color_scale_range
from pages.figures.colors import palette
from pages.figures.layout import axis, label, new_figure, note_figure, set_layout
from pages.figures.timeline.preemptions import add_preemptions
from pages.figures.timeline.queue import changes_only
from pages.figures.timeline.spans import Unit

MAX_ROWS = 128  # the largest grid to ask the store for
MAX_COLUMNS = 400
STRIP_PX = 64
GAP_PX = 30
MAP_PX = (150, 420)
BLOCK_PX = 15
NO_BLOCKS = "No request holds a block yet."


def block_map(
    cells: pd.DataFrame,
    by_column: pd.DataFrame,
    *,
    shape: tuple[int, int],
    end: float,
    num_blocks: int,
    pool_blocks: int,
    block_size: int,
    unit: Unit = "step",
    preemptions: pd.DataFrame | None = None,
    title: str = "",
    dark: bool = False,
) -> go.Figure:
    """Draw the first `num_blocks` of a pool of `pool_blocks` blocks, each of `block_size` token positions.

    The grid `shape` (rows, columns) divides the blocks, and the run from 0 to `end` in the unit, into equal parts.
    `cells` has a row per cell that was held: row, column, request_id (the request that held most of it), held (the held
    share of its blocks and time), requests (how many held a part). `by_column` has a row per column in which a pass
    began: column, passes, reserved_max_positions, fragment_fraction. `preemptions` are rows of the run log's events,
    with `step` and `time_s`.
    """
    if by_column.empty or cells.empty:
        return note_figure(NO_BLOCKS, dark=dark, title=title)
    blocks_a_row = -(-num_blocks // shape[0])
    map_px = int(np.clip(shape[0] * BLOCK_PX, *MAP_PX))
    figure = _canvas(map_px, unit, end, title, dark)
    has_marks = preemptions is not None and not preemptions.empty
    _add_headings(figure, map_px, num_blocks, pool_blocks, blocks_a_row, has_marks, dark)
    _add_grid(figure, cells, shape, end, blocks_a_row, unit, dark)
    columns = by_column.set_index("column").reindex(range(shape[1])).ffill().bfill()
    _add_strip(figure, end, pool_blocks - columns["reserved_max_positions"] / block_size, "free", dark)
    _add_strip(figure, end, columns["fragment_fraction"], "unfilled", dark)
    figure.update_layout(yaxis2_range=[num_blocks - 0.5, -0.5])
    figure.update_layout(xaxis_title_text=_x_title(unit, end / shape[1], int(by_column["passes"].max())))
    if preemptions is not None and has_marks:
        add_preemptions(figure, preemptions, y=np.zeros(len(preemptions)), unit=unit, dark=dark)
    return figure


def _canvas(map_px: int, unit: Unit, end: float, title: str, dark: bool) -> go.Figure:
    """Three y axes over one x axis."""
    inner_px = map_px + 2 * (STRIP_PX + GAP_PX)
    figure = new_figure(plot_px=inner_px, dark=dark, title=title, top=24, left=52)
    domains = _domains(map_px)
    set_layout(
        figure,
        dragmode="zoom",
        xaxis=axis(dark, title=unit, range=[0, end], anchor="y3", showgrid=False),
        yaxis=axis(dark, domain=domains[0], rangemode="tozero", tickformat=",d", nticks=3, fixedrange=True),
        yaxis2=axis(dark, domain=domains[1], showgrid=False, tickformat=",d", nticks=6, fixedrange=True),
        yaxis3=axis(dark, domain=domains[2], rangemode="tozero", tickformat=".0%", nticks=3, fixedrange=True),
    )
    return figure


def _domains(map_px: int) -> list[list[float]]:
    """The y domains of the three panels, from 0 at the bottom of the plot to 1 at its top."""
    heights = (STRIP_PX, map_px, STRIP_PX)
    inner_px = sum(heights) + 2 * GAP_PX
    tops = np.cumsum([0, STRIP_PX + GAP_PX, map_px + GAP_PX])
    return [
        [max(1 - (top + height) / inner_px, 0.0), float(1 - top / inner_px)]
        for top, height in zip(tops, heights, strict=True)
    ]


def _add_headings(
    figure: go.Figure, map_px: int, num_blocks: int, pool_blocks: int, blocks_a_row: int, has_marks: bool, dark: bool
) -> None:
    in_rows = "" if blocks_a_row == 1 else f", {blocks_a_row} per row"
    of_pool = f"blocks 0 to {num_blocks - 1:,}" if num_blocks < pool_blocks else "all blocks"
    headings = (
        f"free blocks of {pool_blocks:,}" + (" (triangles: preemptions)" if has_marks else ""),
        f"{of_pool}{in_rows}, by request",
        "held but unfilled: ends of the last blocks",
    )
    faint = {"size": 12, "color": palette(dark).faint_text}
    for heading, (_, top) in zip(headings, _domains(map_px), strict=True):
        place = {"x": 0, "xref": "paper", "y": top, "yref": "paper", "yanchor": "bottom"}
        figure.add_annotation(label(heading, font=faint, **place))


def _x_title(unit: Unit, width: float, most_passes: int) -> str:
    """The unit; where a column has more than one pass, also its width."""
    if most_passes <= 1 or (unit == "step" and width <= 1):
        return "step" if unit == "step" else "seconds"
    return f"step, {counted(width)} per column" if unit == "step" else f"seconds, {duration(width)} per column"


def _add_grid(
    figure: go.Figure,
    cells: pd.DataFrame,
    shape: tuple[int, int],
    end: float,
    blocks_a_row: int,
    unit: Unit,
    dark: bool,
) -> None:
    """A background of free blocks, and the held cells over it; each has its own hover text."""
    low, high = color_scale_range(dark)
    width = end / shape[1]
    style = {
        "x0": width / 2,
        "dx": width,
        "y0": (blocks_a_row - 1) / 2,
        "dy": blocks_a_row,
        "yaxis": "y2",
        "colorscale": color_scale(dark),
        "zmin": low,
        "zmax": high,
        "showscale": False,
        "ygap": 1 if shape[0] <= 48 else 0,
    }
    at = "step %{x:,.0f}" if unit == "step" else "%{x:,.3r}\u00a0s"
    which = "block %{y:,.0f}" if blocks_a_row == 1 else f"{blocks_a_row} blocks around %{{y:,.0f}}"
    free = f"{which}, around {at}<br><b>free</b><extra></extra>"
    figure.add_heatmap(z=np.zeros(shape, dtype=np.uint8), hovertemplate=free, **style)
    row, column = cells["row"].to_numpy(dtype=int), cells["column"].to_numpy(dtype=int)
    z = np.full(shape, np.nan, dtype=np.float32)
    z[row, column] = color_codes(cells["request_id"], dark)
    held = np.ceil(cells["held"].to_numpy(dtype=float) * 100 - 1e-6)
    details = np.zeros((*shape, 3), dtype=np.int32)
    details[row, column] = np.column_stack([cells["request_id"], held, cells["requests"]])
    share = ""
    if _is_shared(cells):
        share = "<br>holds most of it; %{customdata[1]}\u00a0% held, %{customdata[2]:,} requests in total"
    by_request = f"{which}, around {at}<br><b>request %{{customdata[0]}}</b>{share}<extra></extra>"
    figure.add_heatmap(z=z, customdata=details, hoverongaps=False, hovertemplate=by_request, **style)


def _is_shared(cells: pd.DataFrame) -> bool:
    return bool((cells["requests"] > 1).any() or (cells["held"] < 1 - 1e-6).any())


def _add_strip(figure: go.Figure, end: float, values: pd.Series, name: str, dark: bool) -> None:
    """A stepped area over the columns; left out where the values were not logged."""
    if values.isna().all():
        return
    colors = palette(dark)
    is_free = name == "free"
    y = values.fillna(0).to_numpy(dtype=float)
    x, y = changes_only(np.linspace(0.0, end, len(y) + 1), np.append(y, y[-1]))
    hover = "%{y:,.0f} free blocks" if is_free else "%{customdata:,.3r}\u00a0% of held positions unfilled"
    figure.add_scatter(
        x=x,
        y=y,
        customdata=100 * y,
        yaxis="y" if is_free else "y3",
        mode="lines",
        line={"shape": "hv", "width": 1.4, "color": colors.faint_text if is_free else colors.fragment_line},
        fill="tozeroy",
        fillcolor=colors.empty if is_free else colors.fragment,
        name=name,
        showlegend=False,
        hovertemplate=f"{hover}<extra></extra>",
    )


def block_map_caption(
    by_column: pd.DataFrame,
    preemptions: pd.DataFrame,
    *,
    pool_blocks: int,
    block_size: int,
    unfilled_share: float | None,
    recomputed_tokens: int | None,
) -> str:
    """The fullest moment of the pool, the unfilled share of held positions, and the cost of preemptions.

    `unfilled_share` is of the KV memory held over time. It and `recomputed_tokens` are left out where unknown.
    """
    if by_column.empty or not by_column["reserved_max_positions"].max() > 0:
        return NO_BLOCKS
    most = float(by_column["reserved_max_positions"].max()) / block_size
    pool = f"{plural(pool_blocks, 'block')} of {plural(block_size, 'position')}"
    texts = [f"At most {count(most)} of {pool} were held at once ({percent(most / pool_blocks)})"]
    if unfilled_share is not None:
        texts.append(f"{percent(unfilled_share)} of the held positions were unfilled over time")
    return f"{'; '.join(texts)}. {_preempted_text(preemptions, recomputed_tokens)}"


def _preempted_text(preemptions: pd.DataFrame, recomputed_tokens: int | None) -> str:
    if preemptions.empty:
        return "No request was preempted."
    recomputed = "" if recomputed_tokens is None else f"; {plural(recomputed_tokens, 'token')} were recomputed"
    preempted = f"{plural(len(preemptions), 'preemption')} of {plural(preemptions['request_id'].nunique(), 'request')}"
    return f"{preempted} freed {plural(float(preemptions['blocks'].sum()), 'block')}{recomputed}."


if __name__ == "__main__":
    from pages.figures.blocks.sample import sample_pool
    from pages.figures.demo import show

    pools = [sample_pool("chunked"), sample_pool("paged", num_blocks=16)]
    show([block_map(**pool.block_map(), dark=dark) for dark in (False, True) for pool in pools])
