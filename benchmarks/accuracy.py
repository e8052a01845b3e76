"""How far the simulator is from this machine: the same workloads run and simulated, side by side.

    python -m engine calibrate --model smollm2-135m
    python -m benchmarks.accuracy --out FOLDER [--engines static,continuous] [--calibration FILE] [--repeats 3]

Each engine gets every request at once, then poisson arrivals at `--load` of the closed rate. Measured figures are
medians over the repeats, taken in turn; the simulation is of the newest calibration under LAB_HOME, or of
`--calibration`.
A line of JSON a run, then a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.cuda_runs import Bench
from engine.core.calibrated_cost import calibrated_cost
from engine.core.config import RunConfig, WorkloadConfig
from engine.core.hardware import Calibration
from engine.core.home import lab_home
from engine.core.metrics import run_metrics
from engine.core.model_presets import model_shape
from engine.core.simulator import simulate
from engine.core.workload import build_workload

COMPARED = ("output_tokens_per_s", "ttft_p50_s", "decode_pass_p50_s", "prefill_pass_p50_s", "duration_s")
Case = tuple[str, str]  # engine, arrival
Figures = dict[str, float]


def main() -> None:
    args = _arguments()
    work = WorkloadConfig(prompts=args.mix, budget=args.budget, requests=args.requests, seed=args.seed)
    base = RunConfig(
        model=args.model, device=args.device, execution=args.execution, timing=args.timing, slots=args.slots,
        workload=work,
    )  # fmt: skip
    calibration = _calibration(args.calibration)
    measured: dict[Case, list[Figures]] = defaultdict(list)
    configs: dict[Case, RunConfig] = {}
    with Bench(args.out, device=calibration.device.partition(":")[0]) as bench:
        for _ in range(args.repeats):
            for engine in args.engines.split(","):
                closed = replace(base, engine=engine)
                configs.setdefault((engine, "closed"), closed)
                measured[engine, "closed"].append(_run(bench, closed))
                poisson = configs.get((engine, "poisson")) or _slower(closed, measured[engine, "closed"][0], args.load)
                configs[engine, "poisson"] = poisson
                measured[engine, "poisson"].append(_run(bench, poisson))
    print(_table({case: (_medians(runs), _simulated(configs[case], calibration)) for case, runs in measured.items()}))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--engines", default="static,continuous")
    parser.add_argument("--execution", default="eager")
    parser.add_argument("--timing", default="sync")
    parser.add_argument("--mix", default="p16,p64,p256")
    parser.add_argument("--budget", default="16-64")
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--load", type=float, default=0.6, help="of the closed rate")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--calibration", type=Path)
    return parser.parse_args()


def _calibration(file: Path | None) -> Calibration:
    file = file or max((lab_home() / "calibrations").glob("*.json"), key=lambda path: path.stat().st_mtime)
    return Calibration.from_json(file.read_text())


def _run(bench: Bench, config: RunConfig) -> Figures:
    folder, result = bench.run(config)
    figures = {name: result["totals"].get(name) for name in COMPARED}
    line = {"engine": config.engine, "arrival": config.workload.arrival, "status": result["status"], **figures}
    print(json.dumps({**line, "run_id": folder.name}), flush=True)
    return {**figures, "requests_per_s": result["totals"]["requests_per_s"]}


def _slower(closed: RunConfig, figures: Figures, load: float) -> RunConfig:
    """Poisson arrivals at a share of the closed rate."""
    rate = round(load * figures["requests_per_s"], 4)
    return replace(closed, workload=replace(closed.workload, arrival=f"poisson:{rate}"))


def _simulated(config: RunConfig, calibration: Calibration) -> Figures:
    dtype = calibration.dtype
    shape = model_shape(config.model, dtype=dtype)
    cost = calibrated_cost(calibration, shape, replace(config, dtype=dtype))
    totals: dict[str, Any] = run_metrics(simulate(config, build_workload(config.workload), cost, shape).record())
    return {name: totals[name] for name in COMPARED}


def _medians(runs: list[Figures]) -> Figures:
    return {name: statistics.median(run[name] for run in runs) for name in COMPARED}


def _table(results: dict[Case, tuple[Figures, Figures]]) -> str:
    lines = ["| engine | arrivals | figure | measured | simulated | error |", "|---|---|---|---|---|---|"]
    for (engine, arrival), (measured, simulated) in results.items():
        for name in COMPARED:
            real, virtual = measured[name], simulated[name]
            error = 100 * (virtual / real - 1)
            lines.append(f"| {engine} | {arrival} | {name} | {real:.4g} | {virtual:.4g} | {error:+.1f} % |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
