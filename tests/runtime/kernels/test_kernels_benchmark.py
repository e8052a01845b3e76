"""The kernels' benchmark: a clear refusal without a GPU, and its cases through Triton's interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.app_server import ROOT
from tests.support.triton_here import DEVICE

pytestmark = pytest.mark.skipif(DEVICE.type == "cuda", reason="this is what it does without a GPU")


def benchmark(*arguments: str, interpreted: bool) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TRITON_INTERPRET": "1" if interpreted else "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.kernels", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_no_gpu_is_one_clear_line() -> None:
    ran = benchmark(interpreted=False)
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert ran.stderr.splitlines() == [
        "benchmarks.kernels needs a CUDA GPU; --tiny with TRITON_INTERPRET=1 tries it without one"
    ]


def test_an_unknown_group_is_named() -> None:
    ran = benchmark("--only", "prefill,norms", interpreted=False)
    assert ran.returncode == 2
    assert "--only takes decode, prefill, small, not norms" in ran.stderr


def test_every_case_runs() -> None:
    ran = benchmark("--only", "prefill,small", "--tiny", "--json", interpreted=True)
    assert ran.returncode == 0, ran.stderr
    cases = [json.loads(line) for line in ran.stdout.splitlines()]
    kernels = {case["kernel"] for case in cases}
    assert kernels == {"paged_prefill", "rms_norm", "add_rms_norm", "silu_mul", "rotate_and_store", "argmax"}
    assert all(case["seconds"] is None and "error" not in case for case in cases)
    assert len({(case["kernel"], case["size"], case["variant"]) for case in cases}) == len(cases)
