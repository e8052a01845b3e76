"""The controls of the Memory page: a model, a card, an engine, the requests. The address has them.

`draw_controls` returns the grid that they describe; what cannot be reckoned says under its field what to mend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from engine.core.config import DTYPES, SETTINGS
from engine.core.format import size
from engine.core.presets import PRESETS
from engine.core.units import GIB
from engine.hardware.hardware_presets import CARD, HARDWARE
from engine.hardware.machine_memory import machine_memory
from engine.hardware.model_presets import MODEL_NAMES, model_shape
from engine.hardware.roofline import WEIGHT_WIDTH, ModelShape
from engine.memory.memory_plan import LOGITS, MAX_PROMPT_TOKENS, EngineShape, MemoryGrid
from pages.parts.shared.fields import LEAST_POOL_GIB, Choice, Field, Number, fields_of
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import put, setting
from pages.parts.shared.widgets import choice, group, model, number, slide

# The settings of the Memory page: each one's name in the address, its default, and examples that set many at once.

THIS = "this"  # the machine that the app runs on
LARGEST = ("16", "32", "64", "128", "256", "512", "1024", "2048", "4096")
SAME = "dtype"  # weights as wide as the dtype

OWN: dict[str, dict[str, Any]] = {
    "model": {"default": "qwen2.5-1.5b"},
    "dtype": {"options": tuple(dtype for dtype in DTYPES if dtype != "auto"), "default": "fp16"},
    "weights": {"options": (SAME, "16", "8"), "default": SAME},
    "card": {"options": (*HARDWARE, THIS), "default": "a10"},
    "engine": {"default": "static"},
}
OPTIONS = (
    *(SETTINGS["model"], SETTINGS["dtype"], WEIGHT_WIDTH, CARD, SETTINGS["capacity_gib"], SETTINGS["pool_gib"]),
    *(SETTINGS["engine"], LOGITS, SETTINGS["block_size"], SETTINGS["max_num_batched_tokens"]),
)
FIELDS: dict[str, Field] = fields_of(OPTIONS, OWN) | {
    "prompt": Number(low=1, high=MAX_PROMPT_TOKENS, default=1024, label="Prompt, tokens"),
    "budget": Number(low=1, high=MAX_PROMPT_TOKENS, default=256, label=SETTINGS["budget"].label),
    "largest": Choice(options=LARGEST, default="1024", label="Largest batch"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Settings other than the defaults, under a short name, and what was published for them."""

    label: str
    published: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """Every field's value."""
        return {name: self.settings.get(name, each.default) for name, each in FIELDS.items()}


