"""A mixed workload on a GPU: static and continuous, sync and async, and serial on its first eight requests.

    python -m benchmarks.cuda_engines --out FOLDER [--model qwen2.5-1.5b-random] [--requests 64] [--slots 32]

Writes ordinary run folders and prints one line per run.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.cuda_runs import Bench
from engine.core.config import RunConfig, WorkloadConfig
from engine.runtime.build_engine import build_engine, make_runner
from engine.runtime.warm_up import NoSink
from engine.workload.workload import Workload, build_workload

SHOWN = (
    "status",
    "output_tokens",
    "duration_s",
    "output_tokens_per_s",
    "passes",
    "decode_pass_p50_s",
    "prefill_pass_p50_s",
    "prefill_share",
    "issue_s",
    "device_s",
    "between_passes_s",
    "dead_fraction",
    "padding_fraction",
    "kv_unused_fraction",
    "ttft_p50_s",
    "itl_p50_s",
    "itl_max_s",
    "peak_memory_bytes",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="qwen2.5-1.5b-random")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--prompts", default="p16,p64,p256,p1024,p4096")
    parser.add_argument("--budget", default="64-256")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--serial-requests", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=1, help="interleaved: every engine and timing once, then again")
    parser.add_argument("--profile", action="store_true", help="also profile the kernels of one decode step per engine")
    args = parser.parse_args()
    workload = build_workload(WorkloadConfig(prompts=args.prompts, budget=args.budget, requests=args.requests))
    few = replace(
        workload,
        config=replace(workload.config, requests=args.serial_requests),
        requests=workload.requests[: args.serial_requests],
    )
    base = RunConfig(model=args.model, device=args.device, slots=args.slots, workload=workload.config)
    with Bench(args.out, args.device) as bench:
        for _ in range(args.repeats):
            for engine in ("static", "continuous"):
                for timing in ("sync", "async"):
                    measure(bench, replace(base, engine=engine, timing=timing), workload)
        if args.profile:
            for engine in ("static", "continuous", "serial"):
                print(json.dumps(kernel_seconds(bench, replace(base, engine=engine), workload)))
        if few.requests:
            measure(bench, replace(base, engine="serial", workload=few.config), few)


def kernel_seconds(bench: Bench, config: RunConfig, workload: Workload, after_steps: int = 20) -> dict[str, Any]:
    """One decode step under the profiler: its kernels, and their seconds without the pauses between them."""
    prepared = bench.prepare(config, workload)
    requests = prepared.requests()
    engine = build_engine(prepared, requests, make_runner(prepared, requests), NoSink())
    for _ in range(after_steps):
        engine.step(lambda: False)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        engine.step(lambda: False)
        torch.cuda.synchronize()
    planned = engine.current_pass
    assert planned is not None
    kernels = [e for e in profile.events() or [] if e.device_type == torch.autograd.DeviceType.CUDA]
    seconds = sum(e.time_range.elapsed_us() for e in kernels) / 1e6
    shape = {"kind": planned.kind, "rows": len(planned.rows), "width": planned.shape.width}
    return {"engine": config.engine, **shape, "kernels": len(kernels), "kernel_s": seconds}


def measure(bench: Bench, config: RunConfig, workload: Workload) -> None:
    folder, result = bench.run(config, workload)
    totals: dict[str, Any] = {"status": result["status"], "error": result["error"], **result["totals"]}
    line = {"run_id": folder.name, "engine": config.engine, "timing": config.timing}
    print(json.dumps(line | {name: totals[name] for name in SHOWN}))


if __name__ == "__main__":
    main()
