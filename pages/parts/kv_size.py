"""How many bytes one token position takes in the KV cache, as far as the lab's own runs have told.

It is layers x KV heads x head width x 2 (key and value) x bytes a number, all of which a run's run.json states. A model
that was never run here is unknown: the app does not load models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.dtypes import DTYPE_BYTES, dtype_of
from pages.parts.lab import lab

RECENT = 60


def known_position_bytes(model: str, dtype: str, device: str) -> int | None:
    """For a model by name and a dtype setting on a device; None where no recent run tells the model's shape."""
    runs = lab().store.runs.list(limit=RECENT)
    mine = runs.loc[runs["model"] == model.strip(), "run_id"]
    number_bytes = DTYPE_BYTES.get(dtype_of(dtype, device))
    if mine.empty or number_bytes is None:
        return None
    values = position_values(lab().store.runs.get(str(mine.iloc[0]))["info"].get("model") or {})
    return None if values is None else values * number_bytes


def position_values(model: Mapping[str, Any]) -> int | None:
    """How many numbers one position takes: keys and values of every layer's KV heads."""
    parts = [model.get(name) for name in ("layers", "kv_heads", "head_dim")]
    if not all(isinstance(part, int) and part > 0 for part in parts):
        return None
    layers, heads, width = parts
    return 2 * int(layers or 0) * int(heads or 0) * int(width or 0)
