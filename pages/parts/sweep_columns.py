"""The table of a sweep on screen and as CSV: a row a point, medians over repeats, failed points among them. Pure.

The columns stand in the order in which such tables are usually printed: B, TTFT, TPOT, tokens a second for one request
and for all, peak memory, intensity, shares of the ceilings; then what belongs to the batch as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from engine.core.format import is_missing, percent, plural, size

GIB = 2**30
COLUMNS = (
    *("run", "prompts", "B", "TTFT s", "TPOT ms", "tok/s a request", "tok/s", "peak GiB", "FLOP/byte"),
    *("% compute", "% bandwidth", "status", "n", "spread", "batch s", "serial s", "speed-up"),
)
FIGURES = (*COLUMNS[3:11], "batch s", "serial s", "speed-up")
STATUS_WORDS = {"oom": "out of memory", "pending": "not run yet"}


def shown_table(table: pd.DataFrame) -> pd.DataFrame:
    """The grid's rows as they are shown: units of the header, status in words, the first run's address."""
    return pd.DataFrame(
        {
            "prompts": table["series"],
            "B": table["batch_size"],
            "TTFT s": table["ttft_s"],
            "TPOT ms": table["tpot_s"] * 1e3,
            "tok/s a request": table["tokens_per_s_per_request"],
            "tok/s": table["decode_tokens_per_s"],
            "peak GiB": table["peak_memory_bytes"] / GIB,
            "FLOP/byte": table["intensity_flop_per_byte"],
            "% compute": table["compute_fraction"] * 100,
            "% bandwidth": table["bandwidth_fraction"] * 100,
            "batch s": table["duration_s"],
            "serial s": table["serial_s"],
            "speed-up": table["speedup"],
            "n": table["completed"].astype(int),
            "spread": [percent(value) if not is_missing(value) else "" for value in table["spread"]],
            "status": [status_words(row) for row in table.to_dict("records")],
            "run": run_links([ids[0] if ids else None for ids in table["run_ids"]]),
        },
        columns=list(COLUMNS),
    )


def ragged_table(table: pd.DataFrame) -> pd.DataFrame:
    """Ragged batches and controls: rates of whole batches alone, since their rows end at different steps."""
    return pd.DataFrame(
        {
            "run": run_links([ids[0] if ids else None for ids in table["run_ids"]]),
            "batch": table["role"],
            "prompts": table["prompts"],
            "B": table["batch_size"],
            "widest prompt": table["prompt_tokens"].astype(int),
            "batch s": table["duration_s"],
            "tok/s": table["output_tokens_per_s"],
            "% of control": table["of_control"] * 100,
            "% of KV unused": table["kv_unused_fraction"] * 100,
            "peak GiB": table["peak_memory_bytes"] / GIB,
            "status": [status_words(row) for row in table.to_dict("records")],
            "n": table["completed"].astype(int),
            "spread": [percent(value) if not is_missing(value) else "" for value in table["spread"]],
        }
    )


def attempts_table(points: pd.DataFrame) -> pd.DataFrame:
    """Every point and repeat by itself, in the order of running, with how it ended and a way to its run."""
    is_ragged = points["role"] != "point"
    return pd.DataFrame(
        {
            "run": run_links(_runs(points)),
            "prompts": points["prompts"],
            "B": points["batch_size"].astype(int),
            "batch": points["role"].where(is_ragged, "grid"),
            "repeat": points["repeat"].astype(int) + 1,
            "status": [status_words(row) for row in points.to_dict("records")],
            "TTFT s": points["ttft_p50_s"],
            "TPOT ms": points["tpot_p50_s"] * 1e3,
            "batch s": points["duration_s"],
            "output tok/s": points["output_tokens_per_s"],
            "error": points["error"],
        }
    )


def _runs(points: pd.DataFrame) -> list[str | None]:
    """Of each point the run that is there to be opened: that of its record, or the one that is going now."""
    found: list[str | None] = []
    for row in points.to_dict("records"):
        live = row.get("live_run_id")
        found.append(str(row["run_id"]) if row["has_run"] else live if isinstance(live, str) else None)
    return found


def run_links(run_ids: Sequence[str | None]) -> list[str | None]:
    """The addresses of runs; None where there is no run."""
    return [None if run_id is None else f"/run?run_id={run_id}" for run_id in run_ids]


def status_words(row: Mapping[str, Any]) -> str:
    """`completed`; `out of memory: asked 4.38 GiB, 3.10 GiB free (prefill)`; `failed: …`; `2 of 3 done`."""
    status = str(row["status"])
    live = row.get("live_run_id")
    if status == "pending" and isinstance(live, str) and live:
        return "running"
    words = STATUS_WORDS.get(status, status)
    if status == "oom" and not is_missing(row.get("asked_bytes")):
        free = row.get("free_bytes")
        words += f": asked {size(row['asked_bytes'])}" + ("" if is_missing(free) else f", {size(free)} free")
        words += f" ({row['oom_where']})" if row.get("oom_where") else ""
    elif status in ("failed", "crashed") and row.get("error"):
        words += f": {row['error']}"
    done, repeats = row.get("completed"), row.get("repeats")
    if status != "completed" and done and repeats:
        words = f"{int(done)} of {plural(int(repeats), 'repeat')} completed, {words}"
    return words


def csv_of(table: pd.DataFrame) -> str:
    """Every row of the sweep with all its columns, full precision, seconds and bytes; run ids joined by blanks."""
    named = table.drop(columns=["series"]).assign(run_ids=[" ".join(ids) for ids in table["run_ids"]])
    return named.to_csv(index=False)
