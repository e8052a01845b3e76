"""A sample KV pool for the demos of the block figures: a paged sample run and its blocks, as the figures take them.

The lab's block manager allocates the blocks; only the clock is made up. For real runs the store provides these frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pages.figures.frames import records
from pages.figures.sample import BLOCK_SIZE, BUDGETS, SampleRun, sample_run
from pages.figures.timeline.spans import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePool:
    """A run with its pool. `holds` has a row per block and request: from start_pass up to end_pass."""

    run: SampleRun
    num_blocks: int
    holds: pd.DataFrame

    def block_map(self, *, unit: Unit = "step") -> dict[str, Any]:
        """The arguments of blocks.block_map: the pool over time, in cells as wide as the mean pass."""
        passes, num_blocks = self.run.passes, int(self.holds["block_id"].max()) + 1
        end = float(passes["step"].max() + 1) if unit == "step" else float(passes["end_s"].max())
        return {
            "cells": block_cells(self.holds, passes, len(passes), unit),
            "by_column": by_column(passes, len(passes), unit),
            "shape": (num_blocks, len(passes)),
            "end": end,
            "num_blocks": num_blocks,
            "pool_blocks": self.num_blocks,
            "block_size": BLOCK_SIZE,
            "unit": unit,
            "preemptions": self.run.events,
        }

    def pool_at(self, pass_index: int) -> dict[str, Any]:
        """The arguments of pool.pool_at: the pool during one pass. Made up: each request's last block is half full."""
        held = self.holds[(self.holds["start_pass"] <= pass_index) & (self.holds["end_pass"] > pass_index)]
        is_last = held["table_index"] == held.groupby("request_id")["table_index"].transform("max")
        held = held.assign(positions=is_last.map({True: BLOCK_SIZE // 2, False: BLOCK_SIZE}))
        return {"blocks": held, "num_blocks": self.num_blocks, "block_size": BLOCK_SIZE}


def sample_pool(engine: str, *, num_blocks: int = 60, slots: int = 4, budgets: tuple[int, ...] = BUDGETS) -> SamplePool:
    """`paged` or `chunked` over made-up requests in a pool of `num_blocks`; a small pool preempts."""
    run = sample_run(engine, slots=slots, budgets=budgets, num_blocks=num_blocks)
    return SamplePool(run=run, num_blocks=num_blocks, holds=_holds(run.block_events, len(run.passes)))


def _holds(events: pd.DataFrame, num_passes: int) -> pd.DataFrame:
    """Each allocation with the release that ends it."""
    open_holds: dict[tuple[int, int], dict[str, int]] = {}
    holds = []
    for event in records(events):
        key = (event["block_id"], event["request_id"])
        if event["allocated"]:
            names = ("block_id", "request_id", "table_index")
            open_holds[key] = {name: event[name] for name in names} | {"start_pass": event["pass_index"]}
        else:
            holds.append(open_holds.pop(key) | {"end_pass": event["pass_index"]})
    holds += [hold | {"end_pass": num_passes} for hold in open_holds.values()]
    return pd.DataFrame(holds).sort_values(["start_pass", "block_id"], ignore_index=True)


def places(passes: pd.DataFrame, unit: Unit) -> np.ndarray:
    """The start of each pass on the axis, and the end of the last."""
    if unit == "second":
        return np.append(passes["start_s"].to_numpy(), passes["end_s"].iloc[-1])
    in_step = passes.groupby("step").cumcount() / passes.groupby("step")["step"].transform("size")
    return np.append((passes["step"] + in_step).to_numpy(), passes["step"].iloc[-1] + 1.0)


def block_cells(holds: pd.DataFrame, passes: pd.DataFrame, columns: int, unit: Unit) -> pd.DataFrame:
    """A row per block and column in whose middle a request held the block."""
    edges = places(passes, unit)
    middles = (np.arange(columns) + 0.5) * edges[-1] / columns
    at = np.clip(np.searchsorted(edges, middles, side="right") - 1, 0, len(passes) - 1)
    cells = [
        {"row": block, "column": int(column), "request_id": request, "held": 1.0, "requests": 1}
        for block, request, start, end in holds[["block_id", "request_id", "start_pass", "end_pass"]].to_numpy()
        for column in np.flatnonzero((at >= start) & (at < end))
    ]
    return pd.DataFrame(cells)


def by_column(passes: pd.DataFrame, columns: int, unit: Unit) -> pd.DataFrame:
    """The pool's totals in each column in which a pass began."""
    edges = places(passes, unit)
    column = np.minimum(edges[:-1] / edges[-1] * columns + 1e-9, columns - 1).astype(int)
    fragment = passes["kv_fragment_positions"].groupby(column).sum()
    reserved = passes["kv_reserved_positions"].groupby(column)
    return pd.DataFrame(
        {
            "passes": reserved.size(),
            "reserved_max_positions": reserved.max(),
            "fragment_fraction": fragment / reserved.sum().clip(lower=1),
        }
    ).reset_index(names="column")
