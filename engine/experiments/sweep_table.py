"""The table of a sweep: one row per point with medians over its repeats, next to the machine's ceilings.

For a static batch of B rows: TTFT, TPOT, tokens/s per request (1 / TPOT) and total (B / TPOT), peak memory, arithmetic
intensity of a decode pass at the mean context, and the shares of the compute and read ceilings at this TPOT (estimates:
FLOP and bytes are counted, not measured).

Serial time is B times the duration of the B = 1 batch with the same prompts. A ragged batch has no rate per request,
serial time or intensity, since its rows end at different steps; it has its throughput as a share of its control's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.core.presets import PRESETS
from engine.experiments.experiment import Summary, summarize
from engine.hardware.roofline import (
    Ceilings,
    ModelShape,
    bandwidth_fraction,
    compute_fraction,
    decode_stats,
    intensity_flop_per_byte,
)

UNIFORM = ("point", "control")
DISTURBED = (
    1.15  # above B times the B = 1 rate by this factor, the B = 1 run was disturbed: rows do not speed up a step
)
WORST_FIRST = ("failed", "crashed", "oom", "stopped", "running", "pending")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """A point over its repeats. None: not measured or not applicable.

    `status` is `completed` if every repeat is, else the worst status; medians are over the completed repeats.
    `linear_tokens_per_s` is B times the decode rate at B = 1, `of_control` a ragged batch's throughput as a share of
    its control's. `spread` is (highest - lowest) / median of output tokens/s; None for one repeat.
    """

    engine: str
    prompts: str
    prompt_tokens: int
    batch_size: int
    role: str
    status: str
    repeats: int
    completed: int
    ttft_s: float | None = None
    tpot_s: float | None = None
    tokens_per_s_per_request: float | None = None
    decode_tokens_per_s: float | None = None
    output_tokens_per_s: float | None = None
    duration_s: float | None = None
    peak_memory_bytes: float | None = None
    intensity_flop_per_byte: float | None = None
    compute_fraction: float | None = None
    bandwidth_fraction: float | None = None
    linear_tokens_per_s: float | None = None
    serial_s: float | None = None
    speedup: float | None = None
    of_control: float | None = None
    kv_unused_fraction: float | None = None
    spread: float | None = None
    asked_bytes: int | None = None
    free_bytes: int | None = None
    oom_where: str | None = None
    error: str | None = None
    run_ids: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, in the order of the columns."""
        return {**asdict(self), "run_ids": list(self.run_ids)}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChoice:
    """The largest batch within latency limits, and the cost of ignoring them.

    `chosen` is the largest batch within the limits, None if none is. `next_up` is the next larger batch that ran;
    `over_ttft` and `over_tpot` say how far it exceeds a limit (0.02: by 2 %), None where it does not. `fastest` has
    the highest decode rate.
    """

    chosen: SweepRow | None
    fastest: SweepRow | None
    next_up: SweepRow | None
    over_ttft: float | None
    over_tpot: float | None

    @property
    def throughput_gain(self) -> float | None:
        """Tokens/s of the fastest batch divided by the chosen batch's."""
        return _between(self.fastest, self.chosen, "decode_tokens_per_s")

    @property
    def ttft_cost(self) -> float | None:
        """TTFT of the fastest batch divided by the chosen batch's."""
        return _between(self.fastest, self.chosen, "ttft_s")

    @property
    def tpot_cost(self) -> float | None:
        """TPOT of the fastest batch divided by the chosen batch's."""
        return _between(self.fastest, self.chosen, "tpot_s")


def choose_batch(
    rows: Sequence[SweepRow], ttft_limit_s: float | None = None, tpot_limit_s: float | None = None
) -> BatchChoice:
    """The largest measured batch whose TTFT and TPOT are within the limits (None: no limit).

    `rows` are of one engine and one prompt length. There is no tolerance: a batch just over a limit is over it.
    """
    ran = sorted(
        (r for r in rows if r.role == "point" and r.ttft_s is not None and r.decode_tokens_per_s is not None),
        key=lambda r: r.batch_size,
    )

    def over(row: SweepRow) -> tuple[float | None, float | None]:
        return _excess(row.ttft_s, ttft_limit_s), _excess(row.tpot_s, tpot_limit_s)

    within = [row for row in ran if over(row) == (None, None)]
    chosen = within[-1] if within else None
    beyond = [row for row in ran if chosen is None or row.batch_size > chosen.batch_size]
    next_up = beyond[0] if beyond else None
    over_ttft, over_tpot = (None, None) if next_up is None else over(next_up)
    return BatchChoice(
        chosen=chosen,
        fastest=max(ran, key=lambda r: r.decode_tokens_per_s or 0.0, default=None),
        next_up=next_up,
        over_ttft=over_ttft,
        over_tpot=over_tpot,
    )


