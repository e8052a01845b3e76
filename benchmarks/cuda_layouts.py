"""A mixed workload on a GPU, engine by engine: closed load, capacity under Poisson arrivals, admission spikes.

    python -m benchmarks.cuda_layouts closed   --out FOLDER [--slots 256] [--requests 400] [--engines paged,chunked]
    python -m benchmarks.cuda_layouts capacity --out FOLDER [--execution eager] [--engines static,paged]
    python -m benchmarks.cuda_layouts spike    --out FOLDER [--engines continuous,paged,chunked] [--tokens 512,256]

closed: all requests arrive at once; requests/s to the last token. capacity: arrivals at --overload times the closed
rate give the completion rate while a queue exists; arrivals at --below times that rate check that the queue stays
short. spike: 64 requests through 8 slots; the worst gap between a request's tokens over the median gap. Runs are
ordinary run folders. Prompts of 16 to 4,096 tokens in equal shares, 64-256 output tokens.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cuda_runs import Bench, numbers
from engine.core.config import RunConfig, WorkloadConfig
from engine.core.record import RunRecord
from engine.runlog.reader import RunLogReader

MIX, BUDGET = "p16,p64,p256,p1024,p4096", "64-256"
SHOWN = (
    "status", "duration_s", "requests_per_s", "output_tokens_per_s", "passes", "prefill_s", "decode_s", "mixed_s",
    "decode_pass_p50_s", "queue_wait_p50_s", "ttft_p50_s", "itl_p50_s", "itl_max_s", "itl_max_over_p50",
    "between_passes_s", "padding_fraction", "dead_fraction", "kv_unused_fraction", "preemptions", "peak_memory_bytes",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("closed", "capacity", "spike"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="qwen2.5-1.5b-random")
    parser.add_argument("--device", default="cuda", help="cpu: try the script without a GPU")
    parser.add_argument("--engines", default=None)
    parser.add_argument("--execution", default="graph")
    parser.add_argument("--timing", default="async")
    parser.add_argument("--requests", type=int, default=None)
    parser.add_argument("--slots", type=int, default=None)
    parser.add_argument("--tokens", type=numbers, default=[512], help="max_num_batched_tokens of chunked")
    parser.add_argument("--overload", type=float, default=1.5)
    parser.add_argument("--below", type=float, default=0.8)
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args()
    requests = args.requests or {"spike": 64, "capacity": 256}.get(args.what, 400)
    work = WorkloadConfig(prompts=MIX, budget=BUDGET, requests=requests)
    base = RunConfig(
        model=args.model, device=args.device, execution=args.execution, timing=args.timing, workload=work,
        slots=args.slots or {"closed": 256, "capacity": 32, "spike": 8}[args.what],
    )  # fmt: skip
    with Bench(args.out, args.device) as bench:
        for _ in range(args.repeats):
            for config in _configs(args, base):
                if args.what == "capacity":
                    find_capacity(bench, config, args.overload, args.below)
                else:
                    show(bench, config, args.what)


def _configs(args: argparse.Namespace, base: RunConfig) -> list[RunConfig]:
    default = {"closed": "paged,chunked", "spike": "continuous,paged,chunked"}
    configs = []
    for engine in (args.engines or default.get(args.what, "static,continuous,paged,chunked")).split(","):
        budgets = args.tokens if engine == "chunked" else [base.max_num_batched_tokens]
        configs += [replace(base, engine=engine, max_num_batched_tokens=tokens) for tokens in budgets]
    return configs


def show(bench: Bench, config: RunConfig, what: str) -> tuple[dict[str, Any], RunRecord]:
    folder, result = bench.run(config)
    totals = {"status": result["status"], "error": result["error"], **result["totals"]}
    line = {
        "what": what,
        "engine": config.engine,
        "tokens_a_step": config.max_num_batched_tokens if config.engine == "chunked" else None,
        "slots": config.slots,
        "arrival": config.workload.arrival,
        **{name: _short(totals.get(name)) for name in SHOWN},
        "notes": result.get("notes"),
        "ready_s": bench.ready_s,
        "run_id": folder.name,
    }
    print(json.dumps(line), flush=True)
    return totals, RunLogReader(folder).record()


def find_capacity(bench: Bench, config: RunConfig, overload: float, below: float) -> None:
    """Measure completions/s while a queue exists, then the queue at a share of that rate."""
    closed_rate = config.workload.requests / show(bench, config, "closed")[0]["duration_s"]
    pressed = replace(config, workload=replace(config.workload, arrival=f"poisson:{overload * closed_rate:.3f}"))
    _, record = show(bench, pressed, "overload")
    capacity = saturated_rate(record)
    eased = replace(config, workload=replace(config.workload, arrival=f"poisson:{below * capacity:.3f}"))
    totals, _ = show(bench, eased, "below")
    print(
        json.dumps(
            {
                "what": "capacity",
                "engine": config.engine,
                "execution": config.execution,
                "closed_requests_per_s": _short(closed_rate),
                "capacity_requests_per_s": _short(capacity),
                "offered_below": below,
                "queue_wait_p50_below_s": _short(totals["queue_wait_p50_s"]),
                "ttft_p95_below_s": _short(totals["ttft_p95_s"]),
            }
        ),
        flush=True,
    )


def saturated_rate(record: RunRecord) -> float:
    """Requests/s completed between the first and the last pass that left requests waiting, without the first fifth.

    The rate is the engine's capacity only while there is a queue and the engine is full.
    """
    waiting = record.passes["queue_depth"] > 0
    starts, ends = record.passes["start_s"][waiting], record.passes["end_s"][waiting]
    first, last = np.min(starts), np.max(ends)
    first += (last - first) / 5
    finished = record.requests["finished_s"]
    return float(np.sum((finished >= first) & (finished < last)) / (last - first))


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
