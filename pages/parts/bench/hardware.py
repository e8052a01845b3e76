"""Where Bench runs: this machine, or a GPU by simulation, with its model, dtype, execution and tensor parallelism.

`hardware` in the address names the GPU. Without it runs are measured on this machine; `this` simulates this machine by
its calibration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from engine.core.config import EXECUTIONS, RunConfig
from engine.core.format import plural
from engine.core.units import dtype_of
from engine.hardware.hardware_presets import HARDWARE
from engine.hardware.model_presets import PUBLIC_CONFIGS, model_shape
from engine.hardware.tensor_parallel import MAX_GPUS, possible_sizes
from engine.simulator.machine import THIS, SimulatedMachine, SimulationTarget
from pages.parts.bench.settings import BenchSettings
from pages.parts.shared.fields import FIELDS, MEASURED, MODEL_SHAPE
from pages.parts.shared.machines import calibrations
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.page_state import linked, one_of, page_key, put, setting
from pages.parts.shared.widgets import choice, model

HERE, SIMULATED = "This machine", "A GPU by simulation"
FIRST_GPU = "h100"
DTYPES = ("auto", "bf16", "fp16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What the buttons run on: this machine without a `target`. `values` are the settings that were drawn here."""

    target: SimulationTarget | None
    values: dict[str, Any]

    def preset_machine(self, config: RunConfig) -> SimulatedMachine | None:
        """The GPU of a simulation; None for a run on this machine and for this machine's calibration."""
        if self.target is None or self.target.hardware == THIS:
            return None
        return self.target.machine(config)

    def checked(self, settings: BenchSettings) -> BenchSettings:
        """The settings; without runs, and with the reason, if they cannot be simulated."""
        if self.target is None or settings.config is None:
            return settings
        try:
            for config in settings.pair or (settings.config,):
                self.target.machine(config, calibrations())
        except ValueError as error:
            return replace(settings, config=None, pair=None, layouts=None, problems={"hardware": str(error)})
        return settings

    def button_label(self, label: str) -> str:
        """A run button's label: `Simulate static` for `Run static`, `Compare two engines, simulated`."""
        if self.target is None:
            return label
        return label.replace("Run", "Simulate", 1) if label.startswith("Run") else f"{label}, simulated"

    def text(self, config: RunConfig) -> str:
        """`llama-3.1-8b in bf16 on 2 x NVIDIA H100 SXM, 80 GB, simulated`; empty for a run on this machine."""
        if self.target is None:
            return ""
        machine = self.target.machine(config, calibrations())
        graphs = ", with CUDA graphs" if config.execution == "graph" else ""
        per_gpu = "; memory is that of one GPU" if machine.gpus > 1 else ""
        return plain(f"{config.model} in {machine.dtype} on {machine.label}{graphs}, simulated{per_gpu}")


def draw_hardware() -> Hardware:
    """The switch, and the fields of a simulation."""
    with linked("hardware", MEASURED, one_of(_options())) as key:
        hardware = str(st.session_state[key])
    _draw_switch(hardware)
    if hardware == MEASURED:
        return Hardware(target=None, values={})
    _draw_gpu(hardware)
    values: dict[str, Any] = {"hardware": hardware, "device": "auto"}
    values["model"] = model(tuple(PUBLIC_CONFIGS), fields={"model": replace(FIELDS["model"], help=MODEL_SHAPE)})
    left, right = st.columns([1.35, 1], gap="small")
    with left:
        values["dtype"] = choice("dtype", DTYPES)
    with right:
        values["execution"] = choice("execution", EXECUTIONS)
    bits = None
    if hardware != THIS:
        bits = 8 if choice("weight_bits") == "8" else None
    size = _draw_sizes(hardware, values)
    return Hardware(
        target=SimulationTarget(hardware=hardware, tensor_parallel_size=size, weight_bits=bits), values=values
    )


def _options() -> tuple[str, ...]:
    return (MEASURED, THIS, *HARDWARE)


def _draw_switch(hardware: str) -> None:
    key = page_key("where")
    st.session_state[key] = HERE if hardware == MEASURED else SIMULATED
    st.segmented_control(
        "Run on",
        (HERE, SIMULATED),
        key=key,
        required=True,
        width="stretch",
        on_change=_switch,
        help="A simulation runs the same schedulers with step times from a GPU's rates. Its runs have the badge "
        "simulated.",
    )


def _switch() -> None:
    put({"hardware": MEASURED if setting("where") == HERE else FIRST_GPU})


def _draw_gpu(hardware: str) -> None:
    key = page_key("gpu")
    st.session_state[key] = hardware
    known = (*HARDWARE, *((THIS,) if hardware == THIS or calibrations() else ()))
    st.selectbox(
        FIELDS["hardware"].label,
        known,
        key=key,
        format_func=lambda name: "This machine, as calibrated" if name == THIS else HARDWARE[name].label,
        help=plain(FIELDS["hardware"].help if hardware == THIS else HARDWARE[hardware].source),
        on_change=lambda: put({"hardware": st.session_state[key]}),
    )


def _draw_sizes(hardware: str, values: Mapping[str, Any]) -> int:
    """A button for each number of GPUs that share the model; those that cannot are off, with the reason."""
    name = "tensor_parallel_size"
    with linked(name, 1, _read_size) as key:
        size = int(st.session_state[key])
    reasons = {n: _why_not(hardware, values, n) for n in range(1, MAX_GPUS + 1)}
    st.markdown(f":small[{FIELDS[name].label}]", help=FIELDS[name].help)
    with st.container(horizontal=True, gap="xsmall"):
        for n, why in reasons.items():
            st.button(
                f":primary-background[**{n}**]" if n == size else str(n),
                key=page_key(f"{name}_{n}"),
                disabled=bool(why),
                help=why or None,
                on_click=put,
                args=({name: n},),
            )
    if off := [str(n) for n, why in reasons.items() if why]:
        why = (
            "This machine was calibrated as one device" if hardware == THIS else f"{listed(off)} {reasons[int(off[0])]}"
        )
        st.caption(f":material/block: {plain(why)}.")
    return size


def _read_size(texts: Sequence[str]) -> int:
    size = int(texts[-1])
    if not 1 <= size <= MAX_GPUS:
        raise ValueError("out of bounds")
    return size


def _why_not(hardware: str, values: Mapping[str, Any], size: int) -> str:
    """Why so many GPUs cannot share the model, as the end of a sentence; empty where they can, and for an unknown
    model."""
    if hardware == THIS:
        return "" if size == 1 else "needs more than one device"
    try:
        shape = model_shape(values["model"], dtype=dtype_of(values["dtype"], "cuda"))
    except ValueError:
        return ""
    if size in possible_sizes(shape.kv_heads):
        return ""
    return f"cannot divide the {plural(shape.kv_heads, 'KV head')} of {values['model']}"
