"""The KV pool at one moment: a grid of blocks, the filled part of each in its request's color, the rest paler.

Blocks are in the order of their ids, line by line. In a small pool each block is a row of small cells that shows how
much of it is filled. In a large pool a block is one cell, pale where it is not full. More than MAX_CELLS blocks are
drawn several per cell, in the color of the request that holds most of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import count, duration, percent, plural
from pages.figures.blocks.blocks import NO_BLOCKS
from pages.figures.blocks.request_colors import (
    FREE,
    TINT,
    blended,
    color_codes,
    color_scale,
    color_scale_range,
    num_colors,
)
from pages.figures.colors import palette
from pages.figures.layout import axis, new_figure, note_figure

MAX_CELLS = 24_000
DIVIDED_BLOCKS = 640  # up to this many, each block shows how much of it is filled
PARTS = 8
NUMBERED_BLOCKS = 200
BLOCK_PX = (6, 34)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGrid:
    """The layout of blocks: `per_cell` blocks per cell, `per_line` cells per line, `parts` small cells per cell."""

    cells: int
    per_cell: int
    per_line: int
    parts: int

    @property
    def lines(self) -> int:
        return -(-self.cells // self.per_line)


def grid_of(num_blocks: int) -> PoolGrid:
    """A grid about three times as wide as high."""
    per_cell = max(1, -(-num_blocks // MAX_CELLS))
    cells = -(-num_blocks // per_cell)
    per_line = _round_width(math.sqrt(3.0 * cells))
    return PoolGrid(
        cells=cells, per_cell=per_cell, per_line=min(per_line, cells), parts=PARTS if cells <= DIVIDED_BLOCKS else 1
    )


def pool_at(
    blocks: pd.DataFrame, *, num_blocks: int, block_size: int, title: str = "", dark: bool = False
) -> go.Figure:
    """Draw the blocks held at one moment: block_id, request_id, table_index, positions (filled, of `block_size`)."""
    if num_blocks == 0:
        return note_figure(NO_BLOCKS, dark=dark, title=title)
    grid = grid_of(num_blocks)
    block_px = int(np.clip(330 / grid.lines, *BLOCK_PX))
    figure = new_figure(plot_px=block_px * grid.lines, dark=dark, title=title, left=52)
    cells = _cells(blocks, grid, block_size, dark)
    low, high = color_scale_range(dark, with_pale=True)
    figure.add_heatmap(
        z=_texture(cells, grid, dark),
        x0=-0.5 + 0.5 / grid.parts,
        dx=1 / grid.parts,
        zmin=low,
        zmax=high,
        colorscale=color_scale(dark, with_pale=True),
        showscale=False,
        hoverinfo="skip",
        ygap=2 if block_px > 12 else 1,
    )
    _add_hover(figure, cells, grid, num_blocks, block_size)
    if num_blocks <= NUMBERED_BLOCKS:
        _add_numbers(figure, cells, grid, block_px, dark)
    _add_frames(figure, grid, block_px, dark)
    ticks = list(range(0, grid.lines, math.ceil(18 / block_px)))
    figure.update_layout(
        xaxis=axis(dark, title=_x_title(grid), visible=True, showgrid=False, range=[-0.5, grid.per_line - 0.5]),
        yaxis=axis(
            dark,
            range=[grid.lines - 0.5, -0.5],
            showgrid=False,
            fixedrange=True,
            tickvals=ticks,
            ticktext=[f"{line * grid.per_line * grid.per_cell:,}" for line in ticks],
        ),
    )
    figure.update_xaxes(tickvals=[], fixedrange=True)
    return figure


def _x_title(grid: PoolGrid) -> str:
    line = f"{grid.per_line * grid.per_cell:,} blocks per line"
    cell = f", {grid.per_cell} per cell" if grid.per_cell > 1 else ""
    return f"{line}{cell}; labels: the first block of a line"


def _cells(blocks: pd.DataFrame, grid: PoolGrid, block_size: int, dark: bool) -> pd.DataFrame:
    """A row per held cell: cell, request_id (of most blocks), table_index, held blocks, filled share, color code."""
    if blocks.empty:
        return pd.DataFrame(columns=["cell", "request_id", "table_index", "held", "filled", "positions", "code"])
    frame = blocks.assign(cell=blocks["block_id"].astype(int) // grid.per_cell)
    if grid.per_cell > 1:
        sizes = frame.groupby(["cell", "request_id"], sort=False).size().rename("mine").reset_index()
        holder = sizes.sort_values(["cell", "mine"]).groupby("cell")["request_id"].last()
    else:
        holder = frame.set_index("cell")["request_id"]
    by_cell = frame.groupby("cell")
    cells = pd.DataFrame(
        {
            "request_id": holder,
            "table_index": by_cell["table_index"].min(),
            "held": by_cell.size(),
            "positions": by_cell["positions"].sum(),
        }
    ).reset_index(names="cell")
    return cells.assign(
        filled=cells["positions"] / (cells["held"] * block_size), code=color_codes(cells["request_id"], dark)
    )


def _texture(cells: pd.DataFrame, grid: PoolGrid, dark: bool) -> np.ndarray:
    """(line, column x parts) color codes: the filled parts of a block in its request's color, the rest pale."""
    z = np.full((grid.lines * grid.per_line, grid.parts), np.nan, dtype=np.float32)
    z[: grid.cells] = FREE
    if len(cells):
        place, code = cells["cell"].to_numpy(dtype=int), cells["code"].to_numpy(dtype=int)
        filled = cells["filled"].to_numpy(dtype=float)
        is_filled = np.arange(grid.parts)[None, :] < np.ceil(filled * grid.parts - 1e-9)[:, None]
        if grid.parts == 1:
            is_filled = filled[:, None] >= 1 - 1e-9
        z[place] = np.where(is_filled, code[:, None], code[:, None] + num_colors(dark))
    return z.reshape(grid.lines, grid.per_line * grid.parts)


