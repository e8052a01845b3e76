"""The questions that can be predicted before a job starts: for one run, for engines side by side, for a plan's points.

A choice is a question that may still need its metric. The choices of a plan follow from the plan only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from engine.experiments.experiment import Plan, Point
from engine.predictions.prediction import MEASURES, Question

# The most common metrics, offered first.
USUAL = (
    "output_tokens_per_s", "duration_s", "ttft_p50_s", "ttft_p95_s", "queue_wait_p50_s", "tpot_p50_s", "itl_p95_s",
    "itl_max_s", "itl_max_over_p50", "e2e_p50_s", "requests_per_s", "decode_pass_p50_s", "prefill_share",
    "dead_fraction", "padding_fraction", "kv_unused_fraction", "preemptions", "peak_memory_bytes",
)  # fmt: skip
MAX_POINTS = 200  # points offered by name; a larger plan has more


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One predictable figure. `engines` are those that must run to measure it."""

    label: str
    measure: str
    key: str = ""
    base: str = ""
    engine: str = ""
    prompts: str = ""
    engines: tuple[str, ...] = ()

    @property
    def needs_metric(self) -> bool:
        return "metric" in MEASURES[self.measure].needs

    def question(self, metric: str = "") -> Question:
        """The question, with its metric if it needs one. ValueError if that is missing."""
        return Question(
            measure=self.measure,
            metric=metric if self.needs_metric else "",
            key=self.key,
            base=self.base,
            engine=self.engine,
            prompts=self.prompts,
        )


def of_engines(engines: Sequence[str]) -> list[Choice]:
    """For engines on the same requests: a metric of each, and its ratio for each pair."""
    each = [Choice(label=f"{name}: a metric", measure="metric", key=name, engines=(name,)) for name in engines]
    pairs = [
        Choice(
            label=f"{one} over {other}: a metric's ratio", measure="ratio", key=one, base=other, engines=(one, other)
        )
        for one, other in permutations(engines, 2)
    ]
    return each + pairs


def of_plan(plan: Plan) -> list[Choice]:
    """For an experiment: the figures of its kind first, then a metric of each point."""
    firsts = list({point.key: point for point in sorted(plan.points, key=lambda p: p.position)}.values())[:MAX_POINTS]
    metrics = [Choice(label=f"{point.key}: a metric", measure="metric", key=point.key) for point in firsts]
    match plan.kind:
        case "sweep":
            return _of_sweep(firsts) + metrics
        case "load":
            return _of_load(firsts) + metrics
        case "overhead":
            return _of_overhead(firsts) + metrics
        case "repeats":
            return of_engines([point.key for point in firsts])


def _of_sweep(points: Sequence[Point]) -> list[Choice]:
    grid = [point for point in points if point.values.get("role") == "point"]
    groups = dict.fromkeys((str(p.values["engine"]), str(p.values["prompts"])) for p in grid)
    largest = [
        Choice(label=f"Largest batch of {e} on {p} that completes", measure="largest_batch", engine=e, prompts=p)
        for e, p in groups
    ]
    with_single = {g for p in grid if p.values["batch_size"] == 1 for g in [(p.values["engine"], p.values["prompts"])]}
    many = [p for p in grid if p.values["batch_size"] > 1 and (p.values["engine"], p.values["prompts"]) in with_single]
    speedups = [Choice(label=f"{p.key}: speed-up over one at a time", measure="speedup", key=p.key) for p in many]
    shares = [Choice(label=f"{p.key}: share of B x the B=1 rate", measure="linear_share", key=p.key) for p in many]
    ragged = [p for p in points if p.values.get("role") == "ragged"]
    keys = {p.key for p in points}
    controls = [(p.key, _control_of(p, points)) for p in ragged]
    ratios = [_ratio(key, control, "its control") for key, control in controls if control in keys]
    return largest + speedups + shares + ratios


def _control_of(ragged: Point, points: Sequence[Point]) -> str:
    """The key of the uniform batch with as many rows and the same width; empty if the plan has none."""
    mine = [
        p.key
        for p in points
        if p.values.get("role") == "control"
        and all(p.values.get(n) == ragged.values.get(n) for n in ("engine", "batch_size", "prompt_tokens"))
    ]
    return mine[0] if mine else ""


def _of_load(points: Sequence[Point]) -> list[Choice]:
    engines = list(dict.fromkeys(str(p.values["engine"]) for p in points if p.values.get("role") == "saturation"))
    capacities = [Choice(label=f"Capacity of {name}", measure="capacity", engine=name) for name in engines]
    ratios = [
        Choice(label=f"Capacity of {one} over {other}", measure="capacity_ratio", engine=one, base=other)
        for one, other in permutations(engines, 2)
    ]
    return capacities + ratios


def _of_overhead(points: Sequence[Point]) -> list[Choice]:
    """For each configuration, one timing over the other."""
    pairs = [
        (one, other)
        for one, other in permutations(points, 2)
        if one.values.get("config") == other.values.get("config")
        and one.values.get("timing") != other.values.get("timing")
    ]
    return [_ratio(one.key, other.key, other.key) for one, other in pairs]


def _ratio(key: str, base: str, base_name: str) -> Choice:
    return Choice(label=f"{key} over {base_name}: a metric's ratio", measure="ratio", key=key, base=base)
