"""A load test's tables: what was measured at every rate, each engine's capacity, Little's law, goodput, every run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from engine.core.format import MISSING, duration, exact, is_missing, number, percent, ratio
from engine.load.load_table import Capacity, LoadRow, LoadTable, SaturationPoint
from pages.parts.experiments.description import spread_text, status_text
from pages.parts.experiments.tables import attempts_of, first_run_links, joined_ids

ROLE_WORDS = {"saturation": "all at once", "below": "0.9 x capacity", "above": "1.1 x capacity"}
QUEUE_WORDS = {True: "grows", False: "does not grow", None: MISSING}
FIGURES = (
    *("offered/s", "achieved/s", "tok/s", "queue p50 s", "TTFT p50 s", "TTFT p95 s", "waiting, mean"),
    *("requests/s within", "tok/s within"),
)


def rate_sentence(role: str, rate_per_s: float | None) -> str:
    """`2/s`; `all at once`; `0.9 x capacity`."""
    if role in ROLE_WORDS or rate_per_s is None or is_missing(rate_per_s):
        return ROLE_WORDS.get(role, role)
    return f"{exact(rate_per_s, digits=4)}/s"


def load_columns(rows: pd.DataFrame) -> pd.DataFrame:
    """Every engine at every rate: medians over the completed repeats, n requests beside the percentiles."""
    records: list[dict[str, Any]] = rows.to_dict("records")
    return pd.DataFrame(
        {
            "engine": rows["engine"],
            "rate": [rate_sentence(row["role"], row["rate_per_s"]) for row in records],
            "offered/s": rows["offered_per_s"],
            "achieved/s": rows["achieved_per_s"],
            "tok/s": rows["output_tokens_per_s"],
            "queue p50 s": rows["queue_wait_p50_s"],
            "TTFT p50 s": rows["ttft_p50_s"],
            "TTFT p95 s": rows["ttft_p95_s"],
            "n": rows["ttft_n"],
            "waiting, mean": rows["waiting_mean"],
            "queue grows": [_queue_text(row) for row in records],
            "repeats": rows["completed"].astype(int),
            "spread": [_spread(row) for row in records],
            "status": [_row_status(row) for row in records],
            "run": first_run_links(rows["run_ids"]),
        }
    )


def capacity_rows(table: LoadTable) -> list[list[str]]:
    """Each engine's capacity, what it is of the first engine's, the runs around it, and its knee."""
    rows = []
    for engine in table.engines:
        capacity, knee = table.capacity(engine), table.saturation_point(engine)
        rows.append(
            [
                engine,
                MISSING if capacity is None else number(capacity.requests_per_s.median),
                MISSING if capacity is None else number(capacity.tokens_per_s),
                ratio(table.capacity_ratio(engine)),
                *_around(capacity),
                _knee_text(knee),
            ]
        )
    return rows


CAPACITY_HEADER = (
    *("engine", "requests/s", "output tok/s", "of the first", "queue at 0.9x", "queue at 1.1x", "confirmed"),
    "knee between",
)
LITTLE_HEADER = ("engine", "rate", "arrivals/s", "mean stay", "their product", "counted", "counted / product", "n")


def little_rows(rows: list[LoadRow]) -> list[list[str]]:
    """Little's law of each row's run in the middle: rate, stay, their product, and what was counted."""
    found = []
    for row in rows:
        little = None if row.middle is None else row.middle.little
        if little is not None:
            found.append(
                [
                    row.engine,
                    rate_sentence(row.role, row.rate_per_s),
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
    """Within the limits, at every rate: requests and tokens a second, and the shares of each limit alone."""
    kept = rows[rows["goodput_share"].notna()]
    return pd.DataFrame(
        {
            "engine": kept["engine"],
            "rate": [rate_sentence(row["role"], row["rate_per_s"]) for row in kept.to_dict("records")],
            "achieved/s": kept["achieved_per_s"],
            "requests/s within": kept["goodput_requests_per_s"],
            "tok/s within": kept["goodput_tokens_per_s"],
            "within both": [percent(value) for value in kept["goodput_share"]],
            "first token alone": [percent(value) for value in kept["ttft_share"]],
            "next tokens alone": [percent(value) for value in kept["tpot_share"]],
            "n": kept["ttft_n"],
        }
    )


def attempts_columns(points: pd.DataFrame) -> pd.DataFrame:
    """Every point and repeat by itself, in the order of running. Rates are of whole runs, ramp and tail in them."""
    attempts = attempts_of(points)
    return pd.DataFrame(
        {
            "engine": points["engine"],
            "rate": [rate_sentence(row["role"], row["rate_per_s"]) for row in points.to_dict("records")],
            "repeat": attempts.repeat,
            "status": attempts.status,
            "offered/s": points["offered_requests_per_s"],
            "whole run, requests/s": points["requests_per_s"],
            "queue p50 s": points["queue_wait_p50_s"],
            "TTFT p95 s": points["ttft_p95_s"],
            "run": attempts.run,
            "error": attempts.error,
        }
    )


def csv_of(rows: pd.DataFrame) -> str:
    """Every row with all its figures, full precision; Little's law and run ids flattened."""
    flat = rows.drop(columns=["little", "run_ids"])
    little = pd.DataFrame([found or {} for found in rows["little"]], index=rows.index).add_prefix("little_")
    return pd.concat([flat, little], axis=1).assign(run_ids=joined_ids(rows["run_ids"])).to_csv(index=False)


def _queue_text(row: dict[str, Any]) -> str:
    if row["role"] == "saturation" or not row["queue_judged_in"]:
        return MISSING
    words = "yes" if row["queue_grows"] else "no"
    if row["queue_judged_in"] == 1:
        return words
    return f"{words}, {int(row['queue_grows_in'])} of {int(row['queue_judged_in'])}"


def _spread(row: dict[str, Any]) -> str:
    low, high, middle = row["achieved_low_per_s"], row["achieved_high_per_s"], row["achieved_per_s"]
    if row["completed"] < 2 or is_missing(middle) or not middle:
        return ""
    return spread_text((high - low) / middle)


def _row_status(row: dict[str, Any]) -> str:
    if row["status"] == "completed" and not row["completed"]:
        return "completed; its run has been deleted"
    return status_text(row)


def _around(capacity: Capacity | None) -> list[str]:
    if capacity is None:
        return [MISSING, MISSING, MISSING]
    queues = [QUEUE_WORDS[None if row is None else row.grows] for row in (capacity.below, capacity.above)]
    confirmed = {True: "yes", False: "no", None: "not yet"}[capacity.is_confirmed]
    return [*queues, confirmed]


def _knee_text(knee: SaturationPoint | None) -> str:
    if knee is None:
        return MISSING
    if knee.lost_per_s is None:
        return f"above {exact(knee.held_per_s, digits=4)}/s"
    if knee.held_per_s is None:
        return f"below {exact(knee.lost_per_s, digits=4)}/s"
    return f"{exact(knee.held_per_s, digits=4)} and {exact(knee.lost_per_s, digits=4)}/s"
