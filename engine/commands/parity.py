"""`engine parity`: compares every engine's tokens with serial's and with transformers', case by case.

In fp32 tokens must be equal. In bf16 and fp16 near ties decide tokens, so logits are compared instead: an engine's
error against exact logits, and the error of transformers' sdpa in the same dtype.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.commands import options
from engine.commands.experiments import tell
from engine.commands.parity_cases import make_cases
from engine.core.config import SETTINGS, RunConfig
from engine.core.errors import FieldError
from engine.core.format import number
from engine.core.option import Option, Text, settings_of
from engine.core.presets import ENGINES, parse_engines
from engine.core.terminal import table_lines
from engine.runlog.device_hold import hold_device

if TYPE_CHECKING:
    from engine.runtime.measuring.parity import ParityCase

ALL_ENGINES = "all"
COMPARED_ENGINES = Option(
    default=ALL_ENGINES,
    label="Engines",
    help=f"engines to compare: {ALL_ENGINES}, or some of {', '.join(ENGINES)}",
    flags=("--engines",),
    takes=Text(examples=f"{ALL_ENGINES}, or some of {', '.join(ENGINES)}"),
    metavar="LIST",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model_options(parser)
    compared = (COMPARED_ENGINES, SETTINGS["execution"], SETTINGS["timing"], SETTINGS["seed"])
    options.add_options(parser, compared)
    parser.add_argument(
        "--case",
        action="append",
        metavar="TEXT",
        help="run only cases whose name contains this text; repeatable (default all)",
    )
    parser.add_argument("--no-generate", action="store_true", help="do not compare with transformers' generate")
    parser.add_argument(
        "--no-generate-batch", action="store_true", help="do not compare with transformers' continuous batching"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object with cases and all_equal (bf16, fp16: all_within)"
    )


def run(args: argparse.Namespace) -> int:
    """0 when all cases are equal (bf16 and fp16: within the allowed error), else 1."""
    engines = parse_engines(args.engines, also=(ALL_ENGINES,))
    engines = ENGINES if engines == (ALL_ENGINES,) else engines
    config = RunConfig(**settings_of(RunConfig, vars(args)))
    cases = _chosen(make_cases(args.seed), args.case)

    from engine.runtime.environment import use_available_threads, use_exact_matmuls
    from engine.runtime.models.loading import resolve_device, resolve_dtype

    use_available_threads()
    use_exact_matmuls()
    device = resolve_device(args.device)
    in_tokens = resolve_dtype(args.dtype, device).itemsize == 4
    oracles = [
        name
        for name, left_out in (("generate", args.no_generate), ("generate_batch", args.no_generate_batch))
        if not left_out
    ]
    with hold_device(str(device), "parity", on_wait=lambda taken: tell(f"waiting: {taken}")):
        rows = _token_rows(cases, engines, config, oracles) if in_tokens else _logit_rows(cases, engines, config)
    key, verdict = ("equal", "all_equal") if in_tokens else ("within", "all_within")
    passed = all(row[key] for row in rows)
    if args.json:
        print(json.dumps({"model": args.model, "execution": args.execution, "cases": rows, verdict: passed}))
    else:
        _print_table(rows, passed, in_tokens=in_tokens)
    return 0 if passed else 1


def _chosen(cases: list[ParityCase], texts: list[str] | None) -> list[ParityCase]:
    """The cases whose name contains one of the texts. ValueError for a text that matches no case."""
    if texts is None:
        return cases
    for text in texts:
        if not any(text in case.name for case in cases):
            raise FieldError(
                "case", f"case {text!r}: no case matches; the cases are {'; '.join(c.name for c in cases)}"
            )
    return [case for case in cases if any(text in case.name for text in texts)]


def _token_rows(
    cases: list[ParityCase], engines: Sequence[str], config: RunConfig, oracles: list[str]
) -> list[dict[str, Any]]:
    from engine.runtime.measuring.parity import References, run_case
    from engine.runtime.prepared_run import WarmModel

    warm = WarmModel()
    references = References(config, warm, oracles, tell)
    rows = []
    for case in cases:
        tell(f"parity: {case.name} …")
        rows += run_case(case, engines, config, warm, references)
    return rows


def _logit_rows(cases: list[ParityCase], engines: Sequence[str], config: RunConfig) -> list[dict[str, Any]]:
    from engine.runtime.measuring.logit_error import ExactLogits, judge_case
    from engine.runtime.measuring.parity import References
    from engine.runtime.prepared_run import WarmModel

    warm, exact_logits = WarmModel(), ExactLogits()
    references = References(config, warm, (), tell)
    rows = []
    for case in cases:
        tell(f"parity: {case.name} …")
        rows += judge_case(case, engines, config, warm, references, exact_logits)
    return rows


def _print_table(rows: list[dict[str, Any]], passed: bool, *, in_tokens: bool) -> None:
    cells = [[row["name"], row["engine"], _verdict(row) if in_tokens else _error(row)] for row in rows]
    for line in table_lines(cells, "lll"):
        print(line)
    if in_tokens:
        print("all equal" if passed else "NOT all equal: --json lists the tokens and logit gaps")
    else:
        print("all within the allowed error" if passed else "NOT all within the allowed error")


def _verdict(row: dict[str, Any]) -> str:
    """`equal`, or how many tokens differ and how many of those are near ties."""
    if row["equal"]:
        return "equal"
    found = [d for differences in row["differences"].values() for d in differences]
    ties = sum(d["near_tie"] for d in found)
    return f"UNEQUAL at {len(found)} tokens, {ties} of them near ties within rounding"


def _error(row: dict[str, Any]) -> str:
    verdict = "within" if row["within"] else "NOT within"
    ours, sdpa, ratio = (number(row[name]) for name in ("logit_error", "logit_error_sdpa", "ratio"))
    return f"logit error {ours}, sdpa {sdpa}: ratio {ratio}, {verdict}"
