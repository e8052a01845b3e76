"""The tables of a sweep, on screen and as CSV: a row per point, medians over repeats, failed points included. Pure."""

from __future__ import annotations

import pandas as pd

from engine.core.units import GIB
from pages.figures.frames import records
from pages.parts.experiments.description import spread_text, status_text
from pages.parts.experiments.tables import attempts_of, first_run_links, joined_ids
from pages.parts.shared.tables import csv_text

COLUMNS = (
    *("run", "prompts", "B", "TTFT, s", "TPOT, ms", "tok/s per request", "tok/s", "peak, GiB", "FLOP/byte"),
    *("compute, %", "bandwidth, %", "status", "n", "spread", "batch, s", "serial, s", "speed-up"),
)
FIGURES = (*COLUMNS[3:11], "batch, s", "serial, s", "speed-up")


def shown_table(table: pd.DataFrame) -> pd.DataFrame:
    """The grid's rows in the units of the header, with status text and a link to the first run."""
    return pd.DataFrame(
        {
            "prompts": table["series"],
            "B": table["batch_size"],
            "TTFT, s": table["ttft_s"],
            "TPOT, ms": table["tpot_s"] * 1e3,
            "tok/s per request": table["tokens_per_s_per_request"],
            "tok/s": table["decode_tokens_per_s"],
            "peak, GiB": table["peak_memory_bytes"] / GIB,
            "FLOP/byte": table["intensity_flop_per_byte"],
            "compute, %": table["compute_fraction"] * 100,
            "bandwidth, %": table["bandwidth_fraction"] * 100,
            "batch, s": table["duration_s"],
            "serial, s": table["serial_s"],
            "speed-up": table["speedup"],
            "n": table["completed"].astype(int),
            "spread": [spread_text(value) for value in table["spread"]],
            "status": [status_text(row) for row in records(table)],
            "run": first_run_links(table["run_ids"]),
        },
        columns=list(COLUMNS),
    )


def ragged_table(table: pd.DataFrame) -> pd.DataFrame:
    """Ragged batches and controls. Rates are of whole batches, because their rows end at different steps."""
    return pd.DataFrame(
        {
            "run": first_run_links(table["run_ids"]),
            "batch": table["role"],
            "prompts": table["prompts"],
            "B": table["batch_size"],
            "widest prompt": table["prompt_tokens"].astype(int),
            "batch, s": table["duration_s"],
            "tok/s": table["output_tokens_per_s"],
            "share of control, %": table["of_control"] * 100,
            "KV unused, %": table["kv_unused_fraction"] * 100,
            "peak, GiB": table["peak_memory_bytes"] / GIB,
            "status": [status_text(row) for row in records(table)],
            "n": table["completed"].astype(int),
            "spread": [spread_text(value) for value in table["spread"]],
        }
    )


def attempts_table(points: pd.DataFrame) -> pd.DataFrame:
    """Every repeat of every point in running order, with its status and a link to its run."""
    attempts = attempts_of(points)
    is_ragged = points["role"] != "point"
    return pd.DataFrame(
        {
            "run": attempts.run,
            "prompts": points["prompts"],
            "B": points["batch_size"].astype(int),
            "batch": points["role"].where(is_ragged, "grid"),
            "repeat": attempts.repeat,
            "status": attempts.status,
            "TTFT, s": points["ttft_p50_s"],
            "TPOT, ms": points["tpot_p50_s"] * 1e3,
            "batch, s": points["duration_s"],
            "output tok/s": points["output_tokens_per_s"],
            "error": attempts.error,
        }
    )


def csv_of(table: pd.DataFrame) -> str:
    """All rows and columns of the sweep in full precision, in seconds and bytes; run ids are separated by blanks."""
    named = table.drop(columns=["series"]).assign(run_ids=joined_ids(table["run_ids"]))
    return csv_text(named)
