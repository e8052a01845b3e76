"""A sweep's report as text: one table per series, one line per batch size, failed points included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.format import number, percent, quantity, size
from engine.core.terminal import table_lines
from engine.experiments.sweep_table import DISTURBED

COLUMNS = (
    ("B", "batch_size", 1.0),
    ("TTFT, s", "ttft_s", 1.0),
    ("TPOT, ms", "tpot_s", 1e3),
    ("tok/s each", "tokens_per_s_per_request", 1.0),
    ("tok/s", "decode_tokens_per_s", 1.0),
    ("peak, GiB", "peak_memory_bytes", 2.0**-30),
    ("FLOP/byte", "intensity_flop_per_byte", 1.0),
    ("compute, %", "compute_fraction", 100.0),
    ("read, %", "bandwidth_fraction", 100.0),
    ("serial, s", "serial_s", 1.0),
    ("speed-up", "speedup", 1.0),
    ("run tok/s", "output_tokens_per_s", 1.0),
    ("spread, %", "spread", 100.0),
)
ALIGN = "r" * len(COLUMNS) + "l"  # the last column: how an incomplete row ended


def sweep_text(report: Mapping[str, Any]) -> str:
    """The whole report."""
    lines = [f"sweep {report['experiment_id']}: {report['status']}"]
    if report["model"] is not None:
        lines.append(f"{report['model']} on {report['device']}; ceilings: {ceilings_text(report)}")
    for title, rows in _series(report["points"]).items():
        lines += ["", title, *table_lines(map(_cells, rows), ALIGN, [*(name for name, *_ in COLUMNS), ""])]
        lines += [text for row in rows if (text := _ragged_text(row))]
        lines += filter(None, [_disturbed_text(rows)])
    lines += filter(None, [report.get("busy", "")])
    return "\n".join(lines)


def ceilings_text(report: Mapping[str, Any]) -> str:
    """`27.6 TFLOP/s and 318 GB/s (given)`, or why they are unknown."""
    if report["flop_per_s"] is None:
        return str(report["ceilings"])
    products = quantity(report["flop_per_s"] / 1e12, "TFLOP/s")
    reads = quantity(report["read_bytes_per_s"] / 1e9, "GB/s")
    return f"{products} and {reads} ({report['ceilings']})"


def _series(points: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    series: dict[str, list[Mapping[str, Any]]] = {}
    for row in points:
        role = "" if row["role"] == "point" else f", {row['role']}"
        series.setdefault(f"{row['engine']}, {row['prompts']}{role}", []).append(row)
    return series


def _cells(row: Mapping[str, Any]) -> list[str]:
    figures = [_figure(row[key], scale) if row["completed"] else "" for _, key, scale in COLUMNS[1:]]
    return [str(row["batch_size"]), *figures, "" if row["status"] == "completed" else _trouble(row)]


def _figure(value: float | None, scale: float) -> str:
    return number(None if value is None else value * scale)


def _trouble(row: Mapping[str, Any]) -> str:
    """For a row with incomplete repeats: how many did not complete, and why."""
    count = "" if row["repeats"] == 1 else f" ({row['repeats'] - row['completed']} of {row['repeats']})"
    if row["status"] == "oom" and row["asked_bytes"] is not None:
        free = "" if row["free_bytes"] is None else f", {size(row['free_bytes'])} were free"
        return f"oom{count}: {row['oom_where']} needed {size(row['asked_bytes'])}{free}"
    return f"{row['status']}{count}" + (f": {row['error']}" if row["error"] else "")


def _disturbed_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """A warning that B = 1 was disturbed, if a batch decodes well above B times its rate; else empty."""
    rates = [(row["decode_tokens_per_s"], row["linear_tokens_per_s"], row["batch_size"]) for row in rows]
    share, rows_at_once = max(((rate / line, rows) for rate, line, rows in rates if rate and line), default=(0.0, 0))
    if share <= DISTURBED:
        return ""
    return (
        f"B = {rows_at_once} decodes {percent(share)} of {rows_at_once} times the rate at B = 1, so B = 1 was "
        "probably disturbed. Measure it again; serial s and speed-up depend on it."
    )


def _ragged_text(row: Mapping[str, Any]) -> str:
    if row["of_control"] is None:
        return ""
    share = row["kv_unused_fraction"]
    unused = "" if share is None else f"; {percent(share)} of its KV memory unused"
    return f"B = {row['batch_size']}: {percent(row['of_control'])} of its control's throughput{unused}"
