"""The cases in which to find the bend: decode passes of a run by rows, or points of a sweep by batch size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.hardware.pass_points import Bend, measured_bend, predicted_bend
from engine.hardware.roofline import Ceilings, ModelShape
from engine.workload.budgets import RangeBudget, parse_budget
from pages.parts.roofline.passes import MeasuredPasses
from pages.parts.shared.markdown import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class BendCase:
    """Decode passes of one width. `seconds` are median pass times by rows; `width` is None without decode passes.

    `left_out` are the numbers of rows that had too few passes for a median.
    """

    name: str
    width: int | None
    seconds: Mapping[int, float]
    left_out: tuple[int, ...] = ()

    @property
    def seen(self) -> Bend | None:
        return measured_bend(self.seconds)

    def predicted(self, shape: ModelShape, ceilings: Ceilings | None) -> int | None:
        """The predicted batch size; None without ceilings, or if no batch size reaches the balance point."""
        if ceilings is None or self.width is None:
            return None
        return predicted_bend(shape, self.width, ceilings.balance_flop_per_byte)


def cases_of_runs(series: list[MeasuredPasses]) -> list[BendCase]:
    """A case for each run."""
    is_alone = len(series) == 1
    return [
        BendCase(
            name="" if is_alone else plain(one.name),
            width=one.decode_width,
            seconds=one.decode_seconds,
            left_out=one.rare_rows,
        )
        for one in series
    ]


def cases_of_points(points: pd.DataFrame) -> list[BendCase]:
    """A case for each engine and prompt length of a sweep, without ragged batches; none for other experiments."""
    needed = {"batch_size", "prompts", "engine", "decode_pass_p50_s"}
    if points.empty or not needed <= set(points.columns):
        return []
    points = points[points["role"].isin(["point"]) | points["role"].isna()] if "role" in points else points
    points = points.dropna(subset=["batch_size", "decode_pass_p50_s"])
    cases = []
    for (engine, prompts), mine in points.groupby(["engine", "prompts"], sort=False):
        medians = mine.groupby("batch_size")["decode_pass_p50_s"].median()
        cases.append(
            BendCase(
                name=plain(f"{engine}, {prompts}"),
                width=_width(mine.iloc[0].to_dict()),
                seconds={int(str(size)): float(value) for size, value in medians.items()},
            )
        )
    return cases


def _width(point: Mapping[Any, Any]) -> int | None:
    """The mean context of a decode pass: the prompt and half of the output."""
    prompt_tokens = point.get("prompt_tokens")
    if prompt_tokens is None or pd.isna(prompt_tokens):
        return None
    try:
        config: Any = point.get("config")
        config = json.loads(config) if isinstance(config, str) else config
        budget = parse_budget(str(config["workload"]["budget"]))
    except (ValueError, KeyError, TypeError):
        return int(prompt_tokens)
    output_tokens = (budget.low + budget.high) / 2 if isinstance(budget, RangeBudget) else 0
    return int(prompt_tokens + output_tokens / 2)
