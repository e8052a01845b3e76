"""Estimated time of an experiment, from the passes of earlier runs of the same model on this machine.

A linear fit of measured passes: decode time by rows and positions, prefill time by prompt tokens. Larger batches than
any that ran are extrapolated. Without an earlier run of the model there is no estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import exact, plural
from engine.core.request import ExactPrompt
from engine.core.units import dtype_of, short_dtype
from engine.experiments.experiment import Plan, Point
from pages.parts.shared.devices import device_of
from pages.parts.shared.lab import lab
from pages.parts.shared.workloads import workload_of

RECENT_RUNS = 60
READ_RUNS = 6
KEPT_S = 60.0  # how long a fit is kept
OVERHEAD_S = 0.4  # start and end of a run
WARM_UP_DECODES = 3
FAR = 2.0  # beyond this many times the largest batch that ran, an estimate is called a guess


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTimes:
    """Fitted pass times: a base, a row's and a position's part for decode; a base and a token's part for prefill."""

    decode_s: float
    row_s: float
    position_s: float
    prefill_s: float
    prompt_token_s: float
    most_rows: int
    runs: int

    def run_s(self, config: RunConfig) -> float:
        """The time of a run whose requests all arrive at once, warm-up included."""
        specs = workload_of(config.workload).requests
        lengths = [spec.prompt.tokens if isinstance(spec.prompt, ExactPrompt) else 64 for spec in specs]
        budgets = [spec.budget_tokens for spec in specs]
        if not specs:
            return OVERHEAD_S
        rows = min(len(specs), config.num_slots)
        rounds = -(-len(specs) // rows)
        prompt_s = rounds * self.prefill_s + rounds * rows * max(lengths) * self.prompt_token_s
        width = max(lengths) + max(budgets) / 2
        decode_s = self.decode_s + rows * self.row_s + rows * width * self.position_s
        warm_up_s = config.warmups * (
            len(set(lengths)) * (self.prefill_s + rows * max(lengths) * self.prompt_token_s)
            + WARM_UP_DECODES * decode_s
        )
        return OVERHEAD_S + prompt_s + rounds * (max(budgets) - 1) * decode_s + warm_up_s


def fit_times(passes: pd.DataFrame, runs: int) -> PassTimes | None:
    """Fit passes (kind, rows, computed_positions, prompt_tokens, seconds). None without both kinds of pass."""
    decode = passes[passes["kind"] == "decode"]
    prefill = passes[passes["kind"] == "prefill"]
    if decode.empty or prefill.empty:
        return None
    decode_s, row_s, position_s = _line(decode["seconds"], [decode["rows"], decode["computed_positions"]])
    prefill_s, prompt_token_s = _line(prefill["seconds"], [prefill["prompt_tokens"]])
    return PassTimes(
        decode_s=decode_s,
        row_s=row_s,
        position_s=position_s,
        prefill_s=prefill_s,
        prompt_token_s=prompt_token_s,
        most_rows=int(passes["rows"].max()),
        runs=runs,
    )


def _line(seconds: pd.Series, terms: Sequence[pd.Series]) -> list[float]:
    """Least squares, without terms that are constant or would get a negative factor."""
    kept = [place for place, term in enumerate(terms) if term.nunique() > 1]
    y = seconds.to_numpy(dtype=float)
    while True:
        columns = [np.ones(len(y)), *(terms[place].to_numpy(dtype=float) for place in kept)]
        fitted = np.linalg.lstsq(np.column_stack(columns), y, rcond=None)[0]
        negative = [place for place, value in zip(kept, fitted[1:], strict=True) if value < 0]
        if not negative:
            break
        kept.remove(negative[0])
    factors = dict(zip(kept, fitted[1:], strict=True))
    return [max(float(fitted[0]), 0.0), *(float(factors.get(place, 0.0)) for place in range(len(terms)))]


def estimate_text(plan: Plan, points: Sequence[Point] | None = None) -> str:
    """How long these points of a plan take (all, if not given), and the basis of the estimate."""
    points = plan.points if points is None else points
    if not points:
        return ""
    config = points[0].config
    device = device_of(config.device)
    known = known_times(config.model, dtype_of(config.dtype, device), device, config.execution)
    configs = [point.config for point in points]
    if known is None:
        return basis_text(configs, None, "")
    total_s = sum(known.run_s(config) for config in configs)
    return basis_text(configs, known, f"About {duration_text(total_s)}, estimated")


def basis_text(configs: Sequence[RunConfig], known: PassTimes | None, estimate: str) -> str:
    """`estimate` with its basis, for runs of one model; or why there is no estimate."""
    if known is None:
        return (
            f"No time estimate: {configs[0].model} has not run here with these settings yet. The experiment can be "
            "canceled and resumed."
        )
    basis = f"{estimate} from {plural(known.runs, 'earlier run')} of this model here"
    largest = max(min(config.num_slots, config.workload.requests) for config in configs)
    if largest > FAR * known.most_rows:
        basis += f"; none had more than {plural(known.most_rows, 'row')}, so {largest:,} rows are a guess"
    return f"{basis}. Loading the model takes extra time."


def duration_text(seconds: float) -> str:
    """`10 s or less`, `40 s`, `6 min`, `2.5 h`: rounded like an estimate."""
    if seconds < 10:
        return f"{exact(10, 's')} or less"
    if seconds < 90:
        return exact(round(seconds / 10) * 10, "s")
    if seconds < 5400:
        return exact(round(seconds / 60), "min")
    return exact(seconds / 3600, "h", digits=2)


@st.cache_data(ttl=KEPT_S, show_spinner=False)
def known_times(model: str, dtype: str, device: str, execution: str) -> PassTimes | None:
    """Pass times from the newest completed runs of a model with this dtype, device and execution; None without one."""
    runs = lab().store.runs.list(limit=RECENT_RUNS)
    if runs.empty:
        return None
    mine = runs[(runs["model"] == model.strip()) & (runs["status"] == "completed") & ~runs["simulated"].astype(bool)]
    frames = []
    for run_id in mine["run_id"]:
        run = lab().store.runs.get(str(run_id))
        if _matches(run["info"], dtype, device, execution):
            passes = lab().store.runs.passes(str(run_id))
            frames.append(passes.assign(seconds=passes["end_s"] - passes["start_s"]))
        if len(frames) == READ_RUNS:
            break
    return fit_times(pd.concat(frames), len(frames)) if frames else None


def _matches(info: dict[str, object], dtype: str, device: str, execution: str) -> bool:
    model, where = info.get("model") or {}, info.get("device") or {}
    assert isinstance(model, dict)
    assert isinstance(where, dict)
    torch_dtype = str(model.get("dtype")).removeprefix("torch.")
    return (short_dtype(torch_dtype), where.get("kind"), info.get("execution")) == (dtype, device, execution)
