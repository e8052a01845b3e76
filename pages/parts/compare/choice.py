"""The choice of the runs to compare: from the address, by the picker, or one of the suggested pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import streamlit as st

from engine.core.format import count
from pages.parts.runs.loaded_run import find_row, recent_rows
from pages.parts.runs.run_text import choice_label, when
from pages.parts.shared.links import MAX_RUNS, RUNS, runs_query
from pages.parts.shared.markdown import plain

MAX_SUGGESTIONS = 5
SAME_SETTING = ("workload_digest", "model", "dtype", "device_name", "simulated")


def asked_runs(text: str | None) -> list[str]:
    """The run ids in `a,b`, each once, in order."""
    return list(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


def pairs_of(rows: Sequence[Mapping[str, Any]], run_id: str | None = None) -> list[tuple[str, str]]:
    """Pairs of completed runs of different engines in the same setting, the newest pairs first; only those with
    `run_id` where it is given.

    The older run of a pair comes first. `rows` are the newest first.
    """
    done = [row for row in rows if row["status"] == "completed"]
    fitting = [
        (str(old["run_id"]), str(new["run_id"]))
        for new, old in combinations(done, 2)
        if old["engine"] != new["engine"]
        and all(old.get(name) == new.get(name) for name in SAME_SETTING)
        and run_id in (None, old["run_id"], new["run_id"])
    ]
    return fitting[:MAX_SUGGESTIONS]


def draw_picker(chosen: list[str]) -> None:
    """The runs of the comparison, to add and remove; the address follows."""
    rows = recent_rows()
    labels = {str(row["run_id"]): choice_label(row) for row in rows}
    labels |= {run_id: choice_label(find_row(run_id) or {}) for run_id in chosen if run_id not in labels}
    picked = st.multiselect(
        f"Runs to compare, up to {MAX_RUNS}; the first is the baseline",
        list(labels),
        default=chosen,
        format_func=lambda run_id: labels[run_id],
        max_selections=MAX_RUNS,
        placeholder="Choose two runs",
    )
    if picked != chosen:
        st.query_params[RUNS] = ",".join(picked)
        st.rerun()


def draw_suggestions(chosen: list[str]) -> None:
    """Links to fair comparisons; with one run chosen, those that include it."""
    rows = recent_rows()
    by_id = {str(row["run_id"]): row for row in rows}
    pairs = pairs_of(rows, chosen[0] if chosen else None)
    if not pairs:
        if chosen:
            st.markdown(
                "No other run has the same workload, model, dtype and device: make two with **Compare two engines**."
            )
        st.page_link("pages/bench.py", label="Compare two engines on Bench", icon=":material/tune:")
        return
    st.markdown("**Runs with the same requests, model, dtype and device**")
    for pair, label in zip(pairs, pair_labels(pairs, by_id), strict=True):
        st.page_link(
            "pages/compare.py",
            label=label,
            icon=":material/compare_arrows:",
            query_params=runs_query(pair),
        )


def pair_labels(pairs: Sequence[tuple[str, str]], by_id: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A label for each pair of run ids; those that would be equal, such as repeats, get the ids too."""
    labels = [_pair_label([by_id[run_id] for run_id in pair]) for pair in pairs]
    return [
        label if labels.count(label) == 1 else f"{label} (runs {first} and {second})"
        for label, (first, second) in zip(labels, pairs, strict=True)
    ]


def _pair_label(rows: Sequence[Mapping[str, Any]]) -> str:
    engines = " and ".join(str(row["engine"]) for row in rows)
    what = f"{count(rows[0].get('requests'))} requests, {plain(str(rows[0].get('model')))}"
    return f"{engines}: {what}, {when(rows[-1].get('created_at'))}"
