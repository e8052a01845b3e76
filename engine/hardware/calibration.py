"""Calibration: a machine's measured limits, to compare passes with.

A calibration holds for one device at one time, with the recorded number of threads and system load. It does not say how
close to its limits a given pass can get.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPass:
    """The time of one pass of a known shape in a busy engine, from the end of the previous pass to its own end.

    Fields are named like the run log's columns. `squared_lengths` is the sum of squared prompt lengths of a prefill
    (attention grows with it) and 0 for a decode pass. `seconds` is the median of `samples`.
    """

    kv_layout: str
    execution: str
    timing: str
    kind: str
    masked: bool
    rows: int
    tokens: int
    prompt_tokens: int
    width: int
    computed_positions: int
    padding_positions: int
    squared_lengths: int
    seconds: float
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Measured on `device` (`cpu`, `cuda:0`): medians after warm-up, over buffers larger than the last-level cache.

    Bytes/s count every byte moved: both the read and the write of a copy. A multiply-add is 2 FLOP; FLOP/s are by dtype
    (`fp32`, `bf16`, `fp16`; only those that the device supports). `launch_s` is the time of one near-empty operation.
    `kernels_per_pass` counts the GPU kernels (on a CPU: the operations other than views) of one eager decode pass of
    `model` in `dtype` with one row; `pass_s` is the time of that pass and `pass_issue_s` the host's part (None on a
    CPU). `passes` are passes of other shapes, measured in the engine's own loop. A `short` calibration has
    few shapes and few repeats.
    """

    device: str
    device_name: str
    threads: int
    torch_version: str
    measured_at: str
    load_average_1min: float
    cache_bytes: int | None
    buffer_bytes: int
    read_bytes_per_s: float
    copy_bytes_per_s: float
    matmul_flop_per_s: dict[str, float]
    launch_s: float
    model: str
    dtype: str
    kernels_per_pass: int
    pass_s: float
    pass_issue_s: float | None
    passes: tuple[MeasuredPass, ...] = ()
    short: bool = False

    @property
    def was_busy(self) -> bool:
        """Whether other work used more than half of the threads before measuring began."""
        return self.load_average_1min > self.threads / 2

    def to_json(self) -> str:
        """One JSON object with the field names as keys."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`. ValueError for other text, also for calibrations of other versions of the lab."""
        try:
            data: dict[str, Any] = json.loads(text)
            names = set(data)
        except (ValueError, TypeError) as error:
            raise ValueError(f"calibration: not a JSON object ({error})") from error
        expected = {field.name for field in fields(cls)}
        if names | {"short"} != expected:  # older calibrations are all in full
            odd = ", ".join(sorted(names ^ expected))
            raise ValueError(f"calibration: missing or unknown {odd}; run `python -m engine calibrate` again")
        return cls(**{**data, "passes": tuple(_measured_pass(item) for item in data["passes"])})

    def file_name(self) -> str:
        """`<device>-<time>.json`, sorted by time within a device."""
        time = "".join(character for character in self.measured_at if character.isalnum())
        return f"{self.device.replace(':', '')}-{time}.json"

    def save(self, folder: Path) -> Path:
        """Write the calibration into `folder` (created if missing) and return the file."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.file_name()
        partial = path.with_suffix(".partial")
        partial.write_text(self.to_json() + "\n")
        partial.rename(path)
        return path


def _measured_pass(data: dict[str, Any]) -> MeasuredPass:
    try:
        return MeasuredPass(**data)
    except TypeError as error:
        raise ValueError(f"calibration: invalid pass ({error}); run `python -m engine calibrate` again") from error
