"""The tables of a load test: all rates, capacities, Little's law, goodput, all runs, and the CSV. Pure."""

from __future__ import annotations

from typing import Any

import pandas as pd

from engine.core.format import MISSING, change, duration, exact, is_missing, number, percent, ratio
from engine.load.findings import QUEUES, rate_text
from engine.load.load_table import Capacity, LoadRow, LoadTable, SaturationPoint
from pages.figures.frames import records
from pages.parts.experiments.description import spread_text, status_text
from pages.parts.experiments.tables import attempts_of, first_run_links, joined_ids
from pages.parts.shared.tables import frame_csv

FIGURES = (
    *("offered/s", "achieved/s", "tok/s", "queue p50, s", "TTFT p50, s", "TTFT p95, s", "waiting, mean"),
    *("requests/s within", "tok/s within"),
)
CAPACITY_HEADER = (
    *(
        "engine",
        "capacity, requests/s",
        "capacity, tok/s",
        "vs first engine",
        "queue at 0.9x",
        "queue at 1.1x",
        "confirmed",
    ),
    "saturation point",
)
LITTLE_HEADER = ("engine", "rate", "arrivals/s", "mean time in system", "product", "counted", "counted / product", "n")


def load_columns(rows: pd.DataFrame) -> pd.DataFrame:
    """Every engine at every rate: medians over the completed repeats."""
    found = records(rows)
    return pd.DataFrame(
        {
            "engine": rows["engine"],
            "rate": [rate_text(row["role"], row["rate_per_s"]) for row in found],
            "offered/s": rows["offered_per_s"],
            "offered vs rate": [change(value) for value in rows["offered_deviation"]],
            "achieved/s": rows["achieved_per_s"],
            "tok/s": rows["output_tokens_per_s"],
            "queue p50, s": rows["queue_wait_p50_s"],
            "TTFT p50, s": rows["ttft_p50_s"],
            "TTFT p95, s": rows["ttft_p95_s"],
            "n": rows["ttft_n"],
            "waiting, mean": rows["waiting_mean"],
            "queue grows": [_queue_text(row) for row in found],
            "repeats": rows["completed"].astype(int),
            "spread": [_spread(row) for row in found],
            "status": [_row_status(row) for row in found],
            "run": first_run_links(rows["run_ids"]),
        }
    )


def capacity_rows(table: LoadTable) -> list[list[str]]:
    """Each engine's capacity, its ratio to the first engine's, the runs around it, and its saturation point."""
    rows = []
    for engine in table.engines:
        capacity, saturation = table.capacity(engine), table.saturation_point(engine)
        rows.append(
            [
                engine,
                MISSING if capacity is None else number(capacity.requests_per_s.median),
                MISSING if capacity is None else number(capacity.tokens_per_s),
                ratio(table.capacity_ratio(engine)),
                *_around(capacity),
                _saturation_text(saturation),
            ]
        )
    return rows


def little_rows(rows: list[LoadRow]) -> list[list[str]]:
    """Little's law for the middle run of each row: arrival rate, time in system, their product, and the count."""
    found = []
    for row in rows:
        little = None if row.middle is None else row.middle.little
        if little is not None:
            found.append(
                [
                    row.engine,
                    rate_text(row.role, row.rate_per_s),
                    number(little.arrivals_per_s),
                    duration(little.mean_stay_s),
                    number(little.expected_number),
                    number(little.mean_number),
                    number(little.ratio) + ("" if little.holds else ", not steady"),
                    f"{little.n:,}",
                ]
            )
    return found


def goodput_columns(rows: pd.DataFrame) -> pd.DataFrame:
    """Goodput at every rate in requests/s and tokens/s, and the share of requests within each limit."""
    kept = rows[rows["goodput_share"].notna()]
    return pd.DataFrame(
        {
            "engine": kept["engine"],
            "rate": [rate_text(row["role"], row["rate_per_s"]) for row in records(kept)],
            "achieved/s": kept["achieved_per_s"],
            "requests/s within": kept["goodput_requests_per_s"],
            "tok/s within": kept["goodput_tokens_per_s"],
            "within both": [percent(value) for value in kept["goodput_share"]],
            "within TTFT": [percent(value) for value in kept["ttft_share"]],
            "within TPOT": [percent(value) for value in kept["tpot_share"]],
            "n": kept["ttft_n"],
        }
    )


def attempts_columns(points: pd.DataFrame) -> pd.DataFrame:
    """Every repeat of every point in running order. Rates are of whole runs, ramp and tail included."""
    attempts = attempts_of(points)
    return pd.DataFrame(
        {
            "engine": points["engine"],
            "rate": [rate_text(row["role"], row["rate_per_s"]) for row in records(points)],
            "repeat": attempts.repeat,
            "status": attempts.status,
            "offered/s": points["offered_requests_per_s"],
            "whole run, requests/s": points["requests_per_s"],
            "queue p50, s": points["queue_wait_p50_s"],
            "TTFT p95, s": points["ttft_p95_s"],
            "run": attempts.run,
            "error": attempts.error,
        }
    )


def csv_of(rows: pd.DataFrame) -> str:
    """All rows in full precision, with Little's law and run ids as columns."""
    flat = rows.drop(columns=["little", "run_ids"])
    little = pd.DataFrame([found or {} for found in rows["little"]], index=rows.index).add_prefix("little_")
    return frame_csv(pd.concat([flat, little], axis=1).assign(run_ids=joined_ids(rows["run_ids"])))


def _queue_text(row: dict[str, Any]) -> str:
    if row["role"] == "saturation" or not row["queue_judged_in"]:
        return MISSING
    answer = "yes" if row["queue_grows"] else "no"
    if row["queue_judged_in"] == 1:
        return answer
    return f"{answer}, {int(row['queue_grows_in'])} of {int(row['queue_judged_in'])}"


def _spread(row: dict[str, Any]) -> str:
    low, high, middle = row["achieved_low_per_s"], row["achieved_high_per_s"], row["achieved_per_s"]
    if row["completed"] < 2 or is_missing(middle) or not middle:
        return ""
    return spread_text((high - low) / middle)


def _row_status(row: dict[str, Any]) -> str:
    if row["status"] == "completed" and not row["completed"]:
        return "completed; run deleted"
    return status_text(row)


def _around(capacity: Capacity | None) -> list[str]:
    if capacity is None:
        return [MISSING, MISSING, MISSING]
    queues = [MISSING if row is None else QUEUES[row.grows] for row in (capacity.below, capacity.above)]
    confirmed = {True: "yes", False: "no", None: "not yet"}[capacity.is_confirmed]
    return [*queues, confirmed]


def _saturation_text(saturation: SaturationPoint | None) -> str:
    if saturation is None:
        return MISSING
    if saturation.lost_per_s is None:
        return MISSING if saturation.held_per_s is None else f"above {exact(saturation.held_per_s, digits=4)}/s"
    if saturation.held_per_s is None:
        return f"below {exact(saturation.lost_per_s, digits=4)}/s"
    return f"{exact(saturation.held_per_s, digits=4)} to {exact(saturation.lost_per_s, digits=4)}/s"
