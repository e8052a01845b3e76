"""How a run's passes were carried out, in words: replayed CUDA graphs or eager, and why; rows computed too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from engine.core.config import RunConfig
from engine.core.format import count, is_missing, percent, plural
from pages.parts.shared.markdown import plain

# A run's row of the ledgers: its metrics, what its KV memory held, and the padding of its CUDA graphs' buckets.

KV_PARTS = ("padding", "dead", "fragment")


def ledger_row(series: str, metrics: Mapping[str, Any], passes: pd.DataFrame) -> dict[str, Any]:
    """`series` and every figure that waste.waste_breakdown and kv_layouts.kv_layouts take of one run."""
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


def notes_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What the worker had to say about how the run was carried out; `row` as the store's `run`."""
    notes = (row.get("result") or {}).get("notes") or (row.get("info") or {}).get("notes") or ()
    return tuple(str(note) for note in notes)


def execution_sentence(config: RunConfig, passes: pd.DataFrame, notes: tuple[str, ...]) -> str:
    """How many passes were replayed CUDA graphs and why the others were not; empty for an eager run without notes."""
    return executed_text(config, len(captured_passes(passes)), len(passes), notes)


def executed_text(config: RunConfig, captured: int, passes: int, notes: tuple[str, ...]) -> str:
    """The same of passes that are counted already."""
    why = plain(" ".join(notes))
    if config.execution != "graph" or not passes:
        return why
    of_all = f"{count(captured)} of {plural(passes, 'pass', 'passes')} were replayed CUDA graphs"
    if captured == passes:
        return " ".join(filter(None, [f"{of_all}.", why]))
    others = "the others ran eager" if captured else "all ran eager"
    return f"{of_all}; {others}{f': {why}' if why else '.'}"


def discarded_text(config: RunConfig, metrics: Mapping[str, Any]) -> str:
    """The row-steps that an engine without dead slots computed past an end that it learned of one pass late."""
    rows, live = metrics.get("slot_steps"), metrics.get("useful_slot_steps")
    if config.engine == "static" or rows is None or live is None or is_missing(rows) or rows <= live:
        return ""
    late = int(rows - live)
    how_many = f"{plural(late, 'row-step')} of {count(rows)} ({percent(late / rows)})"
    return (
        f"{how_many} {'was' if late == 1 else 'were'} discarded: "
        "the next pass had been issued before the end of a sequence was known. They are counted as dead."
    )
