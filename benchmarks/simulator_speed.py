"""The speed of the simulator: a trace of 400 requests with its full run log, and one of 100,000 without token rows.

    python -m benchmarks.simulator_speed [--engines static,continuous,paged] [--requests 400,100000] [--slots 32]

Mixed prompts (16 to 4,096 tokens), budgets of 64 to 256, Poisson arrivals near each engine's capacity on the GPU. Times
are the process's CPU seconds for building the workload, simulating, and computing every metric.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

from engine.core.config import RunConfig, WorkloadConfig
from engine.metrics.metrics import run_metrics
from engine.simulator.machine import simulated_machine
from engine.simulator.simulator import simulate
from engine.workload.workload import build_workload

MIX = "p16,p64,p256,p1024,p4096"
WITH_LOG = 10_000  # most requests with a full run log
STREAMS = ("passes", "spans", "blocks", "events")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", default="static,continuous,paged,chunked")
    parser.add_argument("--requests", default="400,100000")
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--hardware", default="h200")
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--one", action="store_true", help="measure one engine and request count in this process")
    args = parser.parse_args()
    if args.one:
        _measure(args.engines, int(args.requests), args)
        return
    print("| engine | requests | passes | tokens | built | simulated | metrics | memory |")
    print(f"|---|{'--:|' * 7}")
    for count in args.requests.split(","):
        for engine in args.engines.split(","):
            shared = ["--slots", str(args.slots), "--hardware", args.hardware, "--rate", str(args.rate)]
            own = ["--one", "--engines", engine, "--requests", count]
            # One process each: peak memory never decreases within a process.
            subprocess.run([sys.executable, "-m", "benchmarks.simulator_speed", *own, *shared], check=True)


def _measure(engine: str, requests: int, args: argparse.Namespace) -> None:
    work = WorkloadConfig(prompts=MIX, requests=requests, budget="64-256", arrival=f"poisson:{args.rate}")
    config = RunConfig(engine=engine, model="qwen2.5-1.5b", slots=args.slots, workload=work)
    machine = simulated_machine(config, args.hardware)
    marks = [time.process_time()]
    workload = build_workload(work)
    marks.append(time.process_time())
    streams = STREAMS if requests <= WITH_LOG else ()
    simulation = simulate(config, workload, machine.cost, machine.shape, streams=streams)
    marks.append(time.process_time())
    metrics = run_metrics(simulation.record())
    marks.append(time.process_time())
    built_s, simulated_s, metrics_s = (b - a for a, b in zip(marks, marks[1:], strict=False))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"| {engine} | {requests:,} | {metrics['passes']:,} | {metrics['output_tokens']:,} | {built_s:.2f} s "
        f"| {simulated_s:.2f} s | {metrics_s:.2f} s | {peak_mib:,.0f} MiB |",
        flush=True,
    )


if __name__ == "__main__":
    main()
