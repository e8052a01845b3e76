"""The load time of the default model: in new processes with a warm cache, and once with the conversion.

    .venv/bin/python -m benchmarks.model_load [--processes 5] [--convert]

Each process imports torch, imports the lab's loader (and transformers), then loads; each step is timed. `--convert`
adds a first load into an empty temporary cache (half a gigabyte).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

LOAD = """
import json, sys, time
from time import perf_counter as now
start_s = now()
import torch
torch_s = now()
from engine.runtime.models.loading import load_model
imported_s = now()
load_model(sys.argv[1], torch.device("cpu"), getattr(torch, sys.argv[2]), lambda line, share: None)
loaded_s = now()
print(json.dumps({
    "import_torch_s": torch_s - start_s, "import_loader_s": imported_s - torch_s, "load_s": loaded_s - imported_s,
}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=5, metavar="N", help="new processes per dtype (default 5)")
    parser.add_argument("--model", default="smollm2-135m", help="default smollm2-135m")
    parser.add_argument("--convert", action="store_true", help="also time one first load, into an empty cache")
    args = parser.parse_args()
    if args.convert:
        with tempfile.TemporaryDirectory() as cache:
            report(f"{args.model} first load, fp32", [load(args.model, "float32", {"LAB_CACHE": cache})])
    load(args.model, "float32", {})  # converts if needed, and reads the files into the page cache
    for dtype in ("float32", "bfloat16"):
        times = [load(args.model, dtype, {}) for _ in range(args.processes)]
        report(f"{args.model} {dtype}, medians of {args.processes}", times)
    return 0


def load(model: str, dtype: str, environment: dict[str, str]) -> dict[str, float]:
    """The three times of a new process, in seconds."""
    command = [sys.executable, "-c", LOAD, model, dtype]
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True)
    times: dict[str, float] = json.loads(done.stdout)
    return times


def report(title: str, times: list[dict[str, float]]) -> None:
    medians = {key: statistics.median(t[key] for t in times) for key in times[0]}
    spread = max(t["load_s"] for t in times)
    figures = ", ".join(f"{key.removesuffix('_s').replace('_', ' ')} {value:.2f} s" for key, value in medians.items())
    print(f"{title}: {figures} (load at most {spread:.2f} s); load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    raise SystemExit(main())
