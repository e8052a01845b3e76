"""`engine parity`: every engine's tokens against serial's and against transformers' generate, case by case."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.commands import options
from engine.core.config import ENGINES, RunConfig, WorkloadConfig
from engine.core.home import device_lock
from engine.core.workload import Workload, build_workload
from engine.runlog.locks import hold

if TYPE_CHECKING:
    from engine.runtime.parity import ParityCase


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model_options(parser)
    parser.add_argument(
        "--engines", default=",".join(ENGINES), metavar="LIST", help=f"of {', '.join(ENGINES)} (default all of them)"
    )
    parser.add_argument("--timing", default="sync", choices=("sync", "async"), help="default sync")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument("--no-generate", action="store_true", help="compare with serial only")
    parser.add_argument("--json", action="store_true", help="one JSON object: cases, all_equal")


def run(args: argparse.Namespace) -> int:
    """0 when all are equal, 1 when one is not."""
    engines = [name.strip() for name in args.engines.split(",")]
    for name in engines:
        if name not in ENGINES:
            raise ValueError(f"engines {name!r}: use some of {', '.join(ENGINES)}")
    config = RunConfig(model=args.model, device=args.device, dtype=args.dtype, timing=args.timing)
    cases = make_cases(args.seed)

    from engine.runtime.environment import use_available_threads
    from engine.runtime.models import resolve_device
    from engine.runtime.parity import run_case
    from engine.runtime.prepared_run import WarmModel

    use_available_threads()
    warm = WarmModel()
    rows = []
    lock = hold(
        device_lock(str(resolve_device(args.device))),
        purpose="parity",
        on_wait=lambda holder: print(f"waiting: the device is taken: {holder}", file=sys.stderr),
    )
    with lock:
        for case in cases:
            print(f"parity: {case.name} …", file=sys.stderr)
            rows += run_case(case, engines, config, warm, with_generate=not args.no_generate)
    all_equal = all(row["equal"] for row in rows)
    if args.json:
        print(json.dumps({"model": args.model, "cases": rows, "all_equal": all_equal}))
    else:
        for row in rows:
            print(f"{row['name']:<34} {row['engine']:<12} {_verdict(row)}")
        print("all equal" if all_equal else "NOT all equal: --json shows where, and by how much the logits differ")
    return 0 if all_equal else 1


def _verdict(row: dict[str, Any]) -> str:
    """`equal`, or at how many tokens it parted, and whether rounding alone explains them."""
    if row["equal"]:
        return "equal"
    found = [d for differences in row["differences"].values() for d in differences]
    ties = sum(d["near_tie"] for d in found)
    return f"UNEQUAL at {len(found)} tokens, {ties} of them near ties within rounding"


def make_cases(seed: int) -> list[ParityCase]:
    """Single, uniform, ragged, the longest prompt ending first, a queue through 4 slots: closed, and as it arrives."""
    from engine.runtime.parity import ParityCase

    ragged = _workload("p16,p40,p64,p128", 6, "8-32", seed=seed)
    return [
        ParityCase(name="single", workload=_workload("chat", 1, "24", seed=seed), slots=1),
        ParityCase(name="uniform 4", workload=_workload("p64", 4, "24", seed=seed), slots=4),
        ParityCase(name="ragged", workload=ragged, slots=6),
        ParityCase(name="ragged, longest prompt ends first", workload=_longest_ends_first(ragged), slots=6),
        ParityCase(name="8 through 4 slots, closed", workload=_workload("chat", 8, "8-48", seed=seed), slots=4),
        ParityCase(
            name="8 through 4 slots, poisson",
            workload=_workload("chat", 8, "8-48", seed=seed, arrival="poisson:2"),
            slots=4,
        ),
    ]


def _workload(prompts: str, requests: int, budget: str, *, seed: int, arrival: str = "closed") -> Workload:
    return build_workload(WorkloadConfig(prompts=prompts, requests=requests, budget=budget, arrival=arrival, seed=seed))


def _longest_ends_first(workload: Workload) -> Workload:
    """The same prompts with budgets that shrink as prompts grow: the width that all attend over loses its owner."""
    longest = max(_tokens(s.prompt) for s in workload.requests)
    specs = tuple(
        replace(s, budget_tokens=4 + 28 * (longest - _tokens(s.prompt)) // longest) for s in workload.requests
    )
    return replace(workload, requests=specs)


def _tokens(prompt: object) -> int:
    tokens = getattr(prompt, "tokens", None)
    assert isinstance(tokens, int)
    return tokens
