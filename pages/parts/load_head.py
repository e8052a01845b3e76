"""The head of a load test: what was asked, on what, how its points ended, and the button that brings its form back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.core.config import RunConfig
from pages.parts.badges import RANDOM_WEIGHTS
from pages.parts.experiment_start import fill_form
from pages.parts.format import listed, plain, plural
from pages.parts.load_columns import rate_words
from pages.parts.load_data import LoadData
from pages.parts.load_settings import FIELDS
from pages.parts.run_words import busy_line, machine_line

MOST_FAILURES = 6


def draw_head(data: LoadData) -> None:
    """One line of what and where, and what failed."""
    if data.config is None:
        return
    st.markdown(f"**{plain(load_line(data))}**" + (f"  \n{machine_line(data.info)}" if data.info else ""))
    if (data.info.get("model") or {}).get("random_weights"):
        st.badge(RANDOM_WEIGHTS.label, icon=RANDOM_WEIGHTS.icon, color=RANDOM_WEIGHTS.colour, help=RANDOM_WEIGHTS.help)
    if busy := busy_line(data.info):
        st.caption(f":material/speed: {busy}")
    if failures := failure_lines(data):
        st.warning("\n".join(failures), icon=":material/error:")
    st.button(
        "Set up the same again",
        icon=":material/replay:",
        help="Fill the form with this load test's settings",
        key="load_again",
        on_click=fill_form,
        args=(load_values(data.config, data.settings), FIELDS),
    )


def load_line(data: LoadData) -> str:
    """`static and continuous, smollm2-135m, 4 slots: 48 requests of chat, budget 8-48, poisson at 1, 2, 3 a second`."""
    assert data.config is not None
    config, workload = data.config, data.config.workload
    rates = ", ".join(f"{rate:.4g}" for rate in data.rates)
    how = ["as CUDA graphs"] if config.execution == "graph" else []
    who = ", ".join([listed(list(data.table.engines)), config.model, *how, plural(config.slots, "slot")])
    what = f"{plural(workload.requests, 'request')} of {workload.prompts}, budget {workload.budget}"
    return f"{who}: {what}, {data.settings.get('law', '')} at {rates} a second, seed {workload.seed}"


def failure_lines(data: LoadData) -> list[str]:
    """`- static, 2/s: out of memory: …`, the first few."""
    failed = [row for row in data.table.rows if row.status in ("oom", "failed", "crashed")]
    lines = []
    for row in failed[:MOST_FAILURES]:
        status = "out of memory" if row.status == "oom" else row.status
        why = f": {row.error}" if row.error else ""
        lines.append(f"- {plain(f'{row.engine}, {rate_words(row.role, row.rate_per_s)}: {status}{why}')}")
    if len(failed) > MOST_FAILURES:
        lines.append(f"- and {len(failed) - MOST_FAILURES:,} more")
    return lines


def load_values(config: RunConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The form's values for a load test's settings."""
    return {
        "engines": ",".join(settings.get("engines") or ()),
        "rates": ",".join(f"{float(rate):g}" for rate in settings.get("rates_per_s") or ()),
        "law": settings.get("law") or "poisson",
        "confirm": "yes" if settings.get("confirm") else "no",
        "repeats": settings.get("repeats") or 1,
        "ttft_limit_s": settings.get("ttft_limit_s"),
        "tpot_limit_s": settings.get("tpot_limit_s"),
        "requests": config.workload.requests,
        "prompts": config.workload.prompts,
        "budget": config.workload.budget,
        "seed": config.workload.seed,
        "slots": config.slots,
        "model": config.model,
        "device": config.device,
        "dtype": config.dtype,
        "warmups": config.warmups,
        "execution": config.execution,
        "timing": config.timing,
        "pool_gib": config.pool_gib,
        "capacity_gib": config.capacity_gib,
        "block_size": str(config.block_size),
        "max_num_batched_tokens": config.max_num_batched_tokens,
    }
