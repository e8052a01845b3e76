"""The kernels of engine.runtime.kernels on a GPU, one by one, with variants of their tiles.

    python -m benchmarks.kernels [--json] [--only decode,prefill,small] [--peak 4.39]

Each kernel runs LAUNCHES times back to back inside one CUDA graph; a time is the median replay divided by its launches,
so it includes the gap between two kernels. Needs only torch, Triton and numpy. With --tiny and TRITON_INTERPRET=1 the
script runs without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable

import torch

from benchmarks.kernel_cases import TINY, Case, Shape, decode_cases, prefill_cases, small_cases

LAUNCHES = 20
REPLAYS = 15


def seconds(calls: list[Callable[[], object]]) -> float:
    """Seconds of one launch: the median replay of a graph of LAUNCHES, divided by LAUNCHES."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in range(LAUNCHES):
            calls[launch % len(calls)]()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(REPLAYS + 3)]
    for mark in marks:
        mark.record()
        graph.replay()
    torch.cuda.synchronize()
    gaps = [a.elapsed_time(b) for a, b in zip(marks[2:], marks[3:], strict=False)]
    return statistics.median(gaps) / 1e3 / LAUNCHES


def measured(case: Case, peak_bytes_per_s: float) -> dict[str, str | float | None]:
    row: dict[str, str | float | None] = {"kernel": case.kernel, "size": case.size, "variant": case.variant}
    if not torch.cuda.is_available():
        case.calls[0]()
        return row | {"seconds": None}
    try:
        took = seconds(case.calls)
    except Exception as error:  # a tile that is too large for the GPU is a valid result
        return row | {"seconds": None, "error": type(error).__name__ + ": " + str(error).splitlines()[0]}
    share = case.num_bytes / took / peak_bytes_per_s
    tflop = case.flop / took / 1e12 if case.flop else None
    return row | {"seconds": took, "bytes_per_s": case.num_bytes / took, "share": share, "tflop_per_s": tflop}


def line(row: dict[str, str | float | None]) -> str:
    label = f"{row['kernel']:17} {row['size']:20} {row['variant']:44}"
    if not isinstance(row["seconds"], float):
        return f"{label} {row.get('error', 'ran')}"
    rate = f"{row['bytes_per_s'] / 1e9:7.0f} GB/s {row['share']:5.0%}"
    tflop = "" if row["tflop_per_s"] is None else f" {row['tflop_per_s']:6.0f} TFLOP/s"
    return f"{label} {row['seconds'] * 1e6:8.2f} us {rate}{tflop}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--only", default="decode,prefill,small", help="any of decode, prefill, small")
    parser.add_argument("--peak", type=float, default=4.39, help="the GPU's read rate in TB/s, for the shares")
    parser.add_argument("--tiny", action="store_true", help="toy sizes, to try the script itself")
    args = parser.parse_args()
    groups = {"decode": decode_cases, "prefill": prefill_cases, "small": small_cases}
    wanted = args.only.split(",")
    if unknown := set(wanted) - set(groups):
        parser.error(f"--only takes {', '.join(groups)}, not {', '.join(sorted(unknown))}")
    if not torch.cuda.is_available() and not (args.tiny and os.environ.get("TRITON_INTERPRET") == "1"):
        sys.exit("benchmarks.kernels needs a CUDA GPU; --tiny with TRITON_INTERPRET=1 tries it without one")
    torch.manual_seed(0)
    for name in wanted:
        for case in groups[name](TINY if args.tiny else Shape()):
            row = measured(case, args.peak * 1e12)
            print(json.dumps(row) if args.json else line(row), flush=True)


if __name__ == "__main__":
    main()
