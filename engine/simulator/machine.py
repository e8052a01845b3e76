"""The machine of a simulated run: a GPU preset with its roofline, or this machine by its calibration.

The rates of a preset can be replaced, or scaled by an efficiency: the share of them that a pass reaches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from engine.core.config import RunConfig
from engine.core.errors import FieldError
from engine.core.regular_files import read_text
from engine.core.units import dtype_of
from engine.hardware.calibration import Calibration
from engine.hardware.hardware_presets import HARDWARE, hardware_preset
from engine.hardware.model_presets import model_shape
from engine.hardware.roofline import Ceilings, ModelShape
from engine.hardware.step_cost import THIS_MACHINE, CostModel, calibrated_cost, is_measured, roofline_cost
from engine.hardware.tensor_parallel import MAX_GPUS, Link, require_divisible

THIS = "this"
LOWEST_EFFICIENCY = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """User values that replace a preset's, in the preset's units; None keeps it. `efficiency` scales both rates."""

    read_bytes_per_s: float | None = None
    flop_per_s: float | None = None
    launch_s: float | None = None
    efficiency: float | None = None

    def __post_init__(self) -> None:
        rates = (
            ("read_gb_per_s", "read rate", self.read_bytes_per_s),
            ("tflop_per_s", "FLOP rate", self.flop_per_s),
        )
        for field, name, value in rates:
            if value is not None and not (math.isfinite(value) and value > 0):
                raise FieldError(field, f"{name} {value}: use a number above 0")
        if self.launch_s is not None and not (math.isfinite(self.launch_s) and self.launch_s >= 0):
            raise FieldError("launch_us", f"launch time {self.launch_s}: use 0 or more")
        if self.efficiency is not None and not LOWEST_EFFICIENCY <= self.efficiency <= 1:
            raise FieldError("efficiency", f"efficiency {self.efficiency}: use a share from {LOWEST_EFFICIENCY:f} to 1")

    @property
    def is_empty(self) -> bool:
        return self == Overrides()

    def applied(self, ceilings: Ceilings) -> Ceilings:
        share = 1.0 if self.efficiency is None else self.efficiency
        read, flop, launch_s = self.read_bytes_per_s, self.flop_per_s, self.launch_s
        return replace(
            ceilings,
            read_bytes_per_s=share * (ceilings.read_bytes_per_s if read is None else read),
            flop_per_s=share * (ceilings.flop_per_s if flop is None else flop),
            launch_s=ceilings.launch_s if launch_s is None else launch_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationTarget:
    """What a run is simulated on: a preset's name or `this`, the GPUs per copy of the model, and the bits per weight
    (None: those of the dtype)."""

    hardware: str
    tensor_parallel_size: int = 1
    weight_bits: int | None = None

    def machine(self, config: RunConfig, calibrations: Sequence[Calibration] = ()) -> SimulatedMachine:
        """The machine for `config`; see `simulated_machine`."""
        return simulated_machine(
            config,
            self.hardware,
            weight_bits=self.weight_bits,
            tensor_parallel_size=self.tensor_parallel_size,
            calibrations=calibrations,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_run(cls, info: Mapping[str, Any]) -> Self | None:
        """What a run was simulated on, by its run.json; None for a measured run, or a machine unknown here. Rates that
        were set by hand are not part of it."""
        environment, model = info.get("environment") or {}, info.get("model") or {}
        hardware, gpus = str(environment.get("hardware")), environment.get("tensor_parallel_size", 1)
        if not info.get("simulated") or hardware not in (THIS, *HARDWARE):
            return None
        return cls(
            hardware=hardware,
            tensor_parallel_size=gpus if gpus in range(1, MAX_GPUS + 1) else 1,
            weight_bits=8 if hardware != THIS and model.get("weight_bits") == 8 else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMachine:
    """`ceilings` belong to a roofline cost; None if the cost is a fit to measured passes. `kind` is `cuda` or `cpu`.

    `gpus` GPUs share the model over `link`; `ceilings` and `memory_bytes` are those of one. `memory_bytes` is None if
    unknown; `source` names the origin of the numbers.
    """

    name: str
    label: str
    kind: str
    source: str
    dtype: str
    shape: ModelShape
    cost: CostModel
    ceilings: Ceilings | None = None
    memory_bytes: int | None = None
    gpus: int = 1
    link: Link | None = None

    @property
    def shard(self) -> ModelShape:
        """What one GPU holds of the model, for estimates of memory."""
        return self.shape.shard(self.gpus)


def simulated_machine(
    config: RunConfig,
    hardware: str,
    *,
    weight_bits: int | None = None,
    tensor_parallel_size: int = 1,
    overrides: Overrides = Overrides(),  # noqa: B008 - frozen
    calibrations: Sequence[Calibration] = (),
) -> SimulatedMachine:
    """The machine for `config`'s model. `hardware` is the name of a preset, or `this`.

    `this` is the newest of `calibrations` on the device of `config` that measured passes of its model and engine.
    `tensor_parallel_size` GPUs share the model. ValueError for unknown hardware, missing measurements, or GPUs that
    cannot share the model.
    """
    if hardware == THIS and tensor_parallel_size != 1:
        raise FieldError(
            "tensor_parallel_size",
            f"tensor-parallel-size {tensor_parallel_size}: hardware this is one device as calibrated; use 1, or "
            f"{', '.join(HARDWARE)}",
        )
    if hardware == THIS:
        if not overrides.is_empty or weight_bits is not None:
            raise FieldError("card", "uses measured passes; set rates and weight bits only with a preset", THIS_MACHINE)
        return _calibrated(config, fitting_calibration(config, calibrations))
    preset = hardware_preset(hardware)
    if config.device == "cpu":
        raise FieldError(
            "device", f"device cpu: hardware {hardware} is a GPU; use --hardware this for a calibrated CPU"
        )
    if config.dtype == "fp32":
        raise FieldError("dtype", f"dtype fp32: hardware {hardware} has rates for 16-bit arithmetic; use bf16 or fp16")
    dtype = dtype_of(config.dtype, "cuda")
    shape = model_shape(config.model, dtype=dtype, weight_bits=weight_bits)
    require_divisible(shape, config.model, tensor_parallel_size)
    ceilings = overrides.applied(preset.ceilings(shape))
    return SimulatedMachine(
        name=preset.name,
        label=preset.label if tensor_parallel_size == 1 else f"{tensor_parallel_size} x {preset.label}",
        kind="cuda",
        source=preset.source if overrides.is_empty else f"{preset.source} Some values were set by the user.",
        dtype=dtype,
        shape=shape,
        cost=roofline_cost(shape, ceilings, config.execution, gpus=tensor_parallel_size, link=preset.link),
        ceilings=ceilings,
        memory_bytes=preset.memory_bytes,
        gpus=tensor_parallel_size,
        link=preset.link,
    )


def read_calibrations(folder: Path) -> list[Calibration]:
    """All calibrations in the folder that this version of the lab can read, newest first, short ones last."""
    found = []
    for path in folder.glob("*.json"):
        try:
            found.append(Calibration.from_json(read_text(path)))
        except (OSError, ValueError):
            continue  # another version of the lab, or incomplete
    return sorted(found, key=lambda calibration: (not calibration.short, calibration.measured_at), reverse=True)


def fitting_calibration(config: RunConfig, calibrations: Sequence[Calibration]) -> Calibration:
    """The newest calibration of the device that has what `config` needs, else the closest, for its error message.

    ValueError if the device was never calibrated. `calibrations` are newest first.
    """
    mine = [c for c in calibrations if config.device in ("auto", c.device.partition(":")[0])]
    if not mine:
        of = "" if config.device == "auto" else f" of {config.device}"
        raise FieldError(
            "card",
            f"no calibration{of} here; run `python -m engine calibrate --model {config.model}`, or use "
            f"{', '.join(HARDWARE)}",
            THIS_MACHINE,
        )
    same = [c for c in mine if c.model == config.model and config.dtype in ("auto", c.dtype)]
    return next((c for c in mine if is_measured(c, config)), same[0] if same else mine[0])


def _calibrated(config: RunConfig, measured: Calibration) -> SimulatedMachine:
    dtype = measured.dtype if config.dtype == "auto" else config.dtype
    shape = model_shape(config.model, dtype=dtype)
    return SimulatedMachine(
        name=THIS,
        label=measured.device_name,
        kind=measured.device.partition(":")[0],
        source=f"Calibrated{_effort(measured)} on {measured.device_name} ({measured.device}), "
        f"{measured.measured_at}{_busy(measured)}.",
        dtype=dtype,
        shape=shape,
        cost=calibrated_cost(measured, shape, replace(config, dtype=dtype)),
    )


def _effort(measured: Calibration) -> str:
    return " in short" if measured.short else ""


def _busy(measured: Calibration) -> str:
    return ", while other work was running" if measured.was_busy else ""
