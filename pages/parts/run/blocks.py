"""The section on paged KV memory: the pool over time, its preemptions, and the pool at one pass."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from engine.core.format import count, duration, percent, plural
from pages.figures.blocks.blocks import MAX_COLUMNS, MAX_ROWS, block_map, block_map_caption
from pages.figures.blocks.pool import pool_at, pool_caption
from pages.figures.frames import records
from pages.figures.timeline.preemptions import preemptions_of
from pages.figures.timeline.spans import RunUnit
from pages.parts.runs.figures import chosen_unit
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.shared.charts import show
from pages.parts.shared.lab import is_dark, lab
from pages.parts.shared.page_state import page_key
from pages.parts.shared.tables import draw_table
from store import Store
from store.queries.block_map import BlockMap

MAX_LISTED = 20


def draw_blocks(run: LoadedRun) -> None:
    """The section of a run with paged KV memory."""
    unit = chosen_unit()
    grid = _block_map(str(lab().home), run.run_id, _version(run), unit)
    show(blocks_figure(run, grid, unit, dark=is_dark()), key="blocks", alt="KV blocks over time")
    st.caption(blocks_caption(run, grid))
    with st.expander("How to read this"):
        st.markdown(BLOCKS_HELP)
    draw_preemptions(preemptions_of(run.events))
    if not run.passes.empty and grid.used_blocks:
        _draw_moment(run, run.kv_blocks or grid.num_blocks)


def blocks_figure(run: LoadedRun, grid: BlockMap, unit: RunUnit, *, dark: bool) -> go.Figure:
    """The run's pool of blocks over time."""
    return block_map(
        grid.cells,
        grid.by_column,
        shape=(grid.rows, grid.columns),
        end=grid.end,
        num_blocks=grid.num_blocks,
        pool_blocks=run.kv_blocks or grid.num_blocks,
        block_size=run.config.block_size,
        unit=unit,
        preemptions=preemptions_of(run.events),
        dark=dark,
    )


def blocks_caption(run: LoadedRun, grid: BlockMap) -> str:
    """The finding of `blocks_figure`."""
    waste = run.waste_row("")
    reserved, unfilled = waste.get("kv_reserved_position_s"), waste.get("kv_fragment_position_s")
    return block_map_caption(
        grid.by_column,
        preemptions_of(run.events),
        pool_blocks=run.kv_blocks or grid.num_blocks,
        block_size=run.config.block_size,
        unfilled_share=unfilled / reserved if reserved and unfilled is not None else None,
        recomputed_tokens=run.pass_totals["recomputed_tokens"],
    )


@st.cache_resource(max_entries=8, show_spinner=False)
def _block_map(home: str, run_id: str, version: int, unit: RunUnit) -> BlockMap:
    """Cached as a LoadedRun is."""
    return read_block_map(lab().store, run_id, unit)


def read_block_map(store: Store, run_id: str, unit: RunUnit) -> BlockMap:
    """Up to the highest block in use: a pool may be far larger than the workload."""
    whole = store.kv.block_map(run_id, max_blocks=MAX_ROWS, max_bins=MAX_COLUMNS, unit=unit)
    if not 0 < whole.used_blocks < whole.num_blocks:
        return whole
    used = whole.used_blocks
    return store.kv.block_map(run_id, max_blocks=MAX_ROWS, max_bins=MAX_COLUMNS, unit=unit, num_blocks=used)


def _version(run: LoadedRun) -> int:
    return lab().recorder.version if run.status == "running" else -1


def draw_preemptions(lost: pd.DataFrame) -> None:
    """A row per preemption: the request, when, the blocks it freed, the positions to recompute."""
    if lost.empty:
        return
    st.markdown(f"**{plural(len(lost), 'preemption')}**: blocks freed, positions to recompute")
    header = ["request", "step", "time", "lane", "blocks", "positions"]
    draw_table(header, preemption_rows(lost.head(MAX_LISTED)), figures=range(len(header)))
    if len(lost) > MAX_LISTED:
        st.caption(f"The first {MAX_LISTED} of {count(len(lost))}.")


def preemption_rows(lost: pd.DataFrame) -> list[list[str]]:
    """The cells of the table of preemptions."""
    return [
        [f"{row['request_id']:.0f}", count(int(row["step"])), duration(row["time_s"]), f"{row['lane']:.0f}"]
        + [count(row["blocks"]), count(row["tokens"])]
        for row in records(lost)
    ]


@st.fragment
def _draw_moment(run: LoadedRun, pool_blocks: int) -> None:
    """A slider over the passes, and the pool as a grid of blocks during that pass. A move redraws this part only."""
    st.markdown("**The pool at one pass**")
    last = len(run.passes) - 1
    fullest = int(run.passes["kv_reserved_positions"].fillna(0).to_numpy().argmax())
    place = st.slider("Pass", 0, last, fullest, key=page_key(f"pool_at_{run.run_id}")) if last else 0
    at = run.passes.iloc[place]
    held = lab().store.kv.blocks_at(run.run_id, int(at["pass_index"]))
    size = run.config.block_size
    figure = pool_at(held, num_blocks=pool_blocks, block_size=size, dark=is_dark())
    show(figure, key="pool", alt="KV blocks at one pass", config={"displayModeBar": False})
    st.caption(
        pool_caption(
            held,
            pool_blocks=pool_blocks,
            block_size=size,
            pass_index=int(at["pass_index"]),
            step=float(at["step"]),
            time_s=float(at["start_s"]),
        )
    )
    if not held.empty:
        _draw_holders(held, size)


def _draw_holders(held: pd.DataFrame, block_size: int) -> None:
    """The blocks of each request as a table, because colors do not name requests."""
    header = ["request", "blocks", "positions filled", "not filled"]
    rows = holder_rows(held, block_size)
    draw_table(header, rows[:MAX_LISTED], figures=range(len(header)))
    if len(rows) > MAX_LISTED:
        st.caption(f"The {MAX_LISTED} requests with the most blocks, of {count(len(rows))}.")


def holder_rows(held: pd.DataFrame, block_size: int) -> list[list[str]]:
    """A row per request, the most blocks first: its blocks, their filled positions, their unfilled positions."""
    by_request = held.groupby("request_id").agg(blocks=("block_id", "size"), positions=("positions", "sum"))
    by_request = by_request.sort_values("blocks", ascending=False, kind="stable")
    return [_holder(request, blocks, positions, block_size) for request, blocks, positions in by_request.itertuples()]


def _holder(request: Any, blocks: int, positions: float, block_size: int) -> list[str]:
    empty = blocks * block_size - positions
    unfilled = f"{count(empty)} ({percent(empty / blocks / block_size)})"
    return [f"{request:.0f}", count(blocks), count(positions), unfilled]


BLOCKS_HELP = """
Keys and values live in blocks of a few token positions each. A request's **block table** lists its blocks in order.
They can lie anywhere in the pool. A request takes a block when its last one is full, and frees all of them at its end.

- **A color** is a request. Colors repeat: hover to see the request's number.
- **Near white** is a free block.
- **Not filled** is the end of each request's last block. It is all the memory that paging wastes: less than one block
  per request.
- **A triangle** is a preemption: an older request needed a block and none was free, so the newest request freed all of
  its blocks. It waits first in the queue and is recomputed, its answer so far included. No token is lost.

Where a pool or a run is too large to draw each block and pass, a cell combines several and takes the color of the
request that held most of it.
"""
