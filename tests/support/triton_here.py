"""Triton as this machine can run it: on its GPU, or through Triton's interpreter where there is no CUDA device.

Import this before any kernel. Whether a kernel is interpreted is settled while it is being imported, so the setting is
put back afterward: no other test and no process of a test's own runs by it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@contextmanager
def importing_kernels() -> Iterator[None]:
    """Kernels imported inside are interpreted where there is no CUDA device."""
    before = os.environ.get("TRITON_INTERPRET")
    if DEVICE.type == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("TRITON_INTERPRET", None)
        else:
            os.environ["TRITON_INTERPRET"] = before


with importing_kernels():
    if DEVICE.type == "cpu":
        importlib.import_module("triton.experimental.gluon")  # a kernel's first call would, without the setting
