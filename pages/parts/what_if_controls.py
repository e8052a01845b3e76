"""The sliders of the What-if page: a model, a card, how long sequences are, how wide weights, how many at once.

The address has each by its name (what_if_fields); `draw_controls` returns the case that they describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.core.hardware_presets import HARDWARE
from engine.core.model_presets import MODEL_NAMES, RANDOM_SUFFIX, model_shape
from engine.core.what_if import WhatIf
from pages.parts.bench_fields import Choice, Field, Number
from pages.parts.bench_widgets import choice, group, model, slide
from pages.parts.markdown import plain
from pages.parts.page_state import Texts, linked
from pages.parts.shared.machines import HOW_TO_CALIBRATE, Machine, calibrated_machine, calibrations, preset_machine
from pages.parts.shared.machines import calibration_here as newest_here
from pages.parts.what_if_fields import THIS

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
        st.caption(_card_words(values["card"], fields))
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


def _card_words(card: str, fields: Mapping[str, Field]) -> str:
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
