"""The plan of a sweep: a grid of prompt lengths and batch sizes, and ragged batches with uniform controls.

A grid point is one uniform batch: B requests with the same prompt length and output tokens, all arriving at the start,
in B slots. A ragged batch draws its prompts from a mix of lengths. Its control is a uniform batch with as many rows,
where every prompt has the length of the longest ragged prompt. Both attend over the same width in every pass, so the
difference is the cost of mixed lengths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.core.config import MAX_SLOTS, RunConfig
from engine.core.errors import FieldError
from engine.core.option import Option, Text
from engine.core.request import ExactPrompt
from engine.experiments.experiment import REPEATS, Plan, Point, check_points, interleaved
from engine.workload.budgets import largest_budget, parse_budget
from engine.workload.prompts import LENGTH_FORMS, MIX_FORMS, parse_lengths
from engine.workload.workload import build_workload

PROMPT_GRID = Option(
    default="p16,p64",
    label="Prompt lengths",
    help="prompt lengths in tokens",
    flags=("--prompts",),
    takes=Text(examples="p16,p64,p256 (one line each in the figures)"),
    metavar="P16,P64",
    group="grid",
)
BATCH_SIZES = Option(
    default="1,2,4,8",
    label="Batch sizes B",
    help="rows per batch",
    flags=("--batch-size",),
    takes=Text(examples="1,2,4,8,16,32"),
    metavar="1,2,4",
    group="grid",
)
RAGGED_MIX = Option(
    default=None,
    label="Ragged mix",
    help="ragged batches with these prompt lengths, each with a uniform control of the same width",
    flags=("--mix",),
    takes=Text(examples="p16,p64,p256 or p16:3,p4096:1"),
    metavar="P16:3,P4096:1",
    group="grid",
)
DEFAULTS = {"engine": "static", "budget": "32"}  # where a sweep differs from a run


def parse_batch_sizes(text: str) -> tuple[int, ...]:
    """`1,2,4,8`, in the given order. ValueError for anything else."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not re.fullmatch(r"\d{1,9}", part, re.ASCII) or not 1 <= int(part) <= MAX_SLOTS:
            raise FieldError(
                "batch_size", f"batch size {part!r}: use rows from 1 to {MAX_SLOTS:,}, for example 1,2,4,8"
            )
    sizes = tuple(int(part) for part in parts)
    return _each_once(sizes, BATCH_SIZES)


def parse_prompt_grid(text: str) -> tuple[int, ...]:
    """`p16,p64`: prompt lengths in tokens, in the given order. ValueError for anything else."""
    if ":" in text:
        raise FieldError("prompts", f"prompts {text!r}: use {LENGTH_FORMS}; weights belong in the mix")
    return _each_once(parse_lengths(text, "prompts", LENGTH_FORMS).lengths, PROMPT_GRID)


def plan_sweep(
    base: RunConfig,
    *,
    experiment_id: str,
    created_at: str,
    prompts: str | None,
    batch_sizes: str,
    mix: str | None = None,
    repeats: int = 1,
    label: str = "",
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """The sweep of `base` over a grid, a mix, or both; it sets prompts, requests and slots, `base` the rest.

    `settings` are stored with the plan, next to the grid's own. ValueError for invalid settings and too many runs.
    """
    lengths = () if prompts is None else parse_prompt_grid(prompts)
    sizes = parse_batch_sizes(batch_sizes)
    if not lengths and mix is None:
        raise FieldError(
            "prompts", "prompts: name prompt lengths, for example p16,p64, or a mix, for example p16:3,p4096:1"
        )
    REPEATS.check(repeats)
    num_points = len(sizes) * (len(lengths) + (0 if mix is None else 2)) * repeats
    check_points("batch_size", "sweep", num_points, "prompt lengths, batch sizes or repeats")
    points = [grid_point(base, length, size) for length in lengths for size in sizes]
    if mix is not None:
        points += [point for size in sizes for point in ragged_points(base, mix, size)]
    placed = [replace(point, position=place) for place, point in enumerate(points)]
    prompts_text = ", ".join(filter(None, (prompts, mix)))
    return Plan(
        experiment_id=experiment_id,
        kind="sweep",
        label=label or f"{base.engine}, {prompts_text}",
        created_at=created_at,
        settings={"prompts": prompts, "mix": mix, "batch_sizes": list(sizes), "repeats": repeats, **(settings or {})},
        points=interleaved(placed, repeats),
    )


def grid_point(base: RunConfig, prompt_tokens: int, batch_size: int, role: str = "point") -> Point:
    """One uniform batch, every row with the largest budget of the workload."""
    budget = _uniform_budget(base.workload.budget)
    config = _closed_batch(base, f"p{prompt_tokens}", batch_size)
    config = replace(config, workload=replace(config.workload, budget=budget))
    return _point(config, prompt_tokens, role)


def ragged_points(base: RunConfig, mix: str, batch_size: int) -> tuple[Point, Point]:
    """A ragged batch of `batch_size` rows drawn from `mix`, and the uniform batch of the same width."""
    parse_lengths(mix, RAGGED_MIX.parameter, MIX_FORMS)
    config = _closed_batch(base, mix, batch_size)
    requests = build_workload(config.workload).requests
    longest = max(spec.prompt.tokens for spec in requests if isinstance(spec.prompt, ExactPrompt))
    return _point(config, longest, "ragged"), grid_point(base, longest, batch_size, "control")


def _closed_batch(base: RunConfig, prompts: str, batch_size: int) -> RunConfig:
    workload = replace(base.workload, prompts=prompts, prompt_lines=(), requests=batch_size, arrival="closed")
    return replace(base, slots=batch_size, workload=workload)


def _uniform_budget(text: str) -> str:
    """One budget for all rows: the largest of the workload; `eos` stays, since the model ends the answer."""
    budget = parse_budget(text)
    return str(largest_budget(budget)) if budget.ignore_eos else text


def _point(config: RunConfig, prompt_tokens: int, role: str) -> Point:
    values: dict[str, Any] = {
        "engine": config.engine,
        "prompts": config.workload.prompts,
        "prompt_tokens": prompt_tokens,
        "batch_size": config.slots,
        "role": role,
    }
    suffix = "" if role == "point" else f"/{role}"
    key = f"{config.engine}/{config.workload.prompts}/b{config.slots}{suffix}"
    return Point(key=key, position=0, repeat=0, values=values, config=config)


def _each_once(values: Sequence[int], option: Option) -> tuple[int, ...]:
    for value in values:
        if values.count(value) > 1:
            name = option.flag.removeprefix("--").replace("-", " ")
            raise FieldError(
                option.parameter,
                f"{name}: {value} is named twice; name each once and use repeats to measure again",
            )
    return tuple(values)
