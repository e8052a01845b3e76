"""The limits that measured decode passes are compared with: given by hand, or from the newest calibration."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.core.errors import FieldError
from engine.core.units import short_dtype
from engine.hardware.calibration import Calibration
from engine.hardware.roofline import Ceilings
from engine.simulator.machine import read_calibrations


def add_ceiling_arguments(parser: argparse.ArgumentParser) -> None:
    """--flop-per-s and --bytes-per-s."""
    group = parser.add_argument_group("limits (default: the newest calibration)")
    group.add_argument("--flop-per-s", type=float, metavar="N", help="compute, for example 27.6e12")
    group.add_argument("--bytes-per-s", type=float, metavar="N", help="memory reads, for example 318e9")


def given_ceilings(args: argparse.Namespace) -> dict[str, float]:
    """The limits on the command line, as an experiment's settings keep them. ValueError for one without the other."""
    given = {name: getattr(args, name) for name in ("flop_per_s", "bytes_per_s") if getattr(args, name) is not None}
    for name, value in given.items():
        if not (math.isfinite(value) and value > 0):
            raise FieldError(name, f"{name.replace('_', '-')} {value}: use a rate above 0, for example 27.6e12")
    if len(given) == 1:
        raise FieldError("flop_per_s", "flop-per-s and bytes-per-s: set both, or neither to use the newest calibration")
    return given


def find_ceilings(
    settings: Mapping[str, Any], calibrations: Path, info: Mapping[str, Any]
) -> tuple[Ceilings | None, str]:
    """The limits for the model and device in `info` (a run.json), and a text that names their source."""
    device_name, dtype = str(info["device"]["name"]), short_dtype(str(info["model"]["dtype"]))
    if settings.get("flop_per_s") and settings.get("bytes_per_s"):
        given = Ceilings(
            read_bytes_per_s=settings["bytes_per_s"], flop_per_s=settings["flop_per_s"], launch_s=0, kernels_per_pass=0
        )
        return given, "given"
    newest = newest_calibration(calibrations, device_name, str(info["model"]["name"]))
    if newest is None:
        return None, "no calibration of this device; measure it with `python -m engine calibrate`"
    flop_per_s = newest.matmul_flop_per_s.get(dtype)
    if flop_per_s is None:
        return None, f"the newest calibration did not measure arithmetic in {dtype}"
    measured = Ceilings(
        read_bytes_per_s=newest.read_bytes_per_s,
        flop_per_s=flop_per_s,
        launch_s=newest.launch_s,
        kernels_per_pass=newest.kernels_per_pass,
    )
    return measured, f"calibrated {newest.measured_at}"


def newest_calibration(folder: Path, device_name: str, model: str) -> Calibration | None:
    """The newest calibration of the device, preferring the same model; None if there is none."""
    mine = [calibration for calibration in read_calibrations(folder) if calibration.device_name == device_name]
    return max(mine, key=lambda c: (c.model == model, c.measured_at), default=None)
