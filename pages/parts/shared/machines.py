"""Machines with their ceilings: as measured by `engine calibrate`, the newest first, or a GPU preset by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import streamlit as st

from engine.hardware.calibration import Calibration
from engine.hardware.hardware_presets import HARDWARE, HardwarePreset
from engine.hardware.machine_memory import machine_memory
from engine.hardware.roofline import Ceilings, ModelShape
from pages.parts.shared.devices import device_of
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from store import Store

HOW_TO_CALIBRATE = "`.venv/bin/python -m engine calibrate` measures its ceilings in a few minutes"
RATES = ("read_bytes_per_s", "flop_per_s", "launch_s", "kernels_per_pass")  # in the run.json of a simulated run
INF = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Ceilings for one model. `is_measured`: from a calibration, not from a data sheet."""

    name: str
    label: str
    ceilings: Ceilings
    dtype: str
    source: str
    memory_bytes: int | None
    is_measured: bool
    device_name: str | None


def calibrations() -> list[Calibration]:
    """Every calibration that this version can read, the newest first, short ones last; each file is read once."""
    files = lab().store.calibrations.newest()
    return _short_last(_read(str(lab().home), file, measured_at) for file, measured_at in files)


@st.cache_resource(max_entries=256, show_spinner=False)
def _read(home: str, file: str, measured_at: datetime) -> Calibration | None:
    """`home` separates stores."""
    return _calibration(lab().store, file)


def read_calibrations(store: Store) -> list[Calibration]:
    """As `calibrations`, from any store; nothing is kept."""
    return _short_last(_calibration(store, file) for file, _ in store.calibrations.newest())


def _short_last(found: Iterable[Calibration | None]) -> list[Calibration]:
    return sorted((each for each in found if each is not None), key=lambda calibration: calibration.short)


def _calibration(store: Store, file: str) -> Calibration | None:
    """None for a format of another version."""
    try:
        return Calibration.from_json(store.calibrations.text(file))
    except ValueError:
        return None


def calibration_for(device: Mapping[str, Any], known: list[Calibration], model: str = "") -> Calibration | None:
    """The newest calibration of a run's device, by kind and name; one of the same model is preferred."""
    kind, name = str(device.get("kind")), device.get("name")
    mine = [c for c in known if c.device.partition(":")[0] == kind and c.device_name == name]
    return next((c for c in mine if c.model == model), mine[0] if mine else None)


def calibration_here(known: list[Calibration]) -> Calibration | None:
    """The newest calibration of the device that a run would use here: the GPU if there is one, else the CPU.

    The store may hold calibrations of other machines; only the kind of device is compared.
    """
    kind = device_of("auto")
    return next((c for c in known if c.device.partition(":")[0] == kind), None)


def calibrated_machine(measured: Calibration, shape: ModelShape, dtype: str) -> Machine | None:
    """A calibrated machine's ceilings for a model in `dtype`; None where that dtype was not measured."""
    flop_per_s = measured.matmul_flop_per_s.get(dtype)
    if flop_per_s is None:
        return None
    when = f"{datetime.fromisoformat(measured.measured_at):%Y-%m-%d %H:%M} UTC"
    return Machine(
        name="this",
        label=f"{measured.device_name} as calibrated{' in short' if measured.short else ''}",
        ceilings=Ceilings(
            read_bytes_per_s=measured.read_bytes_per_s,
            flop_per_s=flop_per_s,
            launch_s=measured.launch_s,
            kernels_per_pass=_kernels(measured, shape),
        ),
        dtype=dtype,
        source=f"Measured on {plain(measured.device_name)} ({plain(measured.device)}) on {when}",
        memory_bytes=_memory_bytes(measured),
        is_measured=True,
        device_name=measured.device_name,
    )


def _kernels(measured: Calibration, shape: ModelShape) -> int:
    """Kernels per pass: as counted for the calibrated model; estimated from the layers for another."""
    return measured.kernels_per_pass if measured.model == shape.name else shape.kernels_per_pass


def preset_machine(preset: HardwarePreset, shape: ModelShape) -> Machine:
    """A GPU preset, with 16-bit weights."""
    return Machine(
        name=preset.name,
        label=preset.label,
        ceilings=preset.ceilings(shape),
        dtype="bf16",
        source=preset.source,
        memory_bytes=preset.memory_bytes,
        is_measured=False,
        device_name=None,
    )


def simulated_on(info: Mapping[str, Any], shape: ModelShape) -> Machine | None:
    """The GPU that a run was simulated on, with the rates that it was simulated with; None for any other run. `info` is
    the run's run.json."""
    environment = info.get("environment") or {}
    preset = HARDWARE.get(str(environment.get("hardware")))
    if not info.get("simulated") or preset is None:
        return None
    machine = preset_machine(preset, shape)
    rates: dict[str, Any] = {
        name: rate for name in RATES if isinstance(rate := environment.get(name), int | float) and 0 < rate < INF
    }
    source = f"The run was simulated with these rates. {environment.get('source') or preset.source}"
    gpus = environment.get("tensor_parallel_size")
    alone = replace(machine, ceilings=replace(machine.ceilings, **rates), source=plain(source))
    return several(alone, gpus) if isinstance(gpus, int) else alone


def several(machine: Machine, gpus: int) -> Machine:
    """So many GPUs that share a model: they read and compute together, and have the memory of all."""
    if gpus == 1:
        return machine
    return replace(
        machine,
        label=f"{gpus} x {machine.label}",
        ceilings=machine.ceilings.times(gpus),
        memory_bytes=None if machine.memory_bytes is None else gpus * machine.memory_bytes,
    )


def _memory_bytes(measured: Calibration) -> int | None:
    """The total memory of a calibrated device; None where it is not this machine's."""
    here = machine_memory()
    return here.total_bytes if here is not None and here.kind == measured.device.partition(":")[0] else None
