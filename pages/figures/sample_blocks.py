"""A sample pool for the demos of the block figures: a paged sample run, and its blocks in the form the figures take.

The lab's own block manager deals the blocks out; only the clock is made up. For real runs the store does this work.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from pages.figures.blocks import block_map
from pages.figures.pool import pool_at
from pages.figures.sample import BLOCK_SIZE, BUDGETS, SampleRun, sample_run
from pages.figures.spans import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePool:
    """A run with its pool. `holds` has a row for each time that a request held a block: from pass to pass."""

    run: SampleRun
    num_blocks: int
    holds: pd.DataFrame

    def block_map(self, *, unit: Unit = "step", dark: bool = False) -> go.Figure:
        """The pool over time, a cell a block and pass."""
        return block_map(
            block_cells(self.holds, len(self.run.passes)),
            pass_bins(self.run.passes),
            num_blocks=int(self.holds["block_id"].max()) + 1,
            pool_blocks=self.num_blocks,
            blocks_per_bin=1,
            block_size=BLOCK_SIZE,
            unit=unit,
            preemptions=self.run.events,
            dark=dark,
        )

    def at(self, pass_index: int, *, dark: bool = False) -> go.Figure:
        """The pool during one pass. Made up: the last block of each request is half full."""
        held = self.holds[(self.holds["start_pass"] <= pass_index) & (self.holds["end_pass"] > pass_index)]
        is_last = held["table_index"] == held.groupby("request_id")["table_index"].transform("max")
        held = held.assign(positions=is_last.map({True: BLOCK_SIZE // 2, False: BLOCK_SIZE}))
        return pool_at(held, num_blocks=self.num_blocks, block_size=BLOCK_SIZE, dark=dark)


def sample_pool(
    engine: str, *, num_blocks: int = 60, slots: int = 4, budgets: tuple[int, ...] = BUDGETS
) -> SamplePool:
    """`paged` or `chunked` over made-up requests in a pool of so many blocks; a small one preempts."""
    run = sample_run(engine, slots=slots, budgets=budgets, num_blocks=num_blocks)
    return SamplePool(run=run, num_blocks=num_blocks, holds=_holds(run.block_events, len(run.passes)))


def _holds(events: pd.DataFrame, num_passes: int) -> pd.DataFrame:
    """Each allocation with the giving back that ends it."""
    open_holds: dict[tuple[int, int], dict[str, int]] = {}
    holds = []
    for event in events.to_dict("records"):
        key = (event["block_id"], event["request_id"])
        if event["allocated"]:
            names = ("block_id", "request_id", "table_index")
            open_holds[key] = {name: event[name] for name in names} | {"start_pass": event["pass_index"]}
        else:
            holds.append(open_holds.pop(key) | {"end_pass": event["pass_index"]})
    holds += [hold | {"end_pass": num_passes} for hold in open_holds.values()]
    return pd.DataFrame(holds).sort_values(["start_pass", "block_id"], ignore_index=True)


def block_cells(holds: pd.DataFrame, num_passes: int) -> pd.DataFrame:
    """A row for each block and pass that was held."""
    cells = [
        {"block_bin": block, "pass_bin": at, "request_id": request, "owners": 1, "held_fraction": 1.0}
        for block, request, start, end in holds[["block_id", "request_id", "start_pass", "end_pass"]].to_numpy()
        for at in range(start, min(end, num_passes))
    ]
    return pd.DataFrame(cells)


def pass_bins(passes: pd.DataFrame) -> pd.DataFrame:
    """Every pass as a bin of its own, with its place on both axes."""
    in_step = passes.groupby("step").cumcount() / passes.groupby("step")["step"].transform("size")
    start = passes["step"] + in_step
    return pd.DataFrame(
        {
            "pass_bin": passes["pass_index"],
            "start_pass": passes["pass_index"],
            "end_pass": passes["pass_index"] + 1,
            "start_step": start,
            "end_step": [*start.iloc[1:], passes["step"].iloc[-1] + 1.0],
            "start_s": passes["start_s"],
            "end_s": passes["end_s"],
            "reserved_max_positions": passes["kv_reserved_positions"],
            "fragment_fraction": passes["kv_fragment_positions"] / passes["kv_reserved_positions"].clip(lower=1),
        }
    )
