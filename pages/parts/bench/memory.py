"""The controls of Bench for memory and for how passes are carried out: blocks, caps, execution, timing, warm-up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.core.format import plural, quantity, size
from engine.core.presets import PRESETS
from engine.core.units import DTYPE_BYTES, GIB, dtype_of
from pages.parts.shared.devices import available_executions, device_of, execution_text
from pages.parts.shared.fields import CAP, LEAST_POOL_GIB
from pages.parts.shared.lab import lab
from pages.parts.shared.widgets import choice, group, number

# How many bytes one token position takes in the KV cache, as far as the lab's own runs have told.

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


SMALL_POOL = (
    "A pool that is too small on purpose shows preemption: when blocks run out, the youngest request gives all of its "
    "blocks back, waits at the front of the queue, and is computed anew. Nothing it has said is lost."
)


def draw_memory(values: dict[str, Any], notes: dict[str, Any]) -> None:
    """Where keys and values live: the size of a block, and how large the pool may be."""
    with group("KV memory", "Where the keys and values of all tokens so far are kept."):
        values["block_size"] = choice("Token positions a block (block-size)", "block_size")
        st.caption("Read by paged and chunked alone. Small blocks leave less unfilled; large ones make shorter tables.")
        values["pool_gib"] = number("KV pool, at most GiB", "pool_gib", step=0.01, least=LEAST_POOL_GIB)
        notes["memory"] = st.empty()


def memory_text(values: Mapping[str, Any]) -> str:
    """What the pool's cap does to this engine, and how many blocks it is where the model's size is known."""
    if not PRESETS[values["engine"]].has_blocks:
        return CAP
    position_bytes = known_position_bytes(values["model"], values["dtype"], device_of(values["device"]))
    if position_bytes is None:
        return f"Empty: no cap. {SMALL_POOL}"
    block_bytes = position_bytes * int(values["block_size"])
    if values["pool_gib"] is None:
        in_gib = quantity(block_bytes / GIB, "GiB")
        return f"Empty: no cap. A block holds {size(block_bytes)} here ({in_gib}). {SMALL_POOL}"
    blocks = int(values["pool_gib"] * GIB / block_bytes)
    return f"{plural(blocks, 'block')} of {size(block_bytes)} each, at most. {SMALL_POOL}"


def draw_advanced(values: dict[str, Any]) -> None:
    """Execution, timing, warm-up and the caps on all memory."""
    on_cpu = device_of(values["device"]) == "cpu"
    with st.expander("Advanced: execution, timing, warm-up, memory"):
        left, right = st.columns(2, gap="medium")
        with left:
            values["execution"] = choice("Execution", "execution", available_executions(values["device"]))
            st.caption(execution_text(values["device"]))
            values["timing"] = choice("Timing", "timing", disabled=on_cpu)
            st.caption(
                "Off: on a CPU a pass is over when its call returns, so both timings are the same."
                if on_cpu
                else "sync stops after each pass, as the sources did; async issues the next pass while one still runs."
            )
            values["warmups"] = number("Warm-up rounds before the clock starts", "warmups")
            st.caption("One round: a prefill of each prompt length and three decode steps.")
        with right:
            values["capacity_gib"] = number("All memory, at most GiB", "capacity_gib", step=0.5)
            st.caption(CAP)
            values["gpu_memory_utilization"] = number(
                "Share of the GPU's memory (gpu-memory-utilization)",
                "gpu_memory_utilization",
                disabled=on_cpu,
                step=0.05,
            )
            st.caption(
                "Off: this run is not on a GPU."
                if on_cpu
                else "What weights, activations and the KV pool may take of the card together."
            )
