"""What measured decode passes are held against: ceilings given by hand, or the newest calibration of their device."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.core.errors import FieldError
from engine.core.units import short_dtype
from engine.hardware.hardware import Calibration
from engine.hardware.roofline import Ceilings
from engine.simulator.machine import read_calibrations


def add_ceiling_arguments(parser: argparse.ArgumentParser) -> None:
    """--flop-per-s and --bytes-per-s."""
    group = parser.add_argument_group("ceilings, instead of the newest calibration's")
    group.add_argument("--flop-per-s", type=float, metavar="N", help="arithmetic, as 27.6e12")
    group.add_argument("--bytes-per-s", type=float, metavar="N", help="reading memory, as 318e9")


def given_ceilings(args: argparse.Namespace) -> dict[str, float]:
    """What the options name, as an experiment's settings keep it. ValueError for one without the other."""
    given = {name: getattr(args, name) for name in ("flop_per_s", "bytes_per_s") if getattr(args, name) is not None}
    for name, value in given.items():
        if not (math.isfinite(value) and value > 0):
            raise FieldError(name, f"{name.replace('_', '-')} {value}: use a rate above 0, as 27.6e12")
    if len(given) == 1:
        raise FieldError(
            "flop_per_s", "flop-per-s and bytes-per-s go together: give both, or neither for the newest calibration's"
        )
    return given


def find_ceilings(
    settings: Mapping[str, Any], calibrations: Path, info: Mapping[str, Any]
) -> tuple[Ceilings | None, str]:
    """The ceilings for runs as `info`, a run.json, tells of them, and where they are from, in words."""
    device_name, dtype = str(info["device"]["name"]), short_dtype(str(info["model"]["dtype"]))
    if settings.get("flop_per_s") and settings.get("bytes_per_s"):
        given = Ceilings(
            read_bytes_per_s=settings["bytes_per_s"], flop_per_s=settings["flop_per_s"], launch_s=0, kernels_per_pass=0
        )
        return given, "given"
    newest = newest_calibration(calibrations, device_name, str(info["model"]["name"]))
    if newest is None:
        return None, "no calibration of this device: `python -m engine calibrate` measures its ceilings"
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
    """The newest of a device of that name, one of the same model before others; None where there is none."""
    mine = [calibration for calibration in read_calibrations(folder) if calibration.device_name == device_name]
    return max(mine, key=lambda c: (c.model == model, c.measured_at), default=None)
