"""The runs of a load test: each engine on the same requests at each rate, all at once, then around its capacity.

At one rate all engines get the same seeded trace: the same prompts and budgets at the same times. At saturation all
requests arrive at the start, so the queue never empties before the last admission and the completion rate is the
engine's capacity. After that, `next_points` adds two runs per engine at 0.9 and 1.1 times its capacity, with evenly
spaced requests: in a random trace, chance would hide what 10 % more or less does to the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.core.config import RunConfig
from engine.core.errors import FieldError
from engine.core.form_rule import FormRule
from engine.core.format import exact
from engine.core.option import Choices, Option, Text
from engine.core.presets import ENGINES, PRESETS
from engine.experiments.experiment import (
    REPEATS,
    Plan,
    Point,
    PointRecord,
    check_points,
    interleaved,
    newest_records,
    summarize,
)
from engine.load.goodput import Limits
from engine.workload.arrivals import HIGHEST_RATE, LOWEST_RATE, parse_arrival, require_variation
from engine.workload.workload import build_workload

BELOW, ABOVE = 0.9, 1.1
MAX_RATES = 50
LAWS = "poisson, constant or gamma:CV (example: gamma:3)"
ENGINES_UNDER_LOAD = Option(
    default="static,continuous",
    label="Engines",
    help="engines to compare; the first is the base of ratios",
    flags=("--engines", "--engine"),
    takes=Text(examples=f"some of {', '.join(ENGINES)}"),
    metavar="A,B",
    group="load",
)
RATES = Option(
    default="1,2,3",
    label="Rates, requests/s",
    help="arrival rates in requests/s",
    flags=("--rates",),
    takes=Text(examples="0.5,1,2"),
    metavar="R,R",
    group="load",
)
LAW = Option(
    default="poisson",
    label="Arrivals",
    help=f"{LAWS}, without a rate",
    flags=("--arrival",),
    parameter="law",
    takes=Text(examples=LAWS),
    metavar="LAW",
    group="load",
)
CONFIRM = Option(
    default="yes",
    label="Confirm each capacity with two runs",
    help="skip the runs at 0.9 and 1.1 times the capacity",
    flags=("--no-confirm",),
    parameter="confirm",
    takes=Choices(("yes", "no")),
    group="load",
)
DEFAULTS = {"requests": 48}  # where a load test differs from a run

CapacityOf = Callable[[PointRecord], float | None]


def parse_rates(text: str) -> tuple[float, ...]:
    """`0.5,1,2` in requests/s, sorted. ValueError for anything else."""
    parts = [part.strip() for part in text.split(",")]
    rates = []
    for part in parts:
        try:
            rates.append(float(part))
            parse_arrival(f"poisson:{part}")
        except ValueError:
            limits = f"{exact(LOWEST_RATE)} to {exact(HIGHEST_RATE)}"
            raise FieldError(
                "rates", f"rates {text[:80]!r}: use requests/s from {limits}, for example 0.5,1,2"
            ) from None
    if len(set(rates)) < len(rates):
        raise FieldError("rates", f"rates {text!r}: name each once; use repeats to measure again")
    if len(rates) > MAX_RATES:
        raise FieldError("rates", f"rates: {len(rates)} given; use at most {MAX_RATES}")
    return tuple(sorted(rates))


def arrival_spec(law: str, rate_per_s: float) -> str:
    """The arrival spec of a law (`poisson`, `constant`, `gamma:CV`) at a rate. ValueError for any other law."""
    name, _, variation = law.strip().partition(":")
    if (name in ("poisson", "constant") and not variation) or (name == "gamma" and variation):
        if variation:
            require_variation(law, variation)
        spec = f"{name}:{rate_per_s!r}" + (f":{variation}" if variation else "")
        parse_arrival(spec)
        return spec
    raise FieldError("law", f"arrival {law!r}: use {LAWS}, without a rate")


def plan_load(
    base: RunConfig,
    *,
    experiment_id: str,
    created_at: str,
    engines: Sequence[str],
    rates_per_s: Sequence[float],
    law: str = "poisson",
    repeats: int = 1,
    limits: Limits | None = None,
    confirm: bool = True,
    label: str = "",
) -> Plan:
    """The load test of `base` over engines and rates; all other settings come from `base`.

    Only the static engine gets `form` and `returns`. `confirm` adds the runs around each engine's capacity later.
    ValueError for invalid settings and for too many runs.
    """
    REPEATS.check(repeats)
    if base.workload.requests < 1:
        raise FieldError("requests", f"requests {base.workload.requests}: use 1 or more")
    num_points = len(engines) * (len(rates_per_s) + 1 + 2 * confirm) * repeats
    check_points("rates", "arrivals", num_points, "engines, rates or repeats")
    points = []
    for rate_per_s in rates_per_s:
        spec = arrival_spec(law, rate_per_s)
        points += [load_point_of(base, engine, "rate", rate_per_s, spec) for engine in engines]
    # Last: the machine is warm, and the runs around the capacity follow directly.
    points += [load_point_of(base, engine, "saturation", None, "closed") for engine in engines]
    build_workload(points[-1].config.workload)  # reports an invalid workload before anything runs
    limits = limits or Limits()
    return Plan(
        experiment_id=experiment_id,
        kind="load",
        label=label or f"{', '.join(engines)} at {', '.join(map(exact, rates_per_s))} requests/s",
        created_at=created_at,
        settings={
            "engines": list(engines),
            "rates_per_s": list(rates_per_s),
            "law": law,
            "repeats": repeats,
            "confirm": confirm,
            "ttft_limit_s": limits.ttft_s,
            "tpot_limit_s": limits.tpot_s,
        },
        points=interleaved([replace(point, position=place) for place, point in enumerate(points)], repeats),
    )


def load_point_of(base: RunConfig, engine: str, role: str, rate_per_s: float | None, arrival: str) -> Point:
    """One engine at one rate. ValueError if the engine does not support these settings."""
    form, returns = (base.form, base.returns) if PRESETS[engine].forms_batches else (FormRule(), "stream")
    workload = replace(base.workload, arrival=arrival)
    config = replace(base, engine=engine, workload=workload, form=form, returns=returns)
    name = role if rate_per_s is None or role != "rate" else f"{rate_per_s:.6g}"
    values: dict[str, Any] = {"engine": engine, "rate_per_s": rate_per_s, "role": role}
    return Point(key=f"{engine}/{name}", position=0, repeat=0, values=values, config=config)


def next_points(plan: Plan, records: Iterable[PointRecord], capacity_of: CapacityOf) -> tuple[Point, ...]:
    """The points around each engine's capacity, which is the median over its saturation runs.

    `capacity_of` returns the capacity of a completed saturation run, or None. Empty if the plan already has these
    points or was made without `confirm`.
    """
    settings = plan.settings
    if not settings.get("confirm") or any(point.values.get("role") == "below" for point in plan.points):
        return ()
    capacities = saturation_capacities(plan, records, capacity_of)
    added: list[Point] = []
    for engine, capacity_per_s in capacities.items():
        base = next(p.config for p in plan.points if p.values["engine"] == engine)
        for role, share in (("below", BELOW), ("above", ABOVE)):
            rate_per_s = float(f"{share * capacity_per_s:.6g}")
            added.append(load_point_of(base, engine, role, rate_per_s, arrival_spec("constant", rate_per_s)))
    first = 1 + max(point.position for point in plan.points)
    return tuple(replace(p, position=first + p.position) for p in interleaved(_placed(added), settings["repeats"]))


def saturation_capacities(plan: Plan, records: Iterable[PointRecord], capacity_of: CapacityOf) -> Mapping[str, float]:
    """The median completion rate at saturation by engine, in the plan's order."""
    newest = newest_records(records)
    found: dict[str, list[float | None]] = {}
    for point in plan.points:
        record = newest.get(point.point_id)
        if point.values.get("role") == "saturation" and record is not None and record.status == "completed":
            found.setdefault(str(point.values["engine"]), []).append(capacity_of(record))
    summaries = {engine: summarize(values) for engine, values in found.items()}
    return {engine: summary.median for engine, summary in summaries.items() if summary is not None}


def _placed(points: Sequence[Point]) -> list[Point]:
    return [replace(point, position=place) for place, point in enumerate(points)]
