"""The KV pool over time: who held which block, how many were free, and how much of what was held was still unfilled.

Three panels over one x axis. Above, the free blocks, with a mark for each preemption: a moment when there were too few.
In the middle the pool, blocks down, each in the color of the request that holds it. Below, the unfilled ends of the
last blocks, as a share of what was held: what paging wastes. A large pool or a long run comes in coarser cells: each
stands for several blocks over several passes, takes the color of the request that held most of it, and says in its
hover how much was held.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import counted, duration
from pages.figures.blocks.owners import code_colors, code_range, owner_codes
from pages.figures.colors import palette
from pages.figures.layout import axis, label, new_figure, note_figure, set_layout
from pages.figures.timeline.preemptions import add_preemptions
from pages.figures.timeline.queue import changes_only
from pages.figures.timeline.spans import Unit

MAX_ROWS = 128  # what one asks the store for
MAX_COLUMNS = 400
STRIP_PX = 64
GAP_PX = 30
MAP_PX = (150, 420)
BLOCK_PX = 15
NO_BLOCKS = "No block has been given to a request yet."


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

    The grid `shape` (rows, columns) cuts the blocks, and the run from 0 to `end` in the unit, into equal parts. `cells`
    has a row a cell that was held at all: row, column, request_id (who held most of it), held (the share of its blocks
    and time that anybody held), requests (how many did). `by_column` has a row a column in which a pass began: column,
    passes, reserved_max_positions, fragment_fraction. `preemptions` are rows of the run log's events, with `step` and
    `time_s`.
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
    """Where the three panels stand, from 0 at the bottom of the plot to 1 at its top."""
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
    in_rows = "" if blocks_a_row == 1 else f", {blocks_a_row} a row"
    of_pool = f"blocks 0 to {num_blocks - 1:,}" if num_blocks < pool_blocks else "all blocks"
    words = (
        f"free blocks, of {pool_blocks:,}" + (" (triangles: preemptions)" if has_marks else ""),
        f"{of_pool}{in_rows}, by the request that holds them",
        "held and not filled, the ends of the last blocks",
    )
    faint = {"size": 12, "color": palette(dark).faint_text}
    for heading, (_, top) in zip(words, _domains(map_px), strict=True):
        place = {"x": 0, "xref": "paper", "y": top, "yref": "paper", "yanchor": "bottom"}
        figure.add_annotation(label(heading, font=faint, **place))


def _x_title(unit: Unit, width: float, most_passes: int) -> str:
    """The unit; where a column holds more than one pass, how wide it is."""
    if most_passes <= 1 or (unit == "step" and width <= 1):
        return "step" if unit == "step" else "seconds"
    return f"step, {counted(width)} a column" if unit == "step" else f"seconds, {duration(width)} a column"


def _add_grid(
    figure: go.Figure,
    cells: pd.DataFrame,
    shape: tuple[int, int],
    end: float,
    blocks_a_row: int,
    unit: Unit,
    dark: bool,
) -> None:
    """A ground of free blocks, and over it the held cells; each answers the pointer by itself."""
    low, high = code_range(dark)
    width = end / shape[1]
    look = {
        "x0": width / 2,
        "dx": width,
        "y0": (blocks_a_row - 1) / 2,
        "dy": blocks_a_row,
        "yaxis": "y2",
        "colorscale": code_colors(dark),
        "zmin": low,
        "zmax": high,
        "showscale": False,
        "ygap": 1 if shape[0] <= 48 else 0,
    }
    at = "step %{x:,.0f}" if unit == "step" else "%{x:,.3r}\u00a0s"
    which = "block %{y:,.0f}" if blocks_a_row == 1 else f"{blocks_a_row} blocks around %{{y:,.0f}}"
    free = f"{which}, around {at}<br><b>free</b><extra></extra>"
    figure.add_heatmap(z=np.zeros(shape, dtype=np.uint8), hovertemplate=free, **look)
    row, column = cells["row"].to_numpy(dtype=int), cells["column"].to_numpy(dtype=int)
    z = np.full(shape, np.nan, dtype=np.float32)
    z[row, column] = owner_codes(cells["request_id"], dark)
    held = np.ceil(cells["held"].to_numpy(dtype=float) * 100 - 1e-6)
    facts = np.zeros((*shape, 3), dtype=np.int32)
    facts[row, column] = np.column_stack([cells["request_id"], held, cells["requests"]])
    share = ""
    if _is_shared(cells):
        share = "<br>holds most of it; %{customdata[1]}\u00a0% held, by %{customdata[2]:,} in all"
    owner = f"{which}, around {at}<br><b>request %{{customdata[0]}}</b>{share}<extra></extra>"
    figure.add_heatmap(z=z, customdata=facts, hoverongaps=False, hovertemplate=owner, **look)


def _is_shared(cells: pd.DataFrame) -> bool:
    return bool((cells["requests"] > 1).any() or (cells["held"] < 1 - 1e-6).any())


def _add_strip(figure: go.Figure, end: float, values: pd.Series, what: str, dark: bool) -> None:
    """A stepped area over the columns; a figure that was not logged is left out."""
    if values.isna().all():
        return
    colors = palette(dark)
    is_free = what == "free"
    y = values.fillna(0).to_numpy(dtype=float)
    x, y = changes_only(np.linspace(0.0, end, len(y) + 1), np.append(y, y[-1]))
    said = "%{y:,.0f} blocks free" if is_free else "%{customdata:,.3r}\u00a0% of what is held is not filled"
    figure.add_scatter(
        x=x,
        y=y,
        customdata=100 * y,
        yaxis="y" if is_free else "y3",
        mode="lines",
        line={"shape": "hv", "width": 1.4, "color": colors.faint_text if is_free else colors.fragment_line},
        fill="tozeroy",
        fillcolor=colors.empty if is_free else colors.fragment,
        name=what,
        showlegend=False,
        hovertemplate=f"{said}<extra></extra>",
    )


if __name__ == "__main__":
    from pages.figures.blocks.sample import sample_pool
    from pages.figures.demo import show

    pools = [sample_pool("chunked"), sample_pool("paged", num_blocks=16)]
    show([block_map(**pool.block_map(), dark=dark) for dark in (False, True) for pool in pools])
