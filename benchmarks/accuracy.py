"""The simulator's error on this machine: the same workloads, run and simulated.

    python -m engine calibrate --model smollm2-135m [--engines none with --in-turn]
    python -m benchmarks.accuracy --out FOLDER [--engines static,continuous] [--repeats 3] [--in-turn]

Each engine gets all requests at once, then Poisson arrivals at `--load` of the closed rate. The simulation uses the
newest calibration under LAB_HOME, or `--calibration`.

With `--in-turn`, passes are measured again before and after each pair of runs, and the pair is simulated from those two
rounds: on a machine whose speed drifts, this separates the simulator's error from the machine's. An error is the median
over the repeats' errors.
Prints one line of JSON per run, then a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.cuda_runs import Bench
from engine.core.config import RunConfig, WorkloadConfig
from engine.core.home import lab_home
from engine.hardware.calibration import Calibration, MeasuredPass
from engine.hardware.model_presets import model_shape
from engine.hardware.step_cost import calibrated_cost
from engine.metrics.metrics import run_metrics
from engine.runtime.measuring.measured_passes import measure_passes, shapes_for
from engine.simulator.simulator import simulate
from engine.workload.workload import build_workload

COMPARED = ("output_tokens_per_s", "ttft_p50_s", "decode_pass_p50_s", "prefill_pass_p50_s", "duration_s")
ARRIVALS = ("closed", "poisson")
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Compared:
    """One run and the same run simulated."""

    measured: Figures
    simulated: Figures


def main() -> None:
    args = _arguments()
    calibration = _calibration(args.calibration)
    with Bench(args.out, device=calibration.device.partition(":")[0]) as bench:
        results = {
            (engine, arrival): repeats
            for engine in args.engines.split(",")
            for arrival, repeats in _compare(bench, _config(args, engine), calibration, args).items()
        }
    print(_table(results))


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
    parser.add_argument("--load", type=float, default=0.6, help="share of the closed rate")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--calibration", type=Path)
    parser.add_argument("--in-turn", action="store_true", help="measure passes before and after each pair of runs")
    return parser.parse_args()


def _config(args: argparse.Namespace, engine: str) -> RunConfig:
    work = WorkloadConfig(prompts=args.mix, budget=args.budget, requests=args.requests, seed=args.seed)
    return RunConfig(
        engine=engine, model=args.model, device=args.device, execution=args.execution, timing=args.timing,
        slots=args.slots, workload=work,
    )  # fmt: skip


def _calibration(file: Path | None) -> Calibration:
    folder = lab_home() / "calibrations"
    file = file or max(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, default=None)
    if file is None:
        sys.exit(f"no calibration in {folder}; run `python -m engine calibrate`")
    return Calibration.from_json(file.read_text())


def _compare(
    bench: Bench, closed: RunConfig, calibration: Calibration, args: argparse.Namespace
) -> dict[str, list[Compared]]:
    """The pairs of all repeats, measured and simulated."""
    found: dict[str, list[Compared]] = defaultdict(list)
    poisson: RunConfig | None = None
    before = _passes(bench, closed) if args.in_turn else []
    for _ in range(args.repeats):
        measured = _run(bench, closed)
        poisson = poisson or _slower(closed, measured, args.load)
        pair = [(closed, measured), (poisson, _run(bench, poisson))]
        if args.in_turn:
            after = _passes(bench, closed)
            calibration = replace(calibration, passes=_between(before, after))
            before = after
        for arrival, (config, figures) in zip(ARRIVALS, pair, strict=True):
            found[arrival].append(Compared(figures, _simulated(config, calibration)))
    return found


def _passes(bench: Bench, config: RunConfig) -> list[MeasuredPass]:
    """One round of the engine's passes, as in `engine calibrate`."""
    loaded, device, _ = bench.warm.get(config, lambda message, share: None)
    shapes = shapes_for(device, loaded.spec.max_positions, config.execution)
    return measure_passes(config, bench.warm, shapes, lambda message: print(message, file=sys.stderr), rounds=1)


def _between(before: list[MeasuredPass], after: list[MeasuredPass]) -> tuple[MeasuredPass, ...]:
    """Each pass with the mean of its two times."""
    later = {replace(p, seconds=0.0): p.seconds for p in after}
    keys = [(replace(p, seconds=0.0), p.seconds) for p in before]
    return tuple(replace(key, seconds=(s + later[key]) / 2, samples=2) for key, s in keys if key in later)


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


def _table(results: dict[tuple[str, str], list[Compared]]) -> str:
    lines = [
        "| engine | arrivals | figure | measured | simulated | error | from … to |",
        "|---|---|---|---|---|---|---|",
    ]
    for (engine, arrival), repeats in results.items():
        for name in COMPARED:
            real = statistics.median(one.measured[name] for one in repeats)
            virtual = statistics.median(one.simulated[name] for one in repeats)
            errors = sorted(100 * (one.simulated[name] / one.measured[name] - 1) for one in repeats)
            cells = (engine, arrival, name, f"{real:.4g}", f"{virtual:.4g}", f"{statistics.median(errors):+.1f} %")
            lines.append("| " + " | ".join((*cells, f"{errors[0]:+.1f} … {errors[-1]:+.1f} %")) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
