"""Bench's sliders: what people turn while they watch the plan.

The settings themselves are the fields of `controls`, which are in the page's address and take every form. A slider
shows one of them and writes to it; a value that a slider cannot show, such as `8x32+8x256`, stays in its field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import quantity, size
from engine.core.presets import PRESETS
from engine.core.units import GIB
from engine.workload.arrivals import (
    Arrival,
    ClosedArrival,
    ConstantArrival,
    GammaArrival,
    PoissonArrival,
    parse_arrival,
)
from engine.workload.budgets import RangeBudget, parse_budget
from engine.workload.prompts import MAX_PROMPT_TOKENS, MAX_WEIGHT, parse_prompts
from pages.parts.bench.plan import plan_of
from pages.parts.bench.settings import TWICE, BenchSettings
from pages.parts.shared.page_state import page_key, put, setting, written
from pages.parts.shared.widgets import choice, pick

SLOTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
TOKENS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048)
STEP_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
RATES_PER_S = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
FIRST_RATE_PER_S = 1.0
BURSTY_CV = 4.0
POOL_SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
ARRIVALS = {"all at once": "closed", "steady": "constant", "Poisson": "poisson", "bursty": "gamma"}
LEAST_WEIGHT = 0.01


def draw_sliders(values: Mapping[str, Any], settings: BenchSettings) -> None:
    """The sliders for the settings in `values`, the fields as they are in this run, and in `settings`, as read."""
    _slide("slots", "Slots", SLOTS, int(values["slots"]), help="Requests that run at the same time.")
    _slide("requests", "Requests", REQUESTS, int(values["requests"]))
    _draw_tokens(str(values["budget"]))
    _draw_mix(str(values["mix"]) if values["prompts"] == "lengths" else "")
    _draw_arrival(str(values["arrival"]))
    engines = {values["first"], values["second"]}
    if any(PRESETS[engine].is_chunked for engine in engines):
        label = "Chunk budget, tokens per step"
        _slide("max_num_batched_tokens", label, STEP_TOKENS, int(values["max_num_batched_tokens"]))
    with_blocks = next((config for config in settings.pair or () if PRESETS[config.engine].has_blocks), None)
    if with_blocks is not None:
        _draw_pool(with_blocks)


def draw_choices() -> dict[str, Any]:
    """The two engines to compare, and where prompts come from."""
    values: dict[str, Any] = {}
    for column, name in zip(st.columns(2), ("first", "second"), strict=True):
        with column:
            values[name] = pick(name)
    if values["first"] == values["second"]:
        st.caption(f":red[:material/error: {TWICE.capitalize()}.]")
    values["prompts"] = choice("prompts")
    return values


def _slide(name: str, label: str, options: Sequence[int], value: int, help: str | None = None) -> None:
    """A slider over rounded values, and the setting's own value where it is another."""
    key = page_key(f"{name}_slider")
    st.session_state[key] = value
    st.select_slider(label, sorted({*options, value}), key=key, help=help, on_change=_take, args=(name, key))


def _take(name: str, key: str) -> None:
    put({name: st.session_state[key]})


def _draw_pool(config: RunConfig) -> None:
    """The limit of the KV pool, in shares of what the engine takes without one."""
    peak = plan_of(replace(config, pool_gib=None)).peak_kv_bytes
    if not peak:
        return
    shares = (_rounded(peak * share / GIB) for share in POOL_SHARES)
    sizes = sorted({*shares, config.pool_gib or math.inf, math.inf})
    key = page_key("pool_slider")
    st.session_state[key] = config.pool_gib or math.inf
    st.select_slider(
        "KV pool",
        sizes,
        key=key,
        format_func=lambda gib: "no limit" if gib == math.inf else size(gib * GIB),
        on_change=_take_pool,
        args=(key,),
        help=f"Without a limit, {config.engine} takes {size(peak)}.",
    )


def _rounded(value: float) -> float:
    """To three significant digits."""
    return round(value, 2 - math.floor(math.log10(value)))


def _take_pool(key: str) -> None:
    gib = st.session_state[key]
    put({"pool_gib": None if gib == math.inf else gib})


