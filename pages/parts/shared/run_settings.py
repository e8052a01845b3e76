"""The settings of a run that several forms draw: model, device and dtype, and the advanced ones.

`fields` are the form's; `values` take what is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.core.units import dtype_of
from engine.hardware.model_catalog import list_models
from pages.parts.shared.devices import available_devices, available_executions, device_of, execution_text
from pages.parts.shared.fields import CAP, LEAST_POOL_GIB, Field
from pages.parts.shared.markdown import plain
from pages.parts.shared.widgets import choice, model, number


def draw_model(values: dict[str, Any], notes: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """Model, device and dtype. Under the model is a place for its problem, with what the model is."""
    values["model"] = model([row["name"] for row in list_models()], fields=fields)
    notes["model"] = st.empty()
    notes["model"].caption(model_text(values["model"]))
    values["device"] = choice("device", available_devices(), fields=fields)
    values["dtype"] = choice("dtype", fields=fields)
    used = device_of(values["device"])
    missing = "" if "cuda" in available_devices() else " No NVIDIA GPU found; CUDA is unavailable."
    st.caption(f"Runs use {dtype_of(values['dtype'], used)} on {used}.{missing}")


def model_text(name: str) -> str:
    """What a model of the list is, and why it cannot run; what happens to another name."""
    row = next((row for row in list_models() if row["name"] == name), None)
    if row is None:
        return "A folder or hub id; it is looked up when the run starts."
    why = "" if row["why"] is None else f" :orange[{plain(row['why'])}.]"
    return f"{plain(row['description'])}.{why}"


def draw_advanced(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """Execution, timing, warm-up, memory and seed, in an expander. Of the last two, those of `fields` that the form has
    not drawn elsewhere."""
    seed = "seed" in fields and "seed" not in values
    with st.expander(f"Advanced: execution, timing, warm-up, memory{', seed' if seed else ''}"):
        left, right = st.columns(2, gap="medium")
        with left:
            _draw_passes(values, fields)
            if seed:
                values["seed"] = number("seed", fields=fields)
        with right:
            _draw_limits(values, {name: field for name, field in fields.items() if name not in values})


def _draw_passes(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    on_cpu = device_of(values["device"]) == "cpu" and "execution" not in values
    if "execution" not in values:
        values["execution"] = choice("execution", available_executions(values["device"]), fields=fields)
        st.caption(execution_text(values["device"]))
    values["timing"] = choice("timing", disabled=on_cpu, fields=fields)
    st.caption(
        "Off: on a CPU a pass ends when its call returns, so both timings are the same."
        if on_cpu
        else "sync waits for the device after each pass; async issues the next pass while one still runs."
    )
    values["warmups"] = number("warmups", fields=fields)
    st.caption("One round: a prefill of each prompt length and three decode steps.")


def _draw_limits(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """The limits of memory and the sizes of a pass, where `fields` has them."""
    on_cpu = device_of(values["device"]) == "cpu" and "hardware" not in values
    if "pool_gib" in fields:
        values["pool_gib"] = number("pool_gib", step=0.01, least=LEAST_POOL_GIB, fields=fields)
    values["capacity_gib"] = number("capacity_gib", step=0.5, fields=fields)
    st.caption(CAP)
    if "block_size" in fields:
        values["block_size"] = choice("block_size", fields=fields)
    if "max_num_batched_tokens" in fields:
        values["max_num_batched_tokens"] = number("max_num_batched_tokens", fields=fields)
    if "gpu_memory_utilization" in fields:
        values["gpu_memory_utilization"] = number("gpu_memory_utilization", disabled=on_cpu, step=0.05, fields=fields)
        st.caption(
            "Off: this run is not on a GPU."
            if on_cpu
            else "Weights, activations and the KV pool together may use this share."
        )
