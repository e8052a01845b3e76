"""What a machine was measured to do: the ceilings that a pass can be held against.

A calibration is a fact about one device at one time, with the number of threads and the load it was taken under. It
does not know how near a given pass can come to it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPass:
    """What one pass of a known shape took in a busy engine: from the end of the one before it to its own.

    The columns are named as the run log's. `squared_lengths` is the sum of squared prompt lengths of a prefill (its
    attention grows with it), 0 of a decode pass. `seconds` is the median of `samples`.
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
    """Measured on `device` (`cpu`, `cuda:0`): medians, after warm-up, over buffers larger than the last cache.

    Bytes a second count every byte once: a copy's read and its write both count. FLOP are 2 a multiply-add, by dtype
    (`fp32`, `bf16`, `fp16`; only those that the device computes). `launch_s` is the time of one operation that does
    next to nothing. `kernels_per_pass` counts GPU kernels, on a CPU operations that are no views, in one eager decode
    pass of `model` in `dtype` with one row; `pass_s` is that pass's time, `pass_issue_s` the host's part of it (None on
    a CPU, where issuing and running are one). `passes` are passes of other shapes, through the engine's own loop.
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

    @property
    def was_busy(self) -> bool:
        """Whether other work was on the machine before any measuring: more than half of the threads' worth."""
        return self.load_average_1min > self.threads / 2

    def to_json(self) -> str:
        """One JSON object, its keys the fields' names."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`. ValueError where it is no calibration, or one of another version of the lab."""
        try:
            data: dict[str, Any] = json.loads(text)
            names = set(data)
        except (ValueError, TypeError) as error:
            raise ValueError(f"calibration: not a JSON object ({error})") from error
        expected = {field.name for field in fields(cls)}
        if names != expected:
            odd = ", ".join(sorted(names ^ expected))
            raise ValueError(f"calibration: missing or unknown {odd}; measure again with `python -m engine calibrate`")
        return cls(**{**data, "passes": tuple(_measured_pass(item) for item in data["passes"])})

    def file_name(self) -> str:
        """`<device>-<time>.json`: sorts by time within a device."""
        time = "".join(character for character in self.measured_at if character.isalnum())
        return f"{self.device.replace(':', '')}-{time}.json"

    def save(self, folder: Path) -> Path:
        """Write it into `folder`, which is made if need be, and return the file."""
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
        raise ValueError(f"calibration: a pass of another form ({error}); measure again") from error
