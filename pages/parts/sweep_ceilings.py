"""What the measured points of a sweep are held against: the newest calibration of the device that they ran on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.core.format import quantity
from engine.core.roofline import Ceilings, ModelShape
from engine.core.run_shape import shape_of_run
from pages.parts.comparable import dtype_name
from pages.parts.markdown import plain
from pages.parts.roofline_machine import calibrated_machine, calibration_for, calibrations

HOW = "Run `.venv/bin/python -m engine calibrate` on it to measure them; the columns then fill by themselves."


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """`ceilings` are None where there are none, and `words` say how to get them; else where they are from.

    `shape` is the model's, None where a run does not tell it.
    """

    ceilings: Ceilings | None = None
    shape: ModelShape | None = None
    words: str = ""


def ceilings_for(settings: Mapping[str, Any], info: Mapping[str, Any]) -> Measured:
    """For runs as `info` (a run.json) tells; what a sweep's settings give by hand comes first."""
    device, model = info.get("device") or {}, info.get("model") or {}
    try:
        shape = shape_of_run(model)
    except ValueError as error:
        return Measured(words=f"{plain(str(error))}.")
    if settings.get("flop_per_s") and settings.get("bytes_per_s"):
        given = Ceilings(
            read_bytes_per_s=float(settings["bytes_per_s"]),
            flop_per_s=float(settings["flop_per_s"]),
            launch_s=0,
            kernels_per_pass=shape.kernels_per_pass,
        )
        return Measured(ceilings=given, shape=shape, words=f"Ceilings as given to the sweep: {rates(given)}.")
    newest = calibration_for(device, calibrations(), shape.name)
    if newest is None:
        name = plain(str(device.get("name")))
        return Measured(shape=shape, words=f"The ceilings of {name} are not known here. {HOW}")
    dtype = dtype_name(model)
    machine = calibrated_machine(newest, shape, dtype)
    if machine is None:
        return Measured(shape=shape, words=f"The newest calibration measured no arithmetic in {plain(dtype)}. {HOW}")
    return Measured(
        ceilings=machine.ceilings, shape=shape, words=f"{machine.source}: ceilings of {rates(machine.ceilings)}."
    )


def rates(ceilings: Ceilings) -> str:
    """`1.23 TFLOP/s and 34.5 GB/s, balance point 35.7 FLOP/byte`. TFLOP are 10^12, GB 10^9."""
    return (
        f"{quantity(ceilings.flop_per_s / 1e12, 'TFLOP/s')} and {quantity(ceilings.read_bytes_per_s / 1e9, 'GB/s')}, "
        f"balance point {quantity(ceilings.balance_flop_per_byte, 'FLOP/byte')}"
    )
