"""Compare two checkouts on one GPU: same tokens, decode gap by batch size, closed load.

    python -m benchmarks.same_tokens_and_speed --before DIR --after DIR [--rows 1,32,256] [--turns 2] [--limit-s 400]

Each turn runs `benchmarks.decode_gap` in both checkouts, then the closed load of `benchmarks.cuda_layouts` in both,
each time in a new process (before, after, before, after): drift affects both equally. A turn that would end after
--limit-s does not start. Prints one line per batch size: the medians of both checkouts, their ratio, and whether every
run delivered the same tokens. Exits with 1 if a run fails or tokens differ. --dry prints the commands.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cuda_runs import numbers
from engine.runlog.reader import RunLogReader

SIDES = ("before", "after")
# Benchmark, how its figure is named in the table, the total that holds the figure, and the figure's factor.
FIGURES = {
    "decode_gap": ("decode gap p50, ms", "itl_p50_s", 1e3),
    "cuda_layouts": ("closed load, requests/s", "requests_per_s", 1.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One recorded run: its figure, and each request's token ids."""

    benchmark: str
    side: str
    rows: int
    figure: float
    tokens: dict[int, list[int]]


def main() -> int:
    args = _arguments()
    if args.dry:
        for benchmark, side in _order():
            steps = command(args, benchmark, Path(f"OUT/1-{benchmark}-{side}"))
            print(f"cd {getattr(args, side)} && {shlex.join(steps)}")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = run_turns(args, args.out or Path(scratch))
    lines = compare(outcomes)
    print(json.dumps(lines) if args.json else as_table(lines))
    return 0 if lines and all(line["different_requests"] == 0 for line in lines) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="the first checkout")
    parser.add_argument("--after", type=Path, required=True, help="the second checkout")
    parser.add_argument("--turns", type=int, default=2, help="how often each checkout runs each benchmark")
    parser.add_argument("--limit-s", type=float, default=400.0, help="start no turn that would end later than this")
    parser.add_argument("--rows", type=numbers, default=numbers("1,32,256"), help="batch sizes of the decode gap")
    parser.add_argument("--slots", type=int, default=256, help="slots of the closed load")
    parser.add_argument("--requests", type=int, default=400, help="requests of the closed load")
    parser.add_argument("--model", default="qwen2.5-1.5b-random")
    parser.add_argument("--engine", default="paged")
    parser.add_argument("--execution", default="graph")
    parser.add_argument("--timing", default="async")
    parser.add_argument("--device", default=None, help="cpu: try the script without a GPU (both checkouts take it)")
    parser.add_argument("--out", type=Path, default=None, help="keep the run folders here")
    parser.add_argument("--dry", action="store_true", help="print one turn's commands and stop")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _order() -> list[tuple[str, str]]:
    return [(benchmark, side) for benchmark in FIGURES for side in SIDES]


def command(args: argparse.Namespace, benchmark: str, out: Path) -> list[str]:
    shared = ["--out", str(out), "--model", args.model, "--execution", args.execution, "--timing", args.timing]
    if args.device:
        shared += ["--device", args.device]
    start = [sys.executable, "-m", f"benchmarks.{benchmark}"]
    if benchmark == "decode_gap":
        return [*start, *shared, "--engine", args.engine, "--rows", ",".join(map(str, args.rows))]
    load = ["--engines", args.engine, "--slots", str(args.slots), "--requests", str(args.requests)]
    return [*start, "closed", *shared, *load]


def run_turns(args: argparse.Namespace, out: Path) -> list[Outcome]:
    started, longest = time.monotonic(), 0.0
    outcomes: list[Outcome] = []
    for turn in range(1, args.turns + 1):
        turn_started = time.monotonic()
        if turn_started - started + longest > args.limit_s:
            print(f"Turn {turn} skipped: it would end after {args.limit_s:.0f} s.", file=sys.stderr)
            break
        for benchmark, side in _order():
            folder = (out / f"{turn}-{benchmark}-{side}").resolve()
            outcomes += run_one(command(args, benchmark, folder), getattr(args, side), folder, benchmark, side)
        longest = max(longest, time.monotonic() - turn_started)
        print(f"After turn {turn}:\n{as_table(compare(outcomes))}", file=sys.stderr, flush=True)
    return outcomes


def run_one(command: list[str], checkout: Path, folder: Path, benchmark: str, side: str) -> list[Outcome]:
    """One benchmark in one checkout. Raises SystemExit with the end of its output if it fails."""
    started = time.monotonic()
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    print(f"{benchmark} {side}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    if done.returncode != 0:
        raise SystemExit(f"{benchmark} failed in {checkout}:\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}")
    return [read_outcome(RunLogReader(run), benchmark, side) for run in sorted(folder.iterdir()) if run.is_dir()]


def read_outcome(log: RunLogReader, benchmark: str, side: str) -> Outcome:
    info, result = log.run_info(), log.result()
    if result is None or result["status"] != "completed":
        raise SystemExit(f"{benchmark} {side}: a run of {info['config']['slots']} slots did not complete: {result}")
    tokens: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in log.table("tokens").select(["request_id", "token_index", "token_id"]).to_pylist():
        tokens[row["request_id"]].append((row["token_index"], row["token_id"]))
    _, total, factor = FIGURES[benchmark]
    return Outcome(
        benchmark=benchmark,
        side=side,
        rows=info["config"]["slots"],
        figure=factor * result["totals"][total],
        tokens={request: [token for _, token in sorted(rows)] for request, rows in tokens.items()},
    )


def compare(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """One line per benchmark and batch size. Every run is compared, token for token, with the first run before."""
    groups: dict[tuple[str, int], dict[str, list[Outcome]]] = defaultdict(lambda: {side: [] for side in SIDES})
    for outcome in outcomes:
        groups[outcome.benchmark, outcome.rows][outcome.side].append(outcome)
    lines = []
    for (benchmark, rows), sides in groups.items():
        first = sides["before"][0]
        before, after = (statistics.median(o.figure for o in sides[side]) for side in SIDES)
        different = {side: max(count_different(first.tokens, o.tokens) for o in sides[side]) for side in SIDES}
        lines.append(
            {
                "figure": FIGURES[benchmark][0],
                "rows": rows,
                "before": before,
                "after": after,
                "ratio": after / before,
                "runs": [[round(o.figure, 4) for o in sides[side]] for side in SIDES],
                "requests": len(first.tokens),
                "different_requests": different["after"],
                "different_before": different["before"],
            }
        )
    return lines


def count_different(first: dict[int, list[int]], second: dict[int, list[int]]) -> int:
    """How many requests do not have the same tokens in both runs."""
    return sum(first.get(request) != second.get(request) for request in first.keys() | second.keys())


def as_table(lines: list[dict[str, Any]]) -> str:
    out = [f"{'figure':<24}{'rows':>6}{'before':>10}{'after':>10}{'ratio':>8}  tokens"]
    for line in lines:
        same = f"same in all requests ({line['requests']})"
        if line["different_requests"]:
            same = f"different in {line['different_requests']} of {line['requests']} requests"
        if line["different_before"]:
            same += f" (between runs before: {line['different_before']})"
        figures = f"{line['before']:>10.3f}{line['after']:>10.3f}{line['ratio']:>8.3f}"
        out.append(f"{line['figure']:<24}{line['rows']:>6}{figures}  {same}  {line['runs']}")
    return "\n".join(out)


if __name__ == "__main__":
    sys.exit(main())
