"""How many GPUs serve a rate within latency limits, on Bench: two limits, a button, and a table.

The search takes seconds of a core. It runs as `python -m engine gpus` in a process of its own, which ends when the
visitor changes a setting, and its answers are kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.core.command_line import flag_of
from engine.core.config import RunConfig
from engine.core.format import number, percent, plural, quantity
from engine.core.option import options_of
from engine.load.goodput import Limits
from engine.simulator.fleet import arrival_rate
from engine.simulator.machine import THIS, SimulationTarget
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import is_asked
from pages.parts.shared.widgets import number as number_field

LEAST_LIMIT_S = 0.001
POLL_S = 0.2
KEPT = "lab.fleets"  # answers of this visit, by their command

Answer = Mapping[str, Any]


def draw_fleet(config: RunConfig, target: SimulationTarget) -> None:
    """An expander with the limits, the search and its answer; none for this machine's calibration."""
    if target.hardware == THIS:
        return
    has_limit = is_asked("ttft_limit_s") or is_asked("tpot_limit_s")
    with st.expander("GPUs for a rate", icon=":material/dns:", expanded=has_limit):
        st.caption("The fewest GPUs with which 95 % of requests meet both limits at the arrivals' rate, by simulation.")
        left, right = st.columns(2)
        with left:
            ttft_s = number_field("ttft_limit_s", step=0.1, least=LEAST_LIMIT_S)
        with right:
            tpot_s = number_field("tpot_limit_s", step=0.01, least=LEAST_LIMIT_S)
        problem = _problem(config, ttft_s, tpot_s)
        command = () if problem else command_of(config, target, Limits(ttft_s=ttft_s, tpot_s=tpot_s))
        pressed = st.button("Find the number of GPUs", icon=":material/search:", disabled=bool(problem))
        if problem:
            st.caption(f":material/block: {plain(problem)}")
            return
        answers: dict[tuple[str, ...], Answer] = st.session_state.setdefault(KEPT, {})
        if pressed and command not in answers:
            with st.spinner("Simulating each tensor parallel size at several rates …"):
                answers[command] = _ask(command)
        if command in answers:
            _draw_answer(answers[command])


def _problem(config: RunConfig, ttft_s: float | None, tpot_s: float | None) -> str:
    if config.workload.prompts == "file":
        return "Prompts of a file are not searched; choose lengths."
    if arrival_rate(config.workload.arrival) is None:
        return "All requests arrive at once; choose arrivals with a rate."
    if ttft_s is None and tpot_s is None:
        return "Set a limit: TTFT, TPOT or both."
    return ""


def command_of(config: RunConfig, target: SimulationTarget, limits: Limits) -> tuple[str, ...]:
    """The arguments of `python -m engine` that search for these settings."""
    words = ["gpus", "--hardware", target.hardware, "--json"]
    if target.weight_bits is not None:
        words += ["--weight-bits", str(target.weight_bits)]
    for part in (config, config.workload, config.sampling, limits):
        for name, option in options_of(type(part)).items():
            value = getattr(part, name)
            if value != option.default and name != "warmups":
                words += flag_of(option, value)
    return tuple(words)


def _ask(command: tuple[str, ...]) -> Answer:
    """Run the search. It ends with this script run, which stops when a setting changes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    place = st.empty()
    try:
        while True:
            try:
                out, error = process.communicate(timeout=POLL_S)
                break
            except subprocess.TimeoutExpired:
                place.empty()  # where a script run that is no longer wanted stops
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode not in (0, 1) or not out.strip():
        return {"error": (error.strip().splitlines() or ["the search ended without an answer"])[-1]}
    answer: Answer = json.loads(out)
    return answer


def _draw_answer(answer: Answer) -> None:
    if "error" in answer:
        st.caption(f":red[:material/error: {plain(str(answer['error']))}]")
        return
    st.markdown(f"**{plain(finding(answer))}**")
    st.markdown(table(answer))
    st.caption(
        f"{plural(answer['requests'], 'request')} simulated at each rate; a replica's highest rate is found within a "
        "hundredth of its capacity. Replicas share requests evenly."
    )


def finding(answer: Answer) -> str:
    """`3 GPUs serve 20 requests/s: 3 replicas with tensor parallel size 1.`"""
    rate = quantity(answer["rate"], "requests/s")
    best = next((row for row in answer["rows"] if row["gpus"] == answer["gpus"] and row["gpus"] is not None), None)
    if best is None:
        return f"No number of GPUs serves {rate} with {percent(answer['share'])} of requests within the limits."
    verb = "serves" if best["gpus"] == 1 else "serve"
    return (
        f"{plural(best['gpus'], 'GPU')} {verb} {rate}: {plural(best['replicas'], 'replica')} with tensor parallel size "
        f"{best['tensor_parallel_size']}."
    )


def table(answer: Answer) -> str:
    """A Markdown table, a row per tensor parallel size."""
    lines = [
        "| GPUs | tensor parallel size | replicas | highest rate of a replica | tokens/s per GPU | memory |",
        "|--:|--:|--:|--:|--:|---|",
    ]
    for row in answer["rows"]:
        rate = row["rate_per_replica"]
        cells = [
            "–" if row["gpus"] is None else str(row["gpus"]),
            str(row["tensor_parallel_size"]),
            "–" if row["replicas"] is None else str(row["replicas"]),
            "none within the limits" if rate is None and row["fits"] else "–" if rate is None else f"{number(rate)}/s",
            number(row["tokens_per_s_per_gpu"]) if rate is not None else "–",
            "fits" if row["fits"] else "does not fit",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
