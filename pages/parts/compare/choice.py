"""The choice of the runs to compare: from the address, by the picker, or one of the suggested pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import streamlit as st

from engine.core.format import count
from pages.figures.frames import records
from pages.parts.runs.loaded_run import LoadedRun, recent_rows
from pages.parts.runs.run_text import choice_label, when
from pages.parts.shared.lab import lab
from pages.parts.shared.links import MAX_RUNS, RUNS, runs_query
from pages.parts.shared.markdown import listed, plain

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


def draw_picker(runs: Sequence[LoadedRun]) -> None:
    """The runs of the comparison, to add and remove; the address follows. Then the other runs of their jobs."""
    chosen = [run.run_id for run in runs]
    labels = {str(row["run_id"]): choice_label(row) for row in recent_rows()}
    labels |= {run.run_id: choice_label(run.row) for run in runs if run.run_id not in labels}
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
    _draw_jobs([run.row for run in runs], chosen)


def _draw_jobs(rows: Sequence[Mapping[str, Any]], chosen: Sequence[str], most: int = MAX_SUGGESTIONS) -> None:
    """A link to all runs of each job of these runs that has more than those chosen."""
    experiments = dict.fromkeys(str(row["experiment_id"]) for row in rows if row.get("experiment_id"))
    for experiment_id in list(experiments)[:most]:
        siblings = records(lab().store.experiments.runs(experiment_id))
        if is_one_setting(siblings) and not {str(row["run_id"]) for row in siblings} <= set(chosen):
            st.page_link(
                "pages/compare.py",
                label=job_label(siblings),
                icon=":material/stacks:",
                query_params=runs_query([str(row["run_id"]) for row in siblings]),
            )


def is_one_setting(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether runs of a job can be compared: two or more, on the same requests, model, dtype and device."""
    return len(rows) > 1 and all(len({row.get(name) for row in rows}) == 1 for name in SAME_SETTING)


def job_label(rows: Sequence[Mapping[str, Any]]) -> str:
    """`All 4 runs of this job: continuous, paged and chunked, 2026-11-29 14:31:07`; of many runs only the first."""
    engines = listed(list(dict.fromkeys(str(row["engine"]) for row in rows[:MAX_RUNS])))
    which = (
        f"All {count(len(rows))} runs" if len(rows) <= MAX_RUNS else f"The first {MAX_RUNS} of {count(len(rows))} runs"
    )
    return f"{which} of this job: {engines}, {when(rows[-1].get('created_at'))}"


def draw_suggestions(chosen: list[str]) -> None:
    """Links to fair comparisons; with one run chosen, those that include it, else also the newest jobs."""
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
    if not chosen:
        _draw_jobs([row for row in rows if row.get("experiment_kind") == "layouts"], [], most=2)
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
