"""The parts of a form that every kind of experiment has: engine, model and device, and how each run is carried out.

A page names its fields with `experiment_fields`, draws its own beside these, and reads all of them by name. The address
has every field by its name, so that a link brings back the whole form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.dtypes import dtype_of
from engine.core.experiment_size import REPEATS
from engine.core.format import plural
from engine.core.model_catalogue import list_models
from engine.core.option import options_of, settings_of
from engine.core.presets import PRESETS
from pages.parts.bench_fields import FIELDS, Choice, Field, field_of
from pages.parts.bench_memory import CAP, LEAST_POOL_GIB
from pages.parts.bench_widgets import choice, model, number
from pages.parts.devices import available_devices, available_executions, device_of, execution_text
from pages.parts.markdown import plain

MAX_REPEATS = 100
EACH_ITS_OWN = ("engine", "slots", "form", "return", "gpu_memory_utilization")  # what not every such form has
SHARED = ("seed", *(each.name for each in options_of(RunConfig).values() if each.name not in EACH_ITS_OWN))


def experiment_fields(**own: Field) -> dict[str, Field]:
    """The fields of a page's form: those that every experiment has, then the page's own."""
    return {name: FIELDS[name] for name in SHARED} | {"repeats": field_of(REPEATS, high=MAX_REPEATS)} | own


def draw_engine(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """One engine, and in a line what it shows."""
    values["engine"] = choice("Engine", "engine", fields=fields)
    st.caption(f"What it shows: {PRESETS[values['engine']].shows}.")


def draw_model(values: dict[str, Any], fields: Mapping[str, Field]) -> None:
    """What runs, on what, in which number format."""
    models = {row["name"]: row for row in list_models()}
    values["model"] = model(
        list(models),
        str(fields["model"].default),
        "A name of the list, or type a folder with safetensors or GGUF, or a hub id as owner/model.",
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
            st.caption(execution_text(values["device"]))
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
    given = {**values, "model": (values["model"] or "").strip()}
    return RunConfig(**{**settings_of(RunConfig, given), "slots": slots, "workload": workload})


def form_link(values: Mapping[str, Any], fields: Mapping[str, Field]) -> dict[str, str]:
    """The query parameters that bring the form back; values at their default are left out.

    For links from other pages: on the page itself widgets keep what they have, whatever a link says (`fill_form`).
    """
    return {
        name: str(values[name])
        for name, field in fields.items()
        if name in values and values[name] is not None and str(values[name]) != str(field.default)
    }


def shared_values(config: RunConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What every form of an experiment has of one point's config and of the plan's settings."""
    own = {name: getattr(config, name) for name in SHARED if name != "seed"}
    texts = {name: str(value) for name, value in own.items() if isinstance(FIELDS[name], Choice)}
    of_workload = {"budget": config.workload.budget, "seed": config.workload.seed}
    return own | texts | of_workload | {"repeats": settings.get("repeats") or 1}