def _add_hover(figure: go.Figure, cells: pd.DataFrame, grid: PoolGrid, num_blocks: int, block_size: int) -> None:
    """Two invisible heatmaps for hover texts: one over free blocks, one over held blocks."""
    shape = (grid.lines, grid.per_line)
    ids = np.full(shape[0] * shape[1], np.nan, dtype=np.float32)
    ids[: grid.cells] = np.arange(grid.cells) * grid.per_cell
    clear = [[0, "rgba(0,0,0,0)"], [1, "rgba(0,0,0,0)"]]
    which = "block %{z:,.0f}" if grid.per_cell == 1 else f"{grid.per_cell} blocks from %{{z:,.0f}}"
    style = {"colorscale": clear, "showscale": False, "hoverongaps": False}
    free = ids.copy()
    if len(cells):
        free[cells["cell"].to_numpy(dtype=int)] = np.nan
    figure.add_heatmap(z=free.reshape(shape), hovertemplate=f"{which}<br><b>free</b><extra></extra>", **style)
    if not len(cells):
        return
    held, details = np.full(ids.shape, np.nan, dtype=np.float32), np.zeros((len(ids), 3), dtype=np.int32)
    place = cells["cell"].to_numpy(dtype=int)
    held[place] = ids[place]
    details[place] = cells[["request_id", "positions", "table_index"]].to_numpy(dtype=np.int32)
    if grid.per_cell == 1:
        text = f"%{{customdata[1]}} of {block_size} positions filled<br>index %{{customdata[2]:,}} in its block table"
    else:
        text = f"holds most of them; %{{customdata[1]:,}} of {block_size * grid.per_cell:,} positions filled"
    figure.add_heatmap(
        z=held.reshape(shape),
        customdata=details.reshape(*shape, 3),
        hovertemplate=f"{which}<br><b>request %{{customdata[0]}}</b><br>{text}<extra></extra>",
        **style,
    )


def _add_numbers(figure: go.Figure, cells: pd.DataFrame, grid: PoolGrid, block_px: int, dark: bool) -> None:
    """The request's number inside each block, in a text color that contrasts with its fill."""
    if not len(cells) or block_px < 15:
        return
    place = cells["cell"].to_numpy(dtype=int)
    colors, background = palette(dark).requests, palette(dark).empty
    fills = [
        color if filled > 0.5 else blended(color, background, TINT)  # the fill at the middle of the block
        for color, filled in zip((colors[int(code) - 1] for code in cells["code"]), cells["filled"], strict=True)
    ]
    text_colors = [_text_color(fill) for fill in fills]
    figure.add_scatter(
        x=place % grid.per_line,
        y=place // grid.per_line,
        mode="text",
        text=[str(int(request)) for request in cells["request_id"]],
        textfont={"size": 11, "color": text_colors},
        hoverinfo="skip",
        showlegend=False,
    )


def _text_color(fill: str) -> str:
    """Black or white, whichever contrasts more with a fill."""
    red, green, blue = (int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return "#111111" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "#ffffff"


def _add_frames(figure: go.Figure, grid: PoolGrid, block_px: int, dark: bool) -> None:
    """Hairlines between the blocks of a line, where blocks are wide enough. Lines have a gap between them."""
    if grid.parts == 1 or block_px < 10:
        return
    edges = np.arange(grid.per_line + 1) - 0.5
    x = np.repeat(edges, 3)
    y = np.tile([-0.5, grid.lines - 0.5, np.nan], len(edges))
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines",
        line={"width": 2, "color": palette(dark).surface},
        hoverinfo="skip",
        showlegend=False,
    )


def _round_width(width: float) -> int:
    """A round number of blocks per line: 8, 10, 16, 20, 32, 50, 64, 100 …"""
    steps = (1, 2, 4, 8, 10, 16, 20, 32, 50, 64, 100, 128, 160, 200, 256, 300)
    return next((step for step in steps if step >= width), steps[-1])


def pool_caption(
    held: pd.DataFrame, *, pool_blocks: int, block_size: int, pass_index: int, step: float, time_s: float
) -> str:
    """The number of held blocks and of their requests, and the unfilled positions in them."""
    when = f"During pass {count(pass_index)} (step {count(int(step))}, from {duration(time_s)} on)"
    if held.empty:
        return f"{when}, all {plural(pool_blocks, 'block')} are free."
    requests = held["request_id"].nunique()
    holders = f"{plural(requests, 'request')} {'holds' if requests == 1 else 'hold'}"
    text = f"{when}, {holders} {count(len(held))} of {plural(pool_blocks, 'block')}"
    if held["positions"].isna().any():
        return f"{text}."
    positions = len(held) * block_size
    unfilled = positions - float(held["positions"].sum())
    share = percent(unfilled / positions)
    return f"{text}; {count(unfilled)} of {plural(positions, 'position')} in them unfilled ({share})."


if __name__ == "__main__":
    from pages.figures.blocks.sample import sample_pool
    from pages.figures.demo import show

    pools = [sample_pool("paged", num_blocks=30), sample_pool("chunked", num_blocks=2000, slots=32)]
    middles = [pool.pool_at(len(pool.run.passes) // 2) for pool in pools]
    show([pool_at(**arguments, dark=dark) for dark in (False, True) for arguments in middles])