def _draw_tokens(budget: str) -> None:
    try:
        found = parse_budget(budget)
    except ValueError:
        return
    if not isinstance(found, RangeBudget):
        st.caption("Output tokens are typed in All settings.")
        return
    # A range slider takes its two ends as its default only, so its key changes with them.
    key = page_key(f"tokens_slider_{found.low}_{found.high}")
    st.select_slider(
        "Output tokens",
        sorted({*TOKENS, found.low, found.high}),
        (found.low, found.high),
        key=key,
        on_change=_take_tokens,
        args=(key,),
        help="Drawn evenly between both ends for each request.",
    )


def _take_tokens(key: str) -> None:
    low, high = st.session_state[key]
    put({"budget": str(low) if low == high else f"{low}-{high}"})


def _draw_mix(mix: str) -> None:
    """A table of prompt lengths and weights; none for questions and files."""
    if not mix:
        return
    try:
        found = parse_prompts(mix)
    except ValueError:
        return
    rows = pd.DataFrame({"prompt tokens": found.lengths, "weight": found.weights})
    key = page_key(f"mix_table_{mix}")
    edited = st.data_editor(
        rows,
        key=key,
        num_rows="dynamic",
        hide_index=True,
        column_config={
            "prompt tokens": st.column_config.NumberColumn(
                min_value=1, max_value=MAX_PROMPT_TOKENS, step=1, required=True
            ),
            "weight": st.column_config.NumberColumn(min_value=LEAST_WEIGHT, max_value=MAX_WEIGHT, default=1),
        },
    )
    written = mix_of(edited)
    if written and written != mix_of(rows):
        st.session_state[page_key("taken_mix")] = written
        st.rerun()


def mix_of(rows: pd.DataFrame) -> str:
    """The rows as a mix, `p16:3,p1024:1`; weights are left out where all are equal."""
    known = rows.dropna(subset=["prompt tokens"])
    pairs = [(int(n), float(w) if pd.notna(w) else 1.0) for n, w in known.itertuples(index=False)]
    if len({weight for _, weight in pairs}) == 1:
        return ",".join(f"p{n}" for n, _ in pairs)
    return ",".join(f"p{n}:{_digits(weight)}" for n, weight in pairs)


def take_mix() -> None:
    """Set the field to what the table of lengths was edited to. Call it before the field is drawn."""
    key = page_key("taken_mix")
    if key in st.session_state:
        put({"mix": st.session_state.pop(key)})


def _draw_arrival(arrival: str) -> None:
    try:
        found = parse_arrival(arrival)
    except ValueError:
        return
    name, rate = _law_of(found)
    key = page_key("arrival_law")
    st.session_state[key] = name
    st.segmented_control(
        "Arrivals", list(ARRIVALS), key=key, required=True, on_change=_take_arrival, args=(found,), width="stretch"
    )
    if rate is not None:
        slider = page_key("rate_slider")
        st.session_state[slider] = rate
        st.select_slider(
            "Rate",
            sorted({*RATES_PER_S, rate}),
            key=slider,
            format_func=lambda each: quantity(each, "requests/s"),
            on_change=_take_arrival,
            args=(found,),
        )


def _law_of(found: Arrival) -> tuple[str, float | None]:
    match found:
        case ConstantArrival(rate=rate):
            return "steady", rate
        case PoissonArrival(rate=rate):
            return "Poisson", rate
        case GammaArrival(rate=rate):
            return "bursty", rate
    return "all at once", None


def _take_arrival(before: Arrival) -> None:
    """Write the law and the rate that the widgets show; the burstiness stays as it was."""
    law = ARRIVALS[setting("arrival_law") or "all at once"]
    rate = setting("rate_slider")
    rate = FIRST_RATE_PER_S if rate is None or isinstance(before, ClosedArrival) else rate
    cv = before.cv if isinstance(before, GammaArrival) else BURSTY_CV
    text = {"closed": "closed", "gamma": f"gamma:{_digits(rate)}:{_digits(cv)}"}.get(law, f"{law}:{_digits(rate)}")
    put({"arrival": text})


def _digits(value: float) -> str:
    """A number with all its digits, as an address has it."""
    return written(value)[0]
