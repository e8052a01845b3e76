"""A run's row of the ledgers: its metrics, what its KV memory held, and the padding of its CUDA graphs' buckets.

What the memory held and the buckets' sizes are added up over the passes here, where no metric of the run has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

KV_PARTS = ("padding", "dead", "fragment")


def ledger_row(series: str, metrics: Mapping[str, Any], passes: pd.DataFrame) -> dict[str, Any]:
    """`series` and every figure that waste.waste_ledger and kv_layouts.kv_layouts take of one run."""
    known = {name: value for name, value in metrics.items() if value is not None}
    return {"series": series, **_held(passes), **_buckets(passes), **_mixed(passes), **known}


def _held(passes: pd.DataFrame) -> dict[str, float]:
    """What was held besides real tokens, in position-seconds; empty for a run that did not log it."""
    columns = ["kv_reserved_positions", "kv_used_positions", *(f"kv_{part}_positions" for part in KV_PARTS)]
    if passes.empty or not set(columns) <= set(passes.columns) or passes[columns].isna().any(axis=None):
        return {}
    seconds = (passes["end_s"] - passes["start_s"]).to_numpy(dtype=float)
    reserved, used, *parts = (float((seconds * passes[name].to_numpy(dtype=float)).sum()) for name in columns)
    held = {f"kv_{part}_position_s": amount for part, amount in zip(KV_PARTS, parts, strict=True)}
    return held | {"kv_room_position_s": reserved - used - sum(parts)}


def _buckets(passes: pd.DataFrame) -> dict[str, int]:
    """The tokens of the captured passes with their buckets' padding, and that padding; empty where none was."""
    captured = captured_passes(passes)
    if captured.empty:
        return {}
    bucket_tokens = int(captured["bucket_tokens"].sum())
    return {
        "bucket_tokens": bucket_tokens,
        "bucket_padding_tokens": bucket_tokens - int(captured["tokens"].fillna(0).sum()),
    }


def _mixed(passes: pd.DataFrame) -> dict[str, float]:
    mixed = passes[passes["kind"] == "mixed"] if len(passes) else passes
    return {"mixed_s": float((mixed["end_s"] - mixed["start_s"]).sum())} if len(mixed) else {}


def captured_passes(passes: pd.DataFrame) -> pd.DataFrame:
    """The passes that were replayed CUDA graphs."""
    if passes.empty or "bucket_tokens" not in passes:
        return passes.head(0)
    return passes[passes["bucket_tokens"].notna()]
