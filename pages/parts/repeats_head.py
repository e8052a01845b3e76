"""The head of an experiment of repeats: what was run, on what, what failed, and the way back to Bench."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from engine.core.format import plural
from pages.parts.experiment_choice import EXPERIMENT
from pages.parts.experiment_head import draw_experiment_head
from pages.parts.experiment_words import cap_words, how_words
from pages.parts.markdown import listed, plain
from pages.parts.repeats_data import RepeatsData, bench_link
from pages.parts.sweep_columns import status_words

Load = Callable[[str], RepeatsData | None]

MOST_FAILURES = 6
ON_BENCH = "Set **Repeats** on Bench to 2 or more: each of its buttons then runs all its engines once, then all again."


def draw_head(data: RepeatsData) -> None:
    """One line of what and where, and each kind of failure once."""
    if data.configs:
        draw_experiment_head(repeats_line(data), data.info, data.points, failure_lines(data))


def draw_way_to_bench(load: Load) -> None:
    """How an experiment of repeats is made: on Bench, with the settings of the one that is shown, if there is one.

    `load` finds an experiment by its id.
    """
    data = _shown(load)
    label = "The same on Bench" if data is not None else "Set one up on Bench"
    query = bench_link(data) if data is not None else {"repeats": "3"}
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.page_link("pages/bench.py", label=label, icon=":material/tune:", query_params=query)
        st.caption(ON_BENCH)


def repeats_line(data: RepeatsData) -> str:
    """`static and continuous, 3 times each, in turn: smollm2-135m, 4 slots, 8 requests of chat, budget 8-48 …`."""
    config = next(iter(data.configs.values()))
    workload = config.workload
    times = plural(data.repeats, "time")
    how = f"{times} each, in turn" if len(data.names) > 1 else times
    what = [config.model, *how_words(config), plural(config.slots, "slot"), *cap_words(config)]
    requests = f"{plural(workload.requests, 'request')} of {workload.prompts}, budget {workload.budget}"
    arrival = f"arrival {workload.arrival}, seed {workload.seed}"
    return f"{listed(list(data.names.values()))}, {how}: {', '.join(what)}; {requests}, {arrival}"


def failure_lines(data: RepeatsData) -> list[str]:
    """Each way in which an engine failed, once: `- static, repeat 2 (and 1 more): out of memory: asked 4.38 GiB …`."""
    found: dict[tuple[str, str], list[int]] = {}
    for row in data.rows:
        if row["status"] in ("oom", "failed", "crashed"):
            found.setdefault((str(row["series"]), status_words(row)), []).append(int(row["repeat"]) + 1)
    lines = []
    for (name, words), repeats in list(found.items())[:MOST_FAILURES]:
        more = f" (and {len(repeats) - 1} more)" if len(repeats) > 1 else ""
        lines.append(f"- {plain(f'{name}, repeat {repeats[0]}{more}: {words}')}")
    left = len(found) - len(lines)
    return lines + ([f"- and {left} more"] if left else [])


def _shown(load: Load) -> RepeatsData | None:
    """The experiment that the address names, where the store has it whole."""
    asked = st.query_params.get(EXPERIMENT)
    try:
        data = load(asked) if asked else None
    except ValueError:
        return None
    return data if data is not None and data.configs else None
