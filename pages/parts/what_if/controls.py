"""The settings of the What-if page: model, GPU, sequence length, batch size, dtype width and reading speed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.core.config import SETTINGS
from engine.core.errors import FieldError
from engine.core.option import options_of
from engine.hardware.hardware_presets import CARD, HARDWARE
from engine.hardware.model_presets import MODEL_NAMES, RANDOM_SUFFIX, model_shape
from engine.hardware.roofline import WEIGHT_WIDTH
from engine.hardware.tensor_parallel import Link, TensorParallel, require_divisible
from engine.hardware.what_if import WORDS_PER_MINUTE, WhatIf
from pages.parts.shared.fields import MODEL_SHAPE, Choice, Field, Number, Text, fields_of
from pages.parts.shared.machines import (
    HOW_TO_CALIBRATE,
    Machine,
    calibrated_machine,
    calibrations,
    preset_machine,
    several,
)
from pages.parts.shared.machines import calibration_here as newest_here
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import Texts, linked
from pages.parts.shared.widgets import choice, draw_error, group, model, number, slide

THIS = "this"  # the newest calibration of this machine
SEQUENCES = (
    *("100", "200", "300", "500", "700", "1000", "1500", "2000", "2300", "3000", "4000", "6000", "8000", "12000"),
    *("16000", "24000", "32000", "48000", "64000", "96000", "128000"),
)
LARGEST = ("8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096")
CHAPTER_MODEL, CHAPTER_CARD = "llama-3.1-8b", "h100"
OPTIONS = (SETTINGS["model"], CARD, *options_of(TensorParallel).values(), WEIGHT_WIDTH, SETTINGS["execution"])
OWN: dict[str, dict[str, Any]] = {
    "model": {"default": CHAPTER_MODEL, "help": MODEL_SHAPE},
    "weights": {"options": ("16", "8"), "default": "16"},
    "execution": {
        "options": ("graph", "eager"),
        "default": "graph",
        "help": "graph has one launch per step; eager has one launch per kernel.",
    },
}


def what_if_fields(cards: tuple[str, ...]) -> dict[str, Field]:
    """The fields of the page; `cards` are the GPUs to choose from."""
    return fields_of(OPTIONS, {**OWN, "card": {"options": cards, "default": CHAPTER_CARD, "help": ""}}) | {
        "sequence": Choice(options=SEQUENCES, default="2300", label="Sequence length, tokens"),
        "largest": Choice(options=LARGEST, default="128", label="Largest batch"),
        "memory": Number(low=50, high=100, default=100, label="Usable memory, %"),
        "reading": Number(low=60, high=900, default=WORDS_PER_MINUTE, label="Reading speed, words per minute"),
    }


QUESTION_FIELDS: dict[str, Field] = {
    "q1_parameters": Number(low=0, high=1e6, default=1.54, whole=False, above=True, label="Parameters, billions"),
    "q1_batch": Number(low=1, high=1_000_000, default=64, label="Batch size"),
    "q2_a": Number(low=0, high=1e6, default=50.0, whole=False, above=True, label="Balance point of A, FLOP/byte"),
    "q2_b": Number(low=0, high=1e6, default=200.0, whole=False, above=True, label="Balance point of B, FLOP/byte"),
    "q3_intensity": Number(low=0, high=1e6, default=104.2, whole=False, above=True, label="Intensity, FLOP/byte"),
    "q3_balance": Number(low=0, high=1e6, default=86.8, whole=False, above=True, label="Balance point, FLOP/byte"),
    "q3_compute": Number(low=0, high=100, default=43.3, whole=False, above=True, label="Share of compute reached, %"),
    "q4_batch": Number(low=1, high=100_000, default=128, label="Batch size"),
    "q4_prompt": Number(low=1, high=1_000_000, default=128, label="Prompt, tokens"),
    "q4_rate": Number(low=0, high=1e9, default=8150.0, whole=False, above=True, label="Prefill rate, tokens/s"),
    "q4_group": Number(low=1, high=100_000, default=8, label="Prompts per prefill instead"),
    "q5_batch": Number(low=1, high=100_000, default=128, label="Batch size"),
    "q5_prompt": Number(low=1, high=1_000_000, default=128, label="Prompt, tokens"),
    "q5_vocab": Number(low=1, high=10_000_000, default=151_936, label="Vocabulary"),
    "q6_budgets": Text(
        default="30x20+2x1000", label="Budgets, requests x tokens", help="Use requests x tokens, as 30x20+2x1000."
    ),
    "q7_limit": Number(low=0, high=3600, default=0.5, whole=False, above=True, label="TTFT limit, s"),
    "q7_documents": Number(low=1, high=1_000_000_000, default=1_000_000, label="Documents overnight"),
    "q7_tokens": Number(low=1, high=1_000_000, default=128, label="Output tokens per document"),
    "q8_busy": Number(low=0, high=1e6, default=20.57, whole=False, above=True, label="Measured step, ms"),
    "q8_quiet": Number(low=0, high=1e6, default=17.5, whole=False, above=True, label="Step on a quiet host, ms"),
    "q8_kernels": Number(low=1, high=1_000_000, default=1123, label="Kernels per pass"),
}


NO_LIMIT_BYTES = 1 << 62  # for a machine with unknown memory


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfSettings:
    """The settings of an estimate: the case, its machine, the batch sizes, and the reading speed to compare with."""

    case: WhatIf
    machine: Machine
    batch_sizes: tuple[int, ...]
    words_per_minute: int
    weight_bits: int

    @property
    def knows_memory(self) -> bool:
        return self.machine.memory_bytes is not None


def draw_controls(fields: Mapping[str, Field]) -> WhatIfSettings | None:
    """Draw all settings and read them; None, with an error under its field, if they are invalid."""
    values: dict[str, Any] = {}
    places: dict[str, Any] = {}
    with group("Settings", "What a step reads, how fast, and for how many requests."):
        values["model"] = _model(fields)
        places["model"] = st.empty()
        values["card"] = choice("card", fields=fields)
        st.caption(_card_text(values["card"], fields))
        places["card"] = st.empty()
        values["tensor_parallel_size"] = number("tensor_parallel_size", fields=fields)
        places["tensor_parallel_size"] = st.empty()
        values["sequence"] = slide("sequence", fields)
        values["largest"] = slide("largest", fields)
        values["memory"] = _slide_number("memory", fields, 5)
        values["reading"] = _slide_number("reading", fields, 10)
        values["weights"] = choice("weights", fields=fields)
        values["execution"] = choice("execution", fields=fields)
    try:
        return _read(values)
    except ValueError as error:
        draw_error(places, error, "model")
        return None


def _model(fields: Mapping[str, Field]) -> str:
    names = [name for name in MODEL_NAMES if not name.endswith(RANDOM_SUFFIX)]
    return model(names, fields=fields)


def _slide_number(name: str, fields: Mapping[str, Field], step: int) -> int:
    field = fields[name]
    assert isinstance(field, Number)
    low, high, default = (int(value or 0) for value in (field.low, field.high, field.default))

    def read(texts: Texts) -> int:
        if field.complaint(texts[-1]) is not None:
            raise ValueError("out of bounds")
        return int(texts[-1])

    with linked(name, default, read) as key:
        return int(st.slider(field.label, low, high, step=step, key=key, persist_state="page"))


def _card_text(card: str, fields: Mapping[str, Field]) -> str:
    if card == THIS:
        return "By the newest calibration of this machine."
    offered = fields["card"]
    assert isinstance(offered, Choice)
    hint = "" if THIS in offered.options else f" For this machine: {HOW_TO_CALIBRATE}."
    return f"{plain(HARDWARE[card].label)}.{hint}"


def _read(values: Mapping[str, Any]) -> WhatIfSettings:
    bits = int(values["weights"])
    shape = model_shape(values["model"], dtype="bf16", weight_bits=bits)
    gpus = int(values["tensor_parallel_size"])
    require_divisible(shape, values["model"], gpus)
    machine: Machine | None = None
    link: Link | None = None
    if values["card"] == THIS:
        measured = newest_here(calibrations())
        if measured is not None:
            rates = measured.matmul_flop_per_s
            machine = calibrated_machine(measured, shape, "bf16" if "bf16" in rates else next(iter(rates)))
        if machine is None:
            raise FieldError("card", "card this: this machine is not calibrated; choose another")
        if gpus > 1:
            raise FieldError("tensor_parallel_size", "this machine was calibrated as one device; use 1")
    else:
        machine, link = preset_machine(HARDWARE[values["card"]], shape), HARDWARE[values["card"]].link
    machine = several(machine, gpus)
    largest = int(values["largest"])
    return WhatIfSettings(
        case=WhatIf(
            shape=shape,
            ceilings=machine.ceilings,
            sequence_tokens=int(values["sequence"]),
            memory_bytes=machine.memory_bytes or NO_LIMIT_BYTES,
            utilization=values["memory"] / 100,
            execution=values["execution"],
            gpus=gpus,
            link=link,
        ),
        machine=machine,
        batch_sizes=tuple(2**power for power in range(largest.bit_length())),
        words_per_minute=values["reading"],
        weight_bits=bits,
    )
