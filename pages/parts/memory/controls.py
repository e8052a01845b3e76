"""The settings of the Memory page: model, GPU, engine and requests, with examples of published figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from engine.core.config import DTYPES, SETTINGS
from engine.core.errors import FieldError
from engine.core.format import size
from engine.core.option import options_of
from engine.core.presets import PRESETS
from engine.core.units import GIB
from engine.hardware.hardware_presets import CARD, HARDWARE
from engine.hardware.machine_memory import machine_memory, usable_bytes
from engine.hardware.model_presets import MODEL_NAMES, model_shape
from engine.hardware.roofline import WEIGHT_WIDTH, ModelShape, require_window
from engine.hardware.tensor_parallel import TensorParallel, require_divisible
from engine.memory.memory_plan import LOGITS, MAX_PROMPT_TOKENS, EngineShape, MemoryGrid
from pages.parts.shared.fields import LEAST_POOL_GIB, MODEL_SHAPE, Choice, Field, Number, fields_of
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import put, setting
from pages.parts.shared.widgets import choice, draw_error, group, model, number, slide

THIS = "this"  # the machine of the app
LARGEST = ("16", "32", "64", "128", "256", "512", "1024", "2048", "4096")
SAME = "dtype"  # weights have the dtype's width

OWN: dict[str, dict[str, Any]] = {
    "model": {"default": "qwen2.5-1.5b", "help": MODEL_SHAPE},
    "dtype": {"options": tuple(dtype for dtype in DTYPES if dtype != "auto"), "default": "fp16"},
    "weights": {"options": (SAME, "16", "8"), "default": SAME},
    "card": {"options": (*HARDWARE, THIS), "default": "a10", "help": ""},
    "capacity_gib": {
        "label": "Capacity instead of the GPU's, GiB (capacity-gib)",
        "help": "Replaces the memory of the GPU chosen above.",
        "unset": "the GPU's",
    },
    "gpu_memory_utilization": {
        "default": 1.0,
        "help": "A run, `engine memory` and `engine simulate` may use 0.9 of a GPU unless it is set.",
    },
    "engine": {"default": "static"},
    "logits": {"help": ""},
}
OPTIONS = (
    *(SETTINGS["model"], SETTINGS["dtype"], WEIGHT_WIDTH, CARD, SETTINGS["gpu_memory_utilization"]),
    *(SETTINGS["capacity_gib"], SETTINGS["pool_gib"]),
    *options_of(TensorParallel).values(),
    *(SETTINGS["engine"], LOGITS, SETTINGS["block_size"], SETTINGS["max_num_batched_tokens"]),
)
FIELDS: dict[str, Field] = fields_of(OPTIONS, OWN) | {
    "prompt": Number(low=1, high=MAX_PROMPT_TOKENS, default=1024, label="Prompt, tokens"),
    "budget": Number(low=1, high=MAX_PROMPT_TOKENS, default=256, label=SETTINGS["budget"].label),
    "largest": Choice(options=LARGEST, default="1024", label="Largest batch"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A published figure, with its settings where they differ from the defaults."""

    label: str
    published: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """The value of every field."""
        return {name: self.settings.get(name, each.default) for name, each in FIELDS.items()}


EXAMPLES = (
    Example(
        label="Five failures",
        published="256 and 512 rows of p1024 ran out of memory on this GPU, asking for 4.38 and 8.75\u00a0GiB in one "
        "piece. So did 1,024 rows of p256, and 64 and 128 rows of p4096. All other batches ran.",
    ),
    Example(
        label="Logits of a large batch",
        published="the logits and their fp32 copy take 933 MB (890 MiB) at 1,024 rows, in each step.",
        settings={"prompt": 16},
    ),
    Example(
        label="A pool of 2 GiB",
        published="128 and 256 rows of p256 in a pool of 2\u00a0GiB.",
        settings={"prompt": 256, "pool_gib": 2.0},
    ),
    Example(
        label="Logits of all positions",
        published="the logits of all prompt positions take 4.6\u00a0GiB for 128 prompts of 128 tokens.",
        settings={"prompt": 128, "budget": 128, "dtype": "bf16", "card": "rtx3060", "logits": "all"},
    ),
    Example(
        label="8 B on 80 GB",
        published="about 200 sequences of 2,300 tokens fit: 16\u00a0GB of weights, 128\u00a0KiB per token.",
        settings={
            "model": "llama-3.1-8b",
            "dtype": "bf16",
            "card": "h100",
            "engine": "chunked",
            "prompt": 2300,
            "budget": 1,
            "largest": "256",
        },
    ),
)


