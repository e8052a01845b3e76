"""What repeats measure: one engine or several on the same requests, all of them once, then all of them again (ABAB).

A point is an engine with its configuration, and its key is the engine's name: what a pair on Bench runs once, run some
number of times, so that what a second run would have shown differently is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from engine.core.config import RunConfig
from engine.core.errors import FieldError
from engine.experiments.experiment import ExperimentKind, Plan, Point, check_points, check_repeats, interleaved

KIND: ExperimentKind = "repeats"
OF_AN_ENGINE = ("engine", "form", "returns")  # which engine, and what static alone reads; all else has to be alike
ALIKE = tuple(setting.name for setting in fields(RunConfig) if setting.name not in OF_AN_ENGINE)


def plan_repeats(
    configs: Sequence[RunConfig], *, experiment_id: str, created_at: str, repeats: int, label: str = ""
) -> Plan:
    """Each of `configs`, an engine each, `repeats` times, interleaved; the first is the base of ratios.

    ValueError, one clear line, for engines that are named twice or differ in more than what static alone reads, and
    for more runs than an experiment takes.
    """
    check_repeats(repeats)
    engines = [config.engine for config in configs]
    if not engines:
        raise FieldError("engines", "engines: name one or more to repeat")
    twice = next((name for name in engines if engines.count(name) > 1), None)
    if twice is not None:
        raise FieldError(
            "engines", f"engines: {twice} is named twice; name each once, and ask for repeats to run it again"
        )
    for name in ALIKE:
        if any(getattr(config, name) != getattr(configs[0], name) for config in configs):
            raise FieldError(
                name, f"{name}: engines that are set side by side have all settings alike but form and return"
            )
    check_points(f"repeats {repeats} of {len(configs)} engines", len(configs) * repeats, "engines or repeats")
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
