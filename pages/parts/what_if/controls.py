"""The sliders of the What-if page: a model, a card, how long sequences are, how wide weights, how many at once.

The address has each by its name (what_if_fields); `draw_controls` returns the case that they describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.core.config import SETTINGS
from engine.hardware.hardware_presets import CARD, HARDWARE
from engine.hardware.model_presets import MODEL_NAMES, RANDOM_SUFFIX, model_shape
from engine.hardware.roofline import WEIGHT_WIDTH
from engine.hardware.what_if import WORDS_PER_MINUTE, WhatIf
from pages.parts.shared.fields import Choice, Field, Number, Text, fields_of
from pages.parts.shared.machines import HOW_TO_CALIBRATE, Machine, calibrated_machine, calibrations, preset_machine
from pages.parts.shared.machines import calibration_here as newest_here
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import Texts, linked
from pages.parts.shared.widgets import choice, group, model, slide

# The settings of the What-if page: each one's name in the address, its default, and what a link may give it.

THIS = "this"  # the newest calibration of this machine
SEQUENCES = (
    *("100", "200", "300", "500", "700", "1000", "1500", "2000", "2300", "3000", "4000", "6000", "8000", "12000"),
    *("16000", "24000", "32000", "48000", "64000", "96000", "128000"),
)
LARGEST = ("8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096")
CHAPTER_MODEL, CHAPTER_CARD = "llama-3.1-8b", "h100"
OPTIONS = (SETTINGS["model"], CARD, WEIGHT_WIDTH, SETTINGS["execution"])
OWN: dict[str, dict[str, Any]] = {
    "model": {"default": CHAPTER_MODEL},
    "weights": {"options": ("16", "8"), "default": "16"},
    "execution": {"options": ("graph", "eager"), "default": "graph"},
}


def what_if_fields(cards: tuple[str, ...]) -> dict[str, Field]:
    """The fields of the page, with the cards that there are."""
    return fields_of(OPTIONS, {**OWN, "card": {"options": cards, "default": CHAPTER_CARD}}) | {
        "sequence": Choice(options=SEQUENCES, default="2300", label="Sequence length, tokens"),
        "largest": Choice(options=LARGEST, default="128", label="Largest batch"),
        "memory": Number(low=50, high=100, default=100, label="Memory that may be used, %"),
        "reading": Number(low=60, high=900, default=WORDS_PER_MINUTE, label="Reading speed, words per minute"),
    }


QUESTION_FIELDS: dict[str, Field] = {
    "q1_parameters": Number(low=0, high=1e6, default=1.54, whole=False, above=True),
    "q1_batch": Number(low=1, high=1_000_000, default=64),
    "q2_a": Number(low=0, high=1e6, default=50.0, whole=False, above=True),
    "q2_b": Number(low=0, high=1e6, default=200.0, whole=False, above=True),
    "q3_intensity": Number(low=0, high=1e6, default=104.2, whole=False, above=True),
    "q3_balance": Number(low=0, high=1e6, default=86.8, whole=False, above=True),
    "q3_compute": Number(low=0, high=100, default=43.3, whole=False, above=True),
    "q4_batch": Number(low=1, high=100_000, default=128),
    "q4_prompt": Number(low=1, high=1_000_000, default=128),
    "q4_rate": Number(low=0, high=1e9, default=8150.0, whole=False, above=True),
    "q4_group": Number(low=1, high=100_000, default=8),
    "q5_batch": Number(low=1, high=100_000, default=128),
    "q5_prompt": Number(low=1, high=1_000_000, default=128),
    "q5_vocab": Number(low=1, high=10_000_000, default=151_936),
    "q6_budgets": Text(default="30x20+2x1000"),
    "q7_limit": Number(low=0, high=3600, default=0.5, whole=False, above=True),
    "q7_documents": Number(low=1, high=1_000_000_000, default=1_000_000),
    "q7_tokens": Number(low=1, high=1_000_000, default=128),
    "q8_busy": Number(low=0, high=1e6, default=20.57, whole=False, above=True),
    "q8_quiet": Number(low=0, high=1e6, default=17.5, whole=False, above=True),
    "q8_kernels": Number(low=1, high=1_000_000, default=1123),
}


NO_LIMIT_BYTES = 1 << 62  # of a machine whose memory nobody has told


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the sliders say: the case, its machine, the batch sizes of the table, a reader's words a minute."""

    case: WhatIf
    machine: Machine
    batch_sizes: tuple[int, ...]
    words_per_minute: int
    weight_bits: int

    @property
    def knows_memory(self) -> bool:
        return self.machine.memory_bytes is not None