LOGITS_MEANING = (
    "copied: each row's last position, with a sampler's fp32 copy. last: without the copy, like greedy runs here. all: "
    "every prompt position, with the copy."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """The settings of an estimate. `capacity_name` names the GPU; `dtype` is the model's. `model` is what one of `gpus`
    GPUs holds."""

    model: ModelShape
    dtype: str
    grid: MemoryGrid
    capacity_name: str
    gpus: int = 1

    @property
    def prompt_tokens(self) -> int:
        return self.grid.prompt_tokens[0]


def draw_examples() -> None:
    """A button for each example, and the published figure of the one that is set.

    Called after the controls, which read the address.
    """
    set_now = {name: setting(name, each.default) for name, each in FIELDS.items()}
    with st.container(horizontal=True):
        for example in EXAMPLES:
            st.button(example.label, on_click=_set, args=(example,), disabled=set_now == example.values())
    published = next((example.published for example in EXAMPLES if set_now == example.values()), None)
    if published is not None:
        st.caption(f"Published: {published}")


def _set(example: Example) -> None:
    put(example.values())


def draw_controls() -> MemorySettings | None:
    """Draw all settings and read them; None, with an error under its field, if they are invalid."""
    values: dict[str, Any] = {}
    places: dict[str, Any] = {}
    left, right = st.columns(2, gap="medium")
    with left:
        _draw_model(values, places)
        _draw_capacity(values, places)
    with right:
        _draw_requests(values)
        _draw_engine(values)
    try:
        return read(values)
    except ValueError as error:
        draw_error(places, error, "model")
        return None


def _draw_model(values: dict[str, Any], places: dict[str, Any]) -> None:
    with group("Model", "Its shape determines the size of the weights and of a KV position."):
        values["model"] = model(MODEL_NAMES, fields=FIELDS)
        places["model"] = st.empty()
        values["dtype"] = choice("dtype", fields=FIELDS)
        values["weights"] = choice("weights", fields=FIELDS)
        values["tensor_parallel_size"] = number("tensor_parallel_size", fields=FIELDS)
        places["tensor_parallel_size"] = st.empty()


def _draw_capacity(values: dict[str, Any], places: dict[str, Any]) -> None:
    with group("Memory", "The memory of the GPU, and limits."):
        values["card"] = choice("card", fields=FIELDS)
        st.caption(plain(_card_text(values["card"])))
        values["gpu_memory_utilization"] = number("gpu_memory_utilization", step=0.05, fields=FIELDS)
        values["capacity_gib"] = number("capacity_gib", step=1, least=LEAST_POOL_GIB, fields=FIELDS)
        places["capacity_gib"] = st.empty()
        values["pool_gib"] = number("pool_gib", step=0.5, least=LEAST_POOL_GIB, fields=FIELDS)


def _card_text(card: str) -> str:
    if card != THIS:
        preset = HARDWARE[card]
        return f"{preset.label}: {size(preset.memory_bytes)} usable."
    machine = machine_memory()
    if machine is None:
        return "The memory of this machine is unknown; set a capacity."
    kind = "GPU memory" if machine.kind == "cuda" else "main memory; no NVIDIA GPU found"
    return f"{machine.name}: {size(machine.total_bytes)} ({kind})."


def _draw_requests(values: dict[str, Any]) -> None:
    with group("Requests", "Equal requests that arrive at once."):
        values["prompt"] = number("prompt", fields=FIELDS)
        values["budget"] = number("budget", fields=FIELDS)
        values["largest"] = slide("largest", FIELDS)


def _draw_engine(values: dict[str, Any]) -> None:
    with group("Engine", "The KV layout, and the tokens of a pass."):
        values["engine"] = choice("engine", fields=FIELDS)
        is_paged = PRESETS[values["engine"]].has_blocks
        values["block_size"] = choice("block_size", disabled=not is_paged, fields=FIELDS)
        values["max_num_batched_tokens"] = number(
            "max_num_batched_tokens", disabled=not PRESETS[values["engine"]].is_chunked, fields=FIELDS
        )
        values["logits"] = choice("logits", fields=FIELDS)
        st.caption(LOGITS_MEANING)


def read(values: Mapping[str, Any]) -> MemorySettings:
    """ValueError, one clear line, for invalid settings."""
    bits = None if values["weights"] == SAME else int(values["weights"])
    capacity_bytes, name = _capacity(values)
    gpus = int(values["tensor_parallel_size"])
    shape = model_shape(values["model"], dtype=values["dtype"], weight_bits=bits)
    require_divisible(shape, values["model"], gpus)
    require_window(shape, int(values["prompt"]) + int(values["budget"]), "prompt")
    return MemorySettings(
        model=shape.shard(gpus),
        gpus=gpus,
        dtype=values["dtype"],
        grid=MemoryGrid(
            prompt_tokens=(int(values["prompt"]),),
            batch_sizes=tuple(2**power for power in range(int(values["largest"]).bit_length())),
            budget_tokens=int(values["budget"]),
            capacity_bytes=capacity_bytes,
            pool_bytes=None if values["pool_gib"] is None else int(values["pool_gib"] * GIB),
            shape=EngineShape(
                engine=values["engine"],
                block_size=int(values["block_size"]),
                max_num_batched_tokens=int(values["max_num_batched_tokens"]),
                sampled_in_fp32=values["logits"] != "last",
                logits_of_all=values["logits"] == "all",
            ),
        ),
        capacity_name=name,
    )


def _capacity(values: Mapping[str, Any]) -> tuple[int, str]:
    if values["capacity_gib"] is not None:
        return int(values["capacity_gib"] * GIB), "capacity"
    share = float(values["gpu_memory_utilization"])
    if values["card"] != THIS:
        preset = HARDWARE[values["card"]]
        return usable_bytes(preset.memory_bytes, share), preset.label.split(",")[0]
    machine = machine_memory()
    if machine is None:
        raise FieldError("capacity_gib", "the memory of this machine is unknown; set a capacity")
    return usable_bytes(machine.total_bytes, share if machine.kind == "cuda" else 1.0), machine.name
