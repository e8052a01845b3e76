"""The accuracy of the rule in `engine.load.queue_growth`, on simulated servers with known capacity.

    python -m benchmarks.queue_rule [--seeds 5]

Static and continuous with 4 to 32 slots and 48 to 256 requests, with equal and mixed budgets, each at least six full
batches. A decode pass takes one second at any batch size, a prefill takes none. The capacity is the rate with all
requests at once. Prints a Markdown table: for constant and Poisson arrivals at shares of the capacity, the number of
runs in which the rule finds a growing queue.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import replace

import numpy as np

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.passes import PassKind
from engine.hardware.model_presets import model_shape
from engine.hardware.roofline import ModelShape, PassStats
from engine.load.load_point import LoadPoint, load_point
from engine.simulator.simulator import simulate
from engine.workload.workload import build_workload

SERVERS = ((4, 48), (8, 48), (8, 128), (16, 128), (32, 256))  # slots, requests
BUDGETS = ("32", "16-64")
TRACES_OF_EACH = 3
SHARES = {"constant": (0.9, 1.1), "poisson": (0.5, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.5, 2.0)}


class SecondAPass:
    """A decode pass takes one second, a prefill none."""

    host_s = 0.0

    def pass_s(self, facts: PassStats) -> float:
        return 1.0 if facts.kind is PassKind.DECODE else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    seeds = np.random.SeedSequence(0).generate_state(parser.parse_args().seeds * TRACES_OF_EACH)
    shape = model_shape("tiny-random", dtype="fp32")
    grew: dict[tuple[str, float], list[bool]] = defaultdict(list)
    for seed in seeds.tolist():
        for engine in ("static", "continuous"):
            for slots, requests in SERVERS:
                for budget in BUDGETS:
                    work = WorkloadConfig(prompts="p16", budget=budget, requests=requests, seed=seed)
                    _count(RunConfig(engine=engine, slots=slots, workload=work), shape, grew)
    print("| arrivals | share of the capacity | runs | queue grows |\n|---|---|---|---|")
    for (law, share), found in grew.items():
        print(f"| {law} | {share:g} | {len(found)} | {sum(found)} |")


def _count(config: RunConfig, shape: ModelShape, grew: dict[tuple[str, float], list[bool]]) -> None:
    capacity_per_s = _served(config, "closed", shape).achieved_per_s
    assert capacity_per_s is not None
    for law, shares in SHARES.items():
        for share in shares:
            grows = _served(config, f"{law}:{share * capacity_per_s!r}", shape).grows
            assert grows is not None
            grew[law, share].append(grows)


def _served(config: RunConfig, arrival: str, shape: ModelShape) -> LoadPoint:
    config = replace(config, workload=replace(config.workload, arrival=arrival))
    return load_point(simulate(config, build_workload(config.workload), SecondAPass(), shape).record())


if __name__ == "__main__":
    main()
