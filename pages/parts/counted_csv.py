"""Requests and metrics as CSV, by the definitions that are chosen: full precision, seconds; `inf` without bound.

What was not measured is an empty cell. Every row names its run and how it was counted, so that a file explains itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from engine.core.definitions import Definitions
from engine.core.metric import Value
from engine.core.metrics import RUN_METRICS
from pages.parts.movement import Movement

OWN = "the lab's own definitions"
TEXTS = ("prompt_text", "output_text")


def requests_csv(requests: Mapping[str, pd.DataFrame], counted: Mapping[str, pd.DataFrame], by: Definitions) -> str:
    """A row a request of each run, by run id: the run log's columns, its values as counted, its texts last.

    `itl_mean_s` is the mean of the request's gaps.
    """
    parts = [_requests(run_id, frame, counted[run_id], by) for run_id, frame in requests.items()]
    return pd.concat(parts, ignore_index=True).to_csv(index=False)


def metrics_csv(
    here: Mapping[str, Mapping[str, Value]], own: Mapping[str, Mapping[str, Value]], by: Definitions
) -> str:
    """A row a metric of each run, by run id: run_id, metric, unit, value, value_by_default, difference, counted_by."""
    rows = [
        [
            run_id,
            metric.name,
            metric.unit,
            *_values(Movement(metric=metric, here=of[metric.name], own=own[run_id][metric.name])),
            counted_by(by),
        ]
        for run_id, of in here.items()
        for metric in RUN_METRICS
        if metric.name in of
    ]
    columns = ["run_id", "metric", "unit", "value", "value_by_default", "difference", "counted_by"]
    return pd.DataFrame(rows, columns=columns, dtype=object).to_csv(index=False)


def counted_by(definitions: Definitions) -> str:
    """`ttft=admission&failures=infinite`, as in the address."""
    return "&".join(f"{name}={option}" for name, option in definitions.changed().items()) or OWN


def _values(m: Movement) -> tuple[Value, Value, Value]:
    return m.here, m.own, m.difference


def _requests(run_id: str, requests: pd.DataFrame, counted: pd.DataFrame, by: Definitions) -> pd.DataFrame:
    counted = counted.rename(columns={"itl_s": "itl_mean_s"})
    logged = requests.drop(columns=[name for name in counted if name != "request_id" and name in requests])
    texts = [name for name in TEXTS if name in logged]
    frame = logged.drop(columns=texts).merge(counted, on="request_id", how="left")
    frame.insert(0, "run_id", run_id)
    return frame.assign(counted_by=counted_by(by), **{name: logged[name].to_numpy() for name in texts})
