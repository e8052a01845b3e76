"""Checks of a plan that was read from a file: each kind's required values and settings, with the right types.

A file can be damaged, copied or written by hand. `Plan.from_dict` checks the structure; this module checks the content.
Missing settings are allowed for display; `require_settings` names those that are needed to resume.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.experiments.experiment import Plan, Point, PointId

MAX_COUNT = 2**31 - 1

ValueCheck = Callable[[Any], bool]


def is_count(value: Any, least: int = 0) -> bool:
    """Whether the value is a whole number that fits an integer column."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MAX_COUNT


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _is_positive_or_none(value: Any) -> bool:
    return value is None or _is_positive(value)


def _is_from_one(value: Any) -> bool:
    return is_count(value, 1)


def _is_list_of(check: ValueCheck) -> ValueCheck:
    return lambda value: isinstance(value, list) and all(map(check, value))


VALUES: dict[str, ValueCheck] = {
    "engine": _is_text,
    "prompts": _is_text,
    "prompt_tokens": _is_from_one,
    "batch_size": _is_from_one,
    "role": _is_text,
    "rate_per_s": _is_positive_or_none,
    "config": _is_text,
    "timing": _is_text,
}
NEEDED = {
    "sweep": ("engine", "prompts", "prompt_tokens", "batch_size", "role"),
    "load": ("engine", "role"),
    "overhead": ("engine", "prompts", "prompt_tokens", "batch_size", "config", "timing"),
    "repeats": (),
}
SETTINGS: dict[str, dict[str, ValueCheck]] = {
    "sweep": {
        "prompts": _is_text_or_none,
        "mix": _is_text_or_none,
        "batch_sizes": _is_list_of(_is_from_one),
        "repeats": _is_from_one,
        "flop_per_s": _is_positive_or_none,
        "bytes_per_s": _is_positive_or_none,
    },
    "load": {
        "engines": _is_list_of(_is_text),
        "rates_per_s": _is_list_of(_is_positive),
        "law": _is_text,
        "repeats": _is_from_one,
        "confirm": lambda value: isinstance(value, bool),
        "ttft_limit_s": _is_positive_or_none,
        "tpot_limit_s": _is_positive_or_none,
    },
    "overhead": {"configs": _is_text, "repeats": _is_from_one},
    "repeats": {"repeats": _is_from_one},
}
NEEDED_SETTINGS = {"load": ("engines", "rates_per_s", "law", "repeats", "ttft_limit_s", "tpot_limit_s")}


def check_plan(plan: Plan) -> None:
    """ValueError for the first value or setting that is wrong for the plan's kind."""
    for name, check in SETTINGS[plan.kind].items():
        if name in plan.settings and not check(plan.settings[name]):
            raise ValueError(f"settings: {name} is {plan.settings[name]!r:.60}")
    seen = set()
    for point in plan.points:
        _check_point(plan.kind, point)
        if point.point_id in seen:
            raise ValueError(f"point {point.key[:60]!r}, repeat {point.repeat}: listed twice")
        seen.add(point.point_id)


def require_settings(plan: Plan) -> None:
    """ValueError if the plan lacks a setting that its kind needs to resume."""
    missing = [name for name in NEEDED_SETTINGS.get(plan.kind, ()) if name not in plan.settings]
    if missing:
        raise ValueError(f"settings: missing {', '.join(missing)}")


def check_ids(plan: Plan, locations: Mapping[PointId, str]) -> None:
    """ValueError for the first recorded point that the plan lacks. `locations` maps each to its place in the file."""
    known = {point.point_id for point in plan.points}
    for (key, repeat), where in locations.items():
        if (key, repeat) not in known:
            raise ValueError(f"{where}: the plan has no point {key[:60]!r}, repeat {repeat}")


def _check_point(kind: str, point: Point) -> None:
    counts: Mapping[str, Any] = {"position": point.position, "repeat": point.repeat}
    for name, value in counts.items():
        if not is_count(value):
            raise ValueError(f"point {point.key[:60]!r}: {name} is {value!r:.60}")
    for name, check in VALUES.items():
        if name in point.values or name in NEEDED[kind]:
            value = point.values.get(name)
            if not check(value):
                raise ValueError(f"point {point.key[:60]!r}: {name} is {value!r:.60}")