def draw_controls(fields: Mapping[str, Field]) -> Asked | None:
    """All sliders; None, with a line that says what to mend, where they describe nothing that can be reckoned."""
    values: dict[str, Any] = {}
    with group("Settings", "What is read in a step, how fast, and how many requests share it."):
        values["model"] = _model(fields)
        problem = st.empty()
        values["card"] = choice("Card", "card", fields=fields)
        st.caption(_card_text(values["card"], fields))
        values["sequence"] = slide("Sequence length, tokens", "sequence", fields)
        values["largest"] = slide("Largest batch", "largest", fields)
        values["memory"] = _percent("Memory that may be used, %", "memory", fields, 5)
        values["reading"] = _percent("A reader's words a minute", "reading", fields, 10)
        values["weights"] = choice("Bits a weight", "weights", fields=fields)
        values["execution"] = choice("Launching", "execution", fields=fields)
        st.caption("graph launches a step once; eager pays for each of its kernels.")
    try:
        return _asked(values)
    except ValueError as error:
        problem.caption(f":red[:material/error: {plain(str(error))}]")
        return None


def _model(fields: Mapping[str, Field]) -> str:
    names = [name for name in MODEL_NAMES if not name.endswith(RANDOM_SUFFIX)]
    help = "A name of the list, or type the path of a config.json or of its folder."
    return str(model(names, str(fields["model"].default), help) or "").strip()


def _percent(label: str, name: str, fields: Mapping[str, Field], step: int) -> int:
    field = fields[name]
    assert isinstance(field, Number)
    low, high, default = (int(value or 0) for value in (field.low, field.high, field.default))

    def read(texts: Texts) -> int:
        if field.complaint(texts[-1]) is not None:
            raise ValueError("out of bounds")
        return int(texts[-1])

    with linked(name, default, read) as key:
        return int(st.slider(label, low, high, step=step, key=key, persist_state="page"))


def _card_text(card: str, fields: Mapping[str, Field]) -> str:
    if card == THIS:
        return "As the newest calibration of this machine measured it."
    offered = fields["card"]
    assert isinstance(offered, Choice)
    hint = "" if THIS in offered.options else f" For this machine: {HOW_TO_CALIBRATE}."
    return f"{plain(HARDWARE[card].label)}.{hint}"


def _asked(values: Mapping[str, Any]) -> Asked:
    bits = int(values["weights"])
    shape = model_shape(values["model"], dtype="bf16", weight_bits=bits)
    machine: Machine | None = None
    if values["card"] == THIS:
        measured = newest_here(calibrations())
        if measured is not None:
            rates = measured.matmul_flop_per_s
            machine = calibrated_machine(measured, shape, "bf16" if "bf16" in rates else next(iter(rates)))
        if machine is None:
            raise ValueError("card this: nothing was calibrated here; choose another")
    else:
        machine = preset_machine(HARDWARE[values["card"]], shape)
    largest = int(values["largest"])
    return Asked(
        case=WhatIf(
            shape=shape,
            ceilings=machine.ceilings,
            sequence_tokens=int(values["sequence"]),
            memory_bytes=machine.memory_bytes or NO_LIMIT_BYTES,
            utilization=values["memory"] / 100,
            execution=values["execution"],
        ),
        machine=machine,
        batch_sizes=tuple(2**power for power in range(largest.bit_length())),
        words_per_minute=values["reading"],
        weight_bits=bits,
    )
