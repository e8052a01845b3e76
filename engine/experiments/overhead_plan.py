"""The cost of measuring: the same batches with and without a stop after each pass, in turn.

`sync` timing waits for the device after every pass; `async` reads the device's events and never waits. Both arms of a
configuration run directly one after the other, then all of them again (ABAB), so that drift affects both equally. On a
CPU a pass has been computed when it returns, so both arms are the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.core.config import MAX_SLOTS, TIMINGS, RunConfig
from engine.core.errors import FieldError
from engine.experiments.experiment import REPEATS, Plan, Point, Summary, check_points, interleaved, summarize
from engine.experiments.sweep_plan import grid_point
from engine.workload.prompts import MAX_PROMPT_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class OverheadRow:
    """One configuration: the median run duration over the completed repeats of each arm.

    `ratio` is sync / async: 1.04 means that the stops make a run 4 % slower. `ratio_low` and `ratio_high` are the
    lowest and highest ratio of neighboring repeats. Spreads are (highest - lowest) / median.
    """

    config: str
    prompt_tokens: int
    batch_size: int
    status: str
    repeats: int
    sync_s: float | None
    async_s: float | None
    sync_spread: float | None
    async_spread: float | None
    sync_tpot_s: float | None
    async_tpot_s: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    error: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def parse_configs(text: str) -> tuple[tuple[int, int], ...]:
    """`p256:8,p16:512`: prompt tokens and batch size of each. ValueError for anything else."""
    configs = []
    for part in text.split(","):
        match = re.fullmatch(r"p(\d{1,9}):(\d{1,9})", part.strip(), re.ASCII)
        if match is None:
            raise FieldError(
                "configs", f"configs {part.strip()!r:.60}: use prompt length and batch size, for example p256:8,p16:512"
            )
        tokens, size = int(match[1]), int(match[2])
        if not (1 <= tokens <= MAX_PROMPT_TOKENS and 1 <= size <= MAX_SLOTS):
            raise FieldError(
                "configs",
                f"configs {part.strip()!r}: use prompts of 1 to {MAX_PROMPT_TOKENS:,} tokens and batches of 1 to "
                f"{MAX_SLOTS:,} rows, for example p256:8",
            )
        configs.append((tokens, size))
    if len(set(configs)) < len(configs):
        raise FieldError("configs", f"configs {text!r:.60}: name each once; use repeats to measure again")
    return tuple(configs)


def plan_overhead(
    base: RunConfig, *, experiment_id: str, created_at: str, configs: str, repeats: int = 1, label: str = ""
) -> Plan:
    """Both timings of each of `configs`; all other settings come from `base`. ValueError for invalid settings."""
    pairs = parse_configs(configs)
    REPEATS.check(repeats)
    check_points("configs", "overhead", len(TIMINGS) * len(pairs) * repeats, "configs or repeats")
    points = [_point(base, tokens, size, timing) for tokens, size in pairs for timing in TIMINGS]
    placed = [replace(point, position=place) for place, point in enumerate(points)]
    return Plan(
        experiment_id=experiment_id,
        kind="overhead",
        label=label or f"{base.engine}, {configs}",
        created_at=created_at,
        settings={"configs": configs, "repeats": repeats},
        points=interleaved(placed, repeats),
    )


def overhead_rows(points: Sequence[Mapping[str, Any]]) -> list[OverheadRow]:
    """One row per configuration, in the order of `points` (rows of `engine.experiments.experiment.point_rows`)."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for point in points:
        groups.setdefault(str(point["config"]), []).append(point)
    return [_row(config, group) for config, group in groups.items()]


def _row(config: str, group: Sequence[Mapping[str, Any]]) -> OverheadRow:
    bad = next((p for p in group if p["status"] != "completed"), None)
    sync, free = (_arm(group, timing, "duration_s") for timing in TIMINGS)
    sync_tpot, free_tpot = (_summary(_arm(group, timing, "tpot_p50_s")) for timing in TIMINGS)
    sync_s, async_s = _summary(sync), _summary(free)
    paired = summarize(sync[i] / free[i] for i in sync if free.get(i))
    return OverheadRow(
        config=config,
        prompt_tokens=int(group[0]["prompt_tokens"]),
        batch_size=int(group[0]["batch_size"]),
        status="completed" if bad is None else str(bad["status"]),
        repeats=len({point["repeat"] for point in group}),
        sync_s=_median(sync_s),
        async_s=_median(async_s),
        sync_spread=None if sync_s is None else sync_s.spread,
        async_spread=None if async_s is None else async_s.spread,
        sync_tpot_s=_median(sync_tpot),
        async_tpot_s=_median(free_tpot),
        ratio=sync_s.median / async_s.median if sync_s and async_s and async_s.median else None,
        ratio_low=None if paired is None else paired.low,
        ratio_high=None if paired is None else paired.high,
        error=None if bad is None else bad.get("error"),
    )


def _arm(group: Sequence[Mapping[str, Any]], timing: str, name: str) -> dict[int, float]:
    """A metric of one timing's completed runs, by repeat."""
    mine = [p for p in group if p["timing"] == timing and p["status"] == "completed"]
    return {int(p["repeat"]): float(p[name]) for p in mine if p.get(name) is not None}


def _summary(arm: Mapping[int, float]) -> Summary | None:
    return summarize(arm.values())


def _median(summary: Summary | None) -> float | None:
    return None if summary is None else summary.median


def _point(base: RunConfig, prompt_tokens: int, batch_size: int, timing: str) -> Point:
    uniform = grid_point(base, prompt_tokens, batch_size)
    config = f"p{prompt_tokens}:{batch_size}"
    return replace(
        uniform,
        key=f"{uniform.values['engine']}/{config}/{timing}",
        values={
            **{name: uniform.values[name] for name in ("engine", "prompts", "prompt_tokens", "batch_size")},
            "config": config,
            "timing": timing,
        },
        config=replace(uniform.config, timing=timing),
    )
