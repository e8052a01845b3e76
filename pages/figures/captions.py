"""The sentence under each figure: what it shows, in words and numbers computed from the same data.

No sentence takes sides in advance: which run was sooner, and whether it was, is read off the data each time. A
comparison runs from the least to the most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from engine.core.format import duration, exact, number, percent, plural, quantity
from pages.figures.latency.curves import MARKED, Curve, curves_of
from pages.figures.timeline.spans import Unit, closed_spans, unit_columns
from pages.figures.timeline.throughput import bin_seconds, token_rates
from pages.figures.waste.measures import GOOD, MEASURES, PART_WORDS, Measures, ledger_shares

SAME = 0.005  # values within half a percent of each other are not called different
LANE_WORDS = {"step": "lane-steps", "second": "lane time"}


def timeline(spans: pd.DataFrame, *, unit: Unit = "step", num_lanes: int | None = None) -> str:
    """For timeline.slot_timeline: requests, lanes, how long, and the share of the lanes that was dead or empty."""
    closed = closed_spans(spans)
    if closed.empty:
        return "No request has been given a slot yet."
    lanes = max(num_lanes or 0, int(closed["lane"].max()) + 1)
    dead, empty = (_lane_share(closed, part, unit, lanes) for part in ("dead", "empty"))
    requests = plural(closed["request_id"].nunique(), "request")
    steps = plural(int(np.ceil(closed["end_step"].max() - 1e-9)), "step")
    return (
        f"{requests} through {plural(lanes, 'lane')} in {steps} ({duration(float(closed['end_s'].max()))}): "
        f"of all {LANE_WORDS[unit]}, {_none_or_share(dead)} went to requests that had already finished (dead), "
        f"and {_none_or_share(empty)} stood empty."
    )


def timelines(runs: Mapping[str, pd.DataFrame], *, unit: Unit = "step") -> str:
    """For several timelines on one axis: how long each took, the shortest first, and the dead share of each."""
    closed = {name: frame for name, frame in ((n, closed_spans(f)) for n, f in runs.items()) if not frame.empty}
    if len(closed) < 2:
        return timeline(next(iter(closed.values())), unit=unit) if closed else "No request has been given a slot yet."
    end = unit_columns(unit)[1]
    ends = {name: float(frame[end].max()) for name, frame in closed.items()}
    if unit == "step":
        ends = {name: float(np.ceil(value - 1e-9)) for name, value in ends.items()}
    took = _compared(ends, (lambda steps: plural(steps, "step")) if unit == "step" else duration)
    dead = {n: _lane_share(frame, "dead", unit, int(frame["lane"].max()) + 1) for n, frame in closed.items()}
    shares = ", ".join(f"{name} {_none_or_share(share)}" for name, share in dead.items())
    return f"From start to end: {took}; dead, of all {LANE_WORDS[unit]}: {shares}."


def latency(samples: pd.DataFrame, name: str, *, counted: str = "requests") -> str:
    """For cdf.latency_cdf: median and p95; of several runs, each against the least. `name` reads as 'queue wait'."""
    curves = curves_of(samples)
    if not curves:
        return f"No sample of the {name} yet."
    if len(curves) == 1:
        return _one_latency(next(iter(curves.values())), name, counted)
    parts = [
        f"{words}: {_compared({n: curve.marks[share] for n, curve in curves.items()}, duration)}"
        for words, share in zip(("median", "p95"), MARKED, strict=True)
    ]
    return f"{name[0].upper()}{name[1:]}, {'; '.join(parts)}."


def passes(passes: pd.DataFrame) -> str:
    """For passes.pass_trace: the share of the time that prompts took, and the median and longest decode pass."""
    passes = passes.dropna(subset=["start_s", "end_s"]) if not passes.empty else passes
    if passes.empty:
        return pass_kinds(pd.DataFrame())
    seconds = (passes["end_s"] - passes["start_s"]).astype(float).groupby(passes["kind"])
    kinds = seconds.agg(passes="size", seconds="sum", median_s="median", longest_s="max")
    return pass_kinds(kinds.rename_axis("kind").reset_index())


def pass_kinds(kinds: pd.DataFrame) -> str:
    """The same of passes that are added up already, a row a kind: kind, passes, seconds, median_s, longest_s."""
    if kinds.empty:
        return "No pass has run yet."
    by_kind = {str(row["kind"]): row for row in kinds.to_dict("records")}
    took_s = float(kinds["seconds"].sum())
    parts = [_part_of_time(by_kind.get("prefill"), "prefill", took_s)]
    parts += [_part_of_time(by_kind["mixed"], "mixed", took_s)] if "mixed" in by_kind else []
    passes = plural(int(kinds["passes"].sum()), "pass", "passes")
    sentence = f"{passes} took {duration(took_s)}, {' and '.join(parts)} of it"
    decode = by_kind.get("decode")
    if decode is None:
        return f"{sentence}; no decode pass has run."
    return (
        f"{sentence}; a decode pass took {duration(float(decode['median_s']))} at the median "
        f"and {duration(float(decode['longest_s']))} at most."
    )


def _part_of_time(row: Mapping[str, Any] | None, kind: str, took_s: float) -> str:
    passes, seconds = (0, 0.0) if row is None else (int(row["passes"]), float(row["seconds"]))
    part = percent(seconds / took_s) if took_s > 0 else percent(0)
    return f"{plural(passes, f'{kind} pass', f'{kind} passes')} {part}"


def waste(ledger: pd.DataFrame, measures: Measures = MEASURES) -> str:
    """For waste.waste_ledger: the wasted shares of positions and of KV memory, run by run.

    Seconds are told only where nothing else is: they are the same waste once more, weighed by time.
    """
    shares = ledger_shares(ledger, measures)
    if shares.empty:
        return "Nothing has been computed yet."
    is_bad = ~shares["part"].isin(GOOD)
    said = []
    for heading, group in shares[is_bad].groupby("heading", sort=False):
        if group["noun"].iloc[0] == "s" and measures is MEASURES:
            continue
        runs = [_waste_of(str(series), bar) for series, bar in group.groupby("series", sort=False)]
        said.append(f"{str(heading).split(',')[0]}: {', '.join(runs)}")
    return "; ".join(said) + "."


def queue(queue: pd.DataFrame) -> str:
    """For queue.queue_depth: how deep it became, and from when on nobody waited."""
    if queue.empty:
        return "No pass has run yet, so no queue is known."
    depth = queue["queue_depth"].to_numpy(dtype=float)
    deepest, last = float(depth.max()), float(depth[-1])
    if deepest == 0:
        return "No request waited when a pass began."
    at_most = f"At most {plural(deepest, 'request')} waited"
    if last > 0:
        return f"{at_most}; {plural(last, 'request')} still waited at the last pass."
    emptied_s = float(queue["time_s"].to_numpy(dtype=float)[np.flatnonzero(depth)[-1] + 1])
    return f"{at_most}; from {duration(emptied_s)} on, none did."


def throughput(
    tokens: pd.DataFrame, *, output_tokens_per_s: Mapping[str, float] | float | None = None, end_s: float | None = None
) -> str:
    """For throughput.tokens_over_time: tokens, time, and the best bin; of several runs, the best bin of each.

    `output_tokens_per_s` is the run metric of that name (by series, where there are several); left out, it is not told.
    """
    tokens = tokens.dropna(subset=["delivered_s"]) if not tokens.empty else tokens
    if tokens.empty:
        return "No token has been handed over yet."
    last_s = max(float(tokens["delivered_s"].max()), end_s or 0.0, 1e-3)
    bin_s = bin_seconds(last_s)
    if "series" in tokens and tokens["series"].nunique() > 1:
        by_run = {str(name): mine["delivered_s"].to_numpy(dtype=float) for name, mine in tokens.groupby("series")}
        best = {name: _best_rate(mine, bin_s, float(mine.max())) for name, mine in by_run.items()}
        overall = f"{_compared(output_tokens_per_s, number)}; " if isinstance(output_tokens_per_s, Mapping) else ""
        return f"Output tokens a second: {overall}in the best {duration(bin_s)}: {_compared(best, number)}."
    overall = f"{quantity(output_tokens_per_s, 'tokens/s')}; " if isinstance(output_tokens_per_s, float) else ""
    best_rate = _best_rate(tokens["delivered_s"].to_numpy(dtype=float), bin_s, last_s)
    return (
        f"{plural(len(tokens), 'token')} by {duration(last_s)}: {overall}"
        f"{quantity(best_rate, 'tokens/s')} in the best {duration(bin_s)}."
    )


def _best_rate(delivered_s: np.ndarray, bin_s: float, end_s: float) -> float:
    return float(token_rates(delivered_s, bin_s=bin_s, end_s=end_s)[1].max())


def _lane_share(closed: pd.DataFrame, part: str, unit: Unit, lanes: int) -> float:
    """The share of lanes x duration that a phase held; for `empty`, what no span held."""
    start, end = unit_columns(unit)
    whole = lanes * float(closed[end].max() - min(0.0, closed[start].min()))
    widths = closed[end] - closed[start]
    if whole <= 0:
        return 0.0
    held = float(widths.sum() if part == "empty" else widths[closed["phase"] == part].sum())
    share = 1.0 - held / whole if part == "empty" else held / whole
    return max(share, 0.0) if share > 5e-4 else 0.0


def _none_or_share(share: float) -> str:
    return "none" if share == 0 else percent(share)


def _one_latency(curve: Curve, name: str, counted: str) -> str:
    title = f"{name[0].upper()}{name[1:]}"
    if curve.num_unbounded == curve.n:
        return f"{title}: without bound for all {curve.n:,} {counted}."
    if curve.n == 1:
        return f"{title}: {duration(curve.end_s)}, from a single sample."
    if curve.value_s[0] == curve.end_s and not curve.num_unbounded:
        return f"{title}: {duration(curve.end_s)} for all {curve.n:,} {counted}."
    median, high = (duration(curve.marks[share]) for share in MARKED)
    never = f"; {curve.num_unbounded:,} of them without bound" if curve.num_unbounded else ""
    return f"{title}: half of {curve.n:,} {counted} at most {median}, {exact(95, '%')} at most {high}{never}."


def _compared(values: Mapping[str, float], text: Callable[[float], str]) -> str:
    """'continuous 509 ms, static 1.24 s (2.44 times)': from the least to the most, each against the least."""
    least, *others = sorted(values, key=lambda name: values[name])
    said = [f"{least} {text(values[least])}"]
    return ", ".join(said + [f"{n} {text(values[n])}{_bracketed_ratio(values[n], values[least])}" for n in others])


def _bracketed_ratio(value: float, base: float) -> str:
    if value == base:
        return " (the same)"
    if base <= 0 or np.isinf(value):
        return ""
    return " (within half a percent)" if value / base - 1 < SAME else f" ({number(value / base)} times)"


def _waste_of(series: str, bar: pd.DataFrame) -> str:
    """`static 20.4 % padding and 43.9 % dead`; of many kinds of waste only those that there are."""
    shown = bar if len(bar) <= 2 else bar[bar["share"] > 0]
    parts = [f"{percent(s)} {PART_WORDS[part]}" for part, s in zip(shown["part"], shown["share"], strict=True)]
    words = " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]])) or "nothing wasted"
    return f"{series} {words}".strip()
