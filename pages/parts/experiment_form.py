"""The parts of a form that every kind of experiment has: engine, model and device, and how each run is carried out.

A page names its fields with `experiment_fields`, draws its own beside these, and reads all of them by name. Every field
is bound to the query parameter of its name, so that a link brings back the whole form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.format import plural
from engine.core.model_catalogue import list_models
from engine.core.presets import PRESETS
from pages.parts.bench_fields import FIELDS, Choice, Field, Number, Text
from pages.parts.bench_memory import CAP, LEAST_POOL_GIB, execution_words
from pages.parts.bench_widgets import choice, number
from pages.parts.devices import available_devices, available_executions, device_of, dtype_of
from pages.parts.markdown import plain

MAX_REPEATS = 100
SHARED = (
    *("model", "device", "dtype", "seed", "warmups", "execution", "timing", "pool_gib", "capacity_gib"),
    *("block_size", "max_num_batched_tokens"),
)


def experiment_fields(**own: Field) -> dict[str, Field]:
    """The fields of a page's form: those that every experiment has, then the page's own."""
    return {name: FIELDS[name] for name in SHARED} | {"repeats": Number(low=1, high=MAX_REPEATS, default=1)} | own


def with_default(name: str, default: Any) -> Field:
    """A field of Bench with another default."""
    field = FIELDS[name]
    assert isinstance(field, Choice | Number | Text)
    return replace(field, default=default)


def draw_engine(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """One engine, and in a line what it shows."""
    values["engine"] = choice("Engine", "engine", fields=fields)
    st.caption(f"What it shows: {PRESETS[values['engine']].shows}.")


def draw_model(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """What runs, on what, in which number format."""
    models = {row["name"]: row for row in list_models()}
    values["model"] = st.selectbox(
        "Model",
        list(models),
        index=list(models).index(str(fields["model"].default)),
        key="model",
        bind="query-params",
        accept_new_options=True,
        help="A name of the list, or type a folder with safetensors or GGUF, or a hub id as owner/model.",
    )
    row = models.get(str(values["model"]))
    if row is not None and row["why"] is not None:
        st.caption(f":orange[{plain(row['why'])}.]")
    values["device"] = choice("Device", "device", available_devices(), fields=fields)
    values["dtype"] = choice("Number format", "dtype", fields=fields)
    used = device_of(values["device"])
    st.caption(f"This runs in {dtype_of(values['dtype'], used)} on {used}.")


def draw_how(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """Caps on memory, repeats, and how passes are carried out, folded away."""
    on_cpu = device_of(values["device"]) == "cpu"
    with st.expander("Advanced: caps on memory, execution, timing, seed"):
        left, right = st.columns(2, gap="medium")
        with left:
            values["pool_gib"] = number(
                "KV pool, at most GiB", "pool_gib", step=0.01, least=LEAST_POOL_GIB, fields=fields
            )
            values["capacity_gib"] = number("All memory, at most GiB", "capacity_gib", step=0.5, fields=fields)
            st.caption(CAP.replace("ends the run", "ends a point"))
            values["block_size"] = choice("Token positions a block (block-size)", "block_size", fields=fields)
            values["max_num_batched_tokens"] = number(
                "Tokens a step, at most (max-num-batched-tokens)", "max_num_batched_tokens", fields=fields
            )
            st.caption("A block's size is read by paged and chunked alone, the tokens a step by chunked alone.")
        with right:
            values["execution"] = choice(
                "Execution", "execution", available_executions(values["device"]), fields=fields
            )
            st.caption(execution_words(values["device"]))
            values["timing"] = choice("Timing", "timing", disabled=on_cpu, fields=fields)
            if on_cpu:
                st.caption("Off: on a CPU a pass is over when its call returns, so both timings are the same.")
            values["warmups"] = number("Warm-up rounds before each run's clock starts", "warmups", fields=fields)
            values["seed"] = number("Seed", "seed", fields=fields)


def draw_repeats(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """How often each point is measured."""
    values["repeats"] = number("Repeats", "repeats", fields=fields)
    if values["repeats"] > 1:
        repeats = plural(values["repeats"], "time")
        st.caption(f"Every point {repeats}, interleaved: all once before any again. Medians and spreads are shown.")
    else:
        st.caption("One run a point says nothing about spread; three or five show it.")


def base_config(values: Mapping[str, Any], *, slots: int, workload: WorkloadConfig) -> RunConfig:
    """The run that all points are variations of. ValueError as RunConfig."""
    return RunConfig(
        engine=values["engine"],
        model=(values["model"] or "").strip(),
        device=values["device"],
        dtype=values["dtype"],
        execution=values["execution"],
        timing=values["timing"],
        slots=slots,
        block_size=int(values["block_size"]),
        max_num_batched_tokens=values["max_num_batched_tokens"],
        workload=workload,
        warmups=values["warmups"],
        pool_gib=values["pool_gib"],
        capacity_gib=values["capacity_gib"],
    )


def form_link(values: Mapping[str, Any], fields: Mapping[str, Field]) -> dict[str, str]:
    """The query parameters that bring the form back; values at their default are left out.

    For links from other pages: on the page itself widgets keep what they have, whatever a link says (`fill_form`).
    """
    return {
        name: str(values[name])
        for name, field in fields.items()
        if name in values and values[name] is not None and str(values[name]) != str(field.default)
    }