EXAMPLES = (
    Example(
        label="Five failures",
        published="256 and 512 rows of p1024 could not be run on this card: 4.38 and 8.75\u00a0GiB in one piece; nor "
        "could 1,024 rows of p256, or 64 and 128 of p4096. All other batches that were tried ran.",
    ),
    Example(
        label="Logits of a large batch",
        published="at 1,024 rows 933 MB exist in each step that accounts forget: the logits and their fp32 copy.",
        settings={"prompt": 16},
    ),
    Example(
        label="A pool of 2 GiB",
        published="inside a pool of 2\u00a0GiB 128 rows of p256 are tried, and 256.",
        settings={"prompt": 256, "pool_gib": 2.0},
    ),
    Example(
        label="Logits of all positions",
        published="logits of every prompt position take 4.6\u00a0GiB at 128 prompts of 128 tokens.",
        settings={"prompt": 128, "budget": 128, "dtype": "bf16", "card": "rtx3060", "logits": "all"},
    ),
    Example(
        label="8 B on 80 GB",
        published="memory ends at about 200 sequences of 2,300 tokens: 16\u00a0GB of weights, 128\u00a0KiB a token.",
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


LOGITS_WORDS = (
    "copied: of each row's last position, with the fp32 copy that a sampler makes. last: without it, as greedy runs "
    "here. all: of every prompt position, as an engine that throws all but the last away."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the controls say. `capacity_name` names the card; `dtype` is that of the model."""

    model: ModelShape
    dtype: str
    grid: MemoryGrid
    capacity_name: str

    @property
    def prompt_tokens(self) -> int:
        return self.grid.prompt_tokens[0]


def draw_examples() -> None:
    """A button for each published claim; the one that is set says what was published. Drawn after the controls, which
    take the address in."""
    set_now = {name: setting(name, each.default) for name, each in FIELDS.items()}
    with st.container(horizontal=True):
        for example in EXAMPLES:
            st.button(example.label, on_click=_set, args=(example,), disabled=set_now == example.values())
    said = next((example.published for example in EXAMPLES if set_now == example.values()), None)
    if said is not None:
        st.caption(f"Published: {said}")


def _set(example: Example) -> None:
    put(example.values())


def draw_controls() -> Asked | None:
    """All controls; None, with a line that says what to mend, where they describe nothing that can be reckoned."""
    values: dict[str, Any] = {}
    left, right = st.columns(2, gap="medium")
    with left:
        problem = _draw_model(values)
        _draw_capacity(values)
    with right:
        _draw_requests(values)
        _draw_engine(values)
    try:
        return read(values)
    except ValueError as error:
        problem.caption(f":red[:material/error: {plain(str(error))}]")
        return None


def _draw_model(values: dict[str, Any]) -> Any:
    with group("Model", "Its weights, and how much of the KV cache a position takes."):
        help = "A name of the list, or type the path of a config.json or of its folder."
        values["model"] = str(model(MODEL_NAMES, str(FIELDS["model"].default), help) or "").strip()
        problem = st.empty()
        values["dtype"] = choice("dtype", "dtype", fields=FIELDS)
        values["weights"] = choice("Bits a weight", "weights", fields=FIELDS)
    return problem


def _draw_capacity(values: dict[str, Any]) -> None:
    with group("Memory", "What there is of it."):
        values["card"] = choice("Card", "card", fields=FIELDS)
        st.caption(plain(_card_text(values["card"])))
        values["capacity_gib"] = number(
            "Capacity instead, GiB (capacity-gib)", "capacity_gib", step=1, least=LEAST_POOL_GIB, fields=FIELDS
        )
        values["pool_gib"] = number(
            "KV pool, at most GiB (pool-gib)", "pool_gib", step=0.5, least=LEAST_POOL_GIB, fields=FIELDS
        )


def _card_text(card: str) -> str:
    if card != THIS:
        preset = HARDWARE[card]
        return f"{preset.label}: {size(preset.memory_bytes)} that a run can use."
    machine = machine_memory()
    if machine is None:
        return "This machine does not tell how much memory it has: name a capacity."
    kind = "its card" if machine.kind == "cuda" else "its main memory, since it shows no NVIDIA GPU"
    return f"{machine.name}: {size(machine.total_bytes)} ({kind})."


def _draw_requests(values: dict[str, Any]) -> None:
    with group("Requests", "All alike, and all there from the start."):
        values["prompt"] = number("Prompt, tokens", "prompt", fields=FIELDS)
        values["budget"] = number("New tokens (budget)", "budget", fields=FIELDS)
        values["largest"] = slide("Largest batch", "largest", FIELDS)


def _draw_engine(values: dict[str, Any]) -> None:
    with group("Engine", "Where keys and values live, and how many tokens a pass reads at once."):
        values["engine"] = choice("Engine", "engine", fields=FIELDS)
        is_paged = PRESETS[values["engine"]].has_blocks
        values["block_size"] = choice(
            "Token positions a block (block-size)", "block_size", disabled=not is_paged, fields=FIELDS
        )
        values["max_num_batched_tokens"] = number(
            "Tokens a step (max-num-batched-tokens)", "max_num_batched_tokens",
            disabled=values["engine"] != "chunked", fields=FIELDS,
        )  # fmt: skip
        values["logits"] = choice("Logits", "logits", fields=FIELDS)
        st.caption(LOGITS_WORDS)


def read(values: Mapping[str, Any]) -> Asked:
    """ValueError, one clear line, for what cannot be reckoned."""
    bits = None if values["weights"] == SAME else int(values["weights"])
    capacity_bytes, name = _capacity(values)
    return Asked(
        model=model_shape(values["model"], dtype=values["dtype"], weight_bits=bits),
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
    if values["card"] != THIS:
        preset = HARDWARE[values["card"]]
        return preset.memory_bytes, preset.label.split(",")[0]
    machine = machine_memory()
    if machine is None:
        raise ValueError("this machine does not tell how much memory it has: name a capacity")
    return machine.total_bytes, machine.name