def sweep_rows(
    points: Sequence[Mapping[str, Any]], ceilings: Ceilings | None = None, shape: ModelShape | None = None
) -> list[SweepRow]:
    """One row per (engine, prompts, batch size, role), in order of first appearance.

    `points` are flat rows: a point's values, its status, and its run's metrics by name (missing, None or NaN if
    unknown). Intensity needs `shape`; the shares of the ceilings also need `ceilings`.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for point in points:
        key = (point["engine"], point["prompts"], int(point["batch_size"]), point["role"])
        groups.setdefault(key, []).append(point)
    rows = [_summarized(group, ceilings, shape) for group in groups.values()]
    return [_compared(row, rows) for row in rows]


def _summarized(group: Sequence[Mapping[str, Any]], ceilings: Ceilings | None, shape: ModelShape | None) -> SweepRow:
    """The row of one point, without the columns that need another row."""
    first = group[0]
    done = [point for point in group if point["status"] == "completed"]
    bad = next((p for status in WORST_FIRST for p in group if p["status"] == status), None)
    size, role, tpot_s = int(first["batch_size"]), str(first["role"]), _median(done, "tpot_p50_s")
    throughput = _summary(done, "output_tokens_per_s")
    row = SweepRow(
        engine=str(first["engine"]),
        prompts=str(first["prompts"]),
        prompt_tokens=int(first["prompt_tokens"]),
        batch_size=size,
        role=role,
        status="completed" if bad is None else str(bad["status"]),
        repeats=len(group),
        completed=len(done),
        ttft_s=_median(done, "ttft_p50_s"),
        tpot_s=tpot_s,
        output_tokens_per_s=None if throughput is None else throughput.median,
        duration_s=_median(done, "duration_s"),
        peak_memory_bytes=_median(done, "peak_memory_bytes"),
        kv_unused_fraction=_median(done, "kv_unused_fraction"),
        spread=None if throughput is None else throughput.spread,
        run_ids=tuple(str(point["run_id"]) for point in group if isinstance(point.get("run_id"), str)),
        **_error_columns(bad),
    )
    if role not in UNIFORM or not tpot_s:
        return row
    rows_at_once = PRESETS[row.engine].slots or size
    row = replace(row, tokens_per_s_per_request=1 / tpot_s, decode_tokens_per_s=rows_at_once / tpot_s)
    return row if shape is None else _with_roofline(row, shape, ceilings, rows_at_once, _mean_context(done[0]))


def _with_roofline(
    row: SweepRow, shape: ModelShape, ceilings: Ceilings | None, rows_at_once: int, context_tokens: int
) -> SweepRow:
    """Adds the intensity of a decode pass at the mean context, and the shares of the ceilings at the row's TPOT."""
    stats = decode_stats(rows_at_once, context_tokens)
    row = replace(row, intensity_flop_per_byte=intensity_flop_per_byte(shape, stats))
    if ceilings is None or row.tpot_s is None:
        return row
    return replace(
        row,
        compute_fraction=compute_fraction(shape, stats, row.tpot_s, ceilings),
        bandwidth_fraction=bandwidth_fraction(shape, stats, row.tpot_s, ceilings),
    )


def _mean_context(point: Mapping[str, Any]) -> int:
    """Positions a decode pass attends over on average: the prompt and half of the output tokens."""
    output, requests = _number(point.get("output_tokens")), _number(point.get("requests"))
    generated = 0.0 if output is None or not requests else output / requests
    return round(int(point["prompt_tokens"]) + generated / 2)


def _error_columns(bad: Mapping[str, Any] | None) -> dict[str, Any]:
    if bad is None:
        return {}
    asked, free = _number(bad.get("asked_bytes")), _number(bad.get("free_bytes"))
    return {
        "asked_bytes": None if asked is None else int(asked),
        "free_bytes": None if free is None else int(free),
        "oom_where": bad["oom_where"] if isinstance(bad.get("oom_where"), str) else None,
        "error": bad["error"] if isinstance(bad.get("error"), str) else None,
    }


def _compared(row: SweepRow, rows: Sequence[SweepRow]) -> SweepRow:
    """Adds the columns that need another row: the batch of one, or the control."""
    if row.role == "ragged":
        control = _find(rows, row, batch_size=row.batch_size, role="control")
        return replace(row, of_control=_between(row, control, "output_tokens_per_s"))
    one = _find(rows, row, batch_size=1, role="point")
    if one is None or one.duration_s is None:
        return row
    serial_s = row.batch_size * one.duration_s
    rate = one.decode_tokens_per_s
    return replace(
        row,
        serial_s=serial_s,
        speedup=_ratio(serial_s, row.duration_s),
        linear_tokens_per_s=None if rate is None else row.batch_size * rate,
    )


def _excess(value: float | None, limit: float | None) -> float | None:
    """How far a value exceeds the limit, as a share of the limit; None if it does not."""
    return None if value is None or limit is None or value <= limit else value / limit - 1


def _between(above: SweepRow | None, below: SweepRow | None, name: str) -> float | None:
    return None if above is None or below is None else _ratio(getattr(above, name), getattr(below, name))


def _find(rows: Sequence[SweepRow], like: SweepRow, *, batch_size: int, role: str) -> SweepRow | None:
    """The row of that size and role with the engine and prompt length of `like`."""
    wanted = (like.engine, like.prompt_tokens, batch_size, role)
    return next((r for r in rows if (r.engine, r.prompt_tokens, r.batch_size, r.role) == wanted), None)


def _median(points: Sequence[Mapping[str, Any]], name: str) -> float | None:
    summary = _summary(points, name)
    return None if summary is None else summary.median


def _summary(points: Sequence[Mapping[str, Any]], name: str) -> Summary | None:
    return summarize(_number(point.get(name)) for point in points)


def _number(value: Any) -> float | None:
    """None for a missing value: None, text or NaN."""
    if value is None or isinstance(value, str):
        return None
    number = float(value)
    return None if math.isnan(number) else number


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below
