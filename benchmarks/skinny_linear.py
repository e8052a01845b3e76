"""The linear layers of a decode step at few rows: cuBLAS vs the lab's kernel, each product in a CUDA graph.

    python -m benchmarks.skinny_linear [--rows 1,8,16,32] [--quick]

The products go through the weights of all layers in turn, as in a step, so weights do not stay in the cache. Prints
microseconds per product.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.cuda_runs import numbers
from engine.runtime.kernels.skinny_linear import SkinnyTuning, skinny_linear

LAYERS = 28
SHAPES = {"qkv": (2048, 1536), "output": (1536, 1536), "gate_up": (17920, 1536), "down": (1536, 8960)}
HEAD = {"logits": (151936, 1536)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=numbers, default=[1, 8, 16, 32])
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks.skinny_linear needs a CUDA GPU")
    for name, (outputs, width) in (SHAPES | HEAD).items():
        layers = 2 if name in HEAD else LAYERS
        weights = [torch.randn(outputs, width, device="cuda", dtype=torch.bfloat16) / width**0.5 for _ in range(layers)]
        for rows in args.rows:
            x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
            expected = F.linear(x.float(), weights[0].float())
            cublas_us = micros(partial(F.linear, x), weights)
            floor_us = outputs * width * 2 / 4.39e12 * 1e6
            found = []
            for tuning in candidates(name, rows, quick=args.quick):
                try:
                    got = skinny_linear(x, weights[0], None, tuning).float()
                    got = got if tuning.splits == 1 else got.sum(0)
                    error = float((got - expected).abs().max())
                    us = micros(partial(skinny_linear, x, bias=None, tuning=tuning), weights)
                except Exception as failure:  # skip a candidate that does not compile
                    print(name, rows, tuning, str(failure).splitlines()[:1])
                    continue
                assert error < 0.05, (name, rows, tuning, error)
                found.append((us, tuning))
            found.sort(key=lambda f: f[0])
            best = [
                {"us": round(us, 2), "outputs": t.outputs, "columns": t.columns, "splits": t.splits, "warps": t.warps,
                 "stages": t.stages}
                for us, t in found[:4]
            ]  # fmt: skip
            one = next((round(us, 2) for us, t in found if t.splits == 1), None)
            line = {"name": name, "rows": rows, "floor_us": round(floor_us, 2), "cublas_us": round(cublas_us, 2)}
            print(json.dumps(line | {"one_split_us": one, "best": best}), flush=True)


def candidates(name: str, rows: int, *, quick: bool) -> list[SkinnyTuning]:
    splits = {"output": (1, 2, 4), "down": (1, 4, 8)}.get(name, (1,))
    if rows == 1:
        grid = itertools.product((4, 8, 16), (256, 512), splits, (4,), (1, 3))
    else:
        grid = itertools.product((16, 32, 64), (128, 256), splits, (4,), (3, 4))
    chosen = [SkinnyTuning(outputs=o, columns=c, splits=s, warps=w, stages=g) for o, c, s, w, g in grid]
    return chosen[:: 4 if quick else 1]


def micros(run: Callable[[Tensor], Tensor], weights: list[Tensor]) -> float:
    """Microseconds per product, from replays of a graph that runs twice over all `weights`."""
    run(weights[0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for weight in weights * 2:
            run(weight)
    times = []
    for _ in range(7):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / (2 * len(weights)))
    return statistics.median(times[2:])


if __name__ == "__main__":
    main()
