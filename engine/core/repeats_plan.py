"""What repeats measure: one engine or several on the same requests, all of them once, then all of them again (ABAB).

A point is an engine with its configuration, and its key is the engine's name: what a pair on Bench runs once, run some
number of times, so that what a second run would have shown differently is seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.config import RunConfig
from engine.core.experiment import ExperimentKind, Plan, Point, interleaved

KIND: ExperimentKind = "repeats"
MAX_REPEATS = 1_000
MAX_POINTS = 2_000
ALIKE = ("workload", "model", "device", "dtype")  # what engines that are set side by side have in common


def check_repeats(repeats: int) -> None:
    """ValueError, one clear line, for a number of repeats that cannot be asked for."""
    if not 1 <= repeats <= MAX_REPEATS:
        raise ValueError(f"repeats {repeats}: use 1 to {MAX_REPEATS:,}")


def plan_repeats(
    configs: Sequence[RunConfig], *, experiment_id: str, created_at: str, repeats: int, label: str = ""
) -> Plan:
    """Each of `configs`, an engine each, `repeats` times, interleaved; the first is the base of ratios.

    ValueError, one clear line, for engines that are named twice or not on the same requests, model and device, and for
    more runs than an experiment takes.
    """
    check_repeats(repeats)
    engines = [config.engine for config in configs]
    if not engines:
        raise ValueError("engines: name one or more to repeat")
    twice = next((name for name in engines if engines.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"engines: {twice} is named twice; name each once, and ask for repeats to run it again")
    for name in ALIKE:
        if any(getattr(config, name) != getattr(configs[0], name) for config in configs):
            raise ValueError(f"{name}: engines are set side by side on the same {', '.join(ALIKE)}")
    if len(configs) * repeats > MAX_POINTS:
        raise ValueError(f"repeats {repeats} of {len(configs)} engines: over {MAX_POINTS:,} runs; use fewer")
    points = [
        Point(key=config.engine, position=place, repeat=0, values={"engine": config.engine}, config=config)
        for place, config in enumerate(configs)
    ]
    return Plan(
        experiment_id=experiment_id,
        kind=KIND,
        label=label or f"{', '.join(engines)}, {repeats:,} repeat{'' if repeats == 1 else 's'}",
        created_at=created_at,
        settings={"repeats": repeats},
        points=interleaved(points, repeats),
    )
