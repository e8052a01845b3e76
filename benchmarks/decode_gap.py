"""The gap between a request's tokens on a GPU, by batch size: equal prompts, graph execution, async timing.

    python -m benchmarks.decode_gap --out FOLDER [--rows 1,8,32,128,256,512] [--engine paged] [--repeats 1]

Prints one line per run: the median wall-time gap between a request's delivered tokens; the lower bound from the GPU's
memory bandwidth and matrix rate (the larger of the two); vLLM 0.21.0's gap if known (one H200, Qwen2.5-1.5B's shape,
prompts of 256); and the time of the pass. With --compare-recording each size runs with and without a log, interleaved.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cuda_runs import Bench, numbers
from engine.core.config import RunConfig, WorkloadConfig
from engine.runlog.reader import RunLogReader

VLLM_MS = {1: 2.0, 8: 2.0, 32: 2.8, 128: 4.1, 256: 7.1}
WEIGHT_BYTES, POSITION_BYTES, MEAN_CONTEXT = 3.087e9, 28_672, 324
READ_BYTES_PER_S, FLOP_PER_S, FLOP_PER_TOKEN = 4.39e12, 806e12, 3.09e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="qwen2.5-1.5b-random")
    parser.add_argument("--device", default="cuda", help="cpu: try the script without a GPU")
    parser.add_argument("--engine", default="paged")
    parser.add_argument("--execution", default="graph")
    parser.add_argument("--timing", default="async")
    parser.add_argument("--rows", type=numbers, default=numbers("1,8,32,128,256,512"))
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--budget", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--compare-recording", action="store_true")
    args = parser.parse_args()
    base = RunConfig(
        engine=args.engine, model=args.model, device=args.device, execution=args.execution, timing=args.timing
    )
    with Bench(args.out, args.device) as bench:
        for rows in args.rows:
            work = WorkloadConfig(prompts=f"p{args.prompt}", requests=rows, budget=str(args.budget))
            config = replace(base, slots=rows, workload=work)
            for _ in range(args.repeats):
                print(json.dumps(measure(bench, config)), flush=True)
                if args.compare_recording:
                    print(json.dumps({"rows": rows, "unrecorded_step_ms": unrecorded_step_ms(bench, config)}))


def measure(bench: Bench, config: RunConfig) -> dict[str, Any]:
    """One recorded run: the gaps between delivered tokens, and the decode passes."""
    folder, result = bench.run(config)
    rows, totals = config.slots, result["totals"]
    if result["status"] != "completed":
        return {"rows": rows, "status": result["status"], "error": result["error"]}
    record = RunLogReader(folder).record()
    decode = np.flatnonzero(record.passes["kind"] == "decode")
    return {
        "rows": rows,
        "engine": config.engine,
        "status": result["status"],
        "gap_p50_ms": round(1e3 * totals["itl_p50_s"], 3),
        "floor_ms": round(floor_ms(rows), 3),
        "vllm_ms": VLLM_MS.get(rows),
        "device_p50_ms": round(1e3 * float(np.median(record.passes["device_s"][decode])), 3),
        "issue_p50_ms": round(1e3 * float(np.median(record.passes["issue_s"][decode])), 3),
        "prefill_s": round(totals["prefill_s"], 4),
        "output_tokens_per_s": round(totals["output_tokens_per_s"], 1),
        "ready_s": bench.ready_s,
    }


def floor_ms(rows: int) -> float:
    """Lower bound of a step: its bytes over the read rate, or its FLOP over the matrix rate."""
    bytes_s = (WEIGHT_BYTES + rows * MEAN_CONTEXT * POSITION_BYTES) / READ_BYTES_PER_S
    return 1e3 * max(bytes_s, rows * FLOP_PER_TOKEN / FLOP_PER_S)


def unrecorded_step_ms(bench: Bench, config: RunConfig) -> float:
    """The median wall time from one decode pass to the next, without a log."""
    ends = bench.run_unrecorded(config)
    return round(1e3 * statistics.median(np.diff(ends)), 3)


if __name__ == "__main__":
    main()
