"""The controls of Bench for KV memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from engine.core.format import plural, quantity, size
from engine.core.presets import PRESETS
from engine.core.units import DTYPE_BYTES, GIB, dtype_of
from engine.hardware.model_presets import model_shape
from engine.hardware.roofline import shape_of_run
from pages.parts.shared.devices import device_of
from pages.parts.shared.fields import CAP, LEAST_POOL_GIB
from pages.parts.shared.lab import lab
from pages.parts.shared.widgets import choice, group, number

RECENT = 60  # runs that are searched for a model's shape
SMALL_POOL = (
    "A pool that is too small shows preemption: when blocks run out, the request admitted last frees all its blocks, "
    "waits at the front of the queue, and is recomputed. It loses no tokens."
)


def draw_memory(values: dict[str, Any], notes: dict[str, Any]) -> None:
    """The size of a block, and the limit of the KV pool."""
    with group("KV memory", "Where the keys and values of all tokens are stored."):
        values["block_size"] = choice("block_size")
        st.caption("Paged and chunked only. Small blocks leave less space unused; large ones have shorter tables.")
        values["pool_gib"] = number("pool_gib", step=0.01, least=LEAST_POOL_GIB)
        notes["memory"] = st.empty()


def memory_text(values: Mapping[str, Any]) -> str:
    """What the pool's limit means for the engine, in blocks if the size of a block is known."""
    if not PRESETS[values["engine"]].has_blocks:
        return CAP
    device = "cuda" if "hardware" in values else device_of(values["device"])
    position_bytes = known_position_bytes(values["model"], values["dtype"], device)
    if position_bytes is None:
        return f"Empty: no cap. {SMALL_POOL}"
    block_bytes = position_bytes * int(values["block_size"])
    if values["pool_gib"] is None:
        in_gib = quantity(block_bytes / GIB, "GiB")
        return f"Empty: no cap. A block takes {size(block_bytes)} ({in_gib}). {SMALL_POOL}"
    blocks = int(values["pool_gib"] * GIB / block_bytes)
    return f"At most {plural(blocks, 'block')} of {size(block_bytes)} each. {SMALL_POOL}"


def known_position_bytes(model: str, dtype: str, device: str) -> int | None:
    """KV bytes of a token position for a model and dtype on a device, by its configuration or by a recent run of it.

    None if neither is known.
    """
    dtype = dtype_of(dtype, device)
    if dtype not in DTYPE_BYTES:
        return None
    try:
        return model_shape(model.strip(), dtype=dtype).kv_position_bytes
    except ValueError:
        pass
    runs = lab().store.runs.list(limit=RECENT)
    mine = runs.loc[runs["model"] == model.strip(), "run_id"]
    if mine.empty:
        return None
    try:
        shape = shape_of_run(lab().store.runs.get(str(mine.iloc[0]))["info"].get("model") or {})
    except ValueError:
        return None
    return replace(shape, value_bytes=DTYPE_BYTES[dtype]).kv_position_bytes
