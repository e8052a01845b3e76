"""The control that says how latencies are counted, how far that moves the figures, and their tables as CSV.

Its choices are kept in the address (`?ttft=admission&failures=infinite`), the lab's own are left out of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from engine.core.definitions import CHOICES, Choice, Definitions
from pages.parts.counted_csv import metrics_csv, requests_csv
from pages.parts.counted_run import counted
from pages.parts.lab import lab
from pages.parts.markdown import plain
from pages.parts.movement import draw_definitions, movement_rows, movements
from pages.parts.page_state import linked, one_of, page_key
from pages.parts.run_data import RunData
from pages.parts.shared.links import WHO_COUNTS_SO
from pages.parts.tables import draw_table
from store.queries.latency_definitions import counted_requests

HEADER = ("metric", "here", "by the lab's own definitions", "difference")


def how_to_count(runs: Mapping[str, RunData]) -> dict[str, RunData]:
    """Draw the control under the runs' names, and return the runs as counted."""
    with st.expander("How to count", icon=":material/rule:", key=page_key("how_to_count")):
        definitions = _choose()
        recounted = {name: counted(run, definitions) for name, run in runs.items()}
        _draw_movement(runs, recounted, definitions)
        _draw_downloads(list(runs.values()), list(recounted.values()), definitions)
    draw_definitions(definitions)
    return recounted


def _choose() -> Definitions:
    columns = st.columns(2, gap="medium")
    chosen = {}
    for place, choice in enumerate(CHOICES):
        with columns[place % 2]:
            chosen[choice.name] = _choice(choice)
    st.page_link(
        "pages/glossary.py",
        label="Which tool counts how is in the glossary",
        icon=":material/dictionary:",
        query_params={"term": WHO_COUNTS_SO},
    )
    return Definitions.from_names(chosen)


def _choice(choice: Choice) -> str | None:
    """The option that is taken; the first at first. Options stand by their names, since these are in the address."""
    names = [option.name for option in choice.options]
    captions = [option.meaning for option in choice.options]
    with linked(choice.name, names[0], one_of(names)) as key:
        return st.radio(choice.label, names, captions=captions, key=key, persist_state="page")


def _draw_movement(runs: Mapping[str, RunData], recounted: Mapping[str, RunData], definitions: Definitions) -> None:
    """How far each figure moves, a table a run; or that none does."""
    if not definitions.changed():
        st.caption("These are the lab's own definitions. Choose another, and here stands how far each figure moves.")
        return
    for name, run in runs.items():
        title = f"**{plain(name)}**: " if len(runs) > 1 else ""
        moved = movements(recounted[name].metrics, run.metrics)
        if not moved:
            st.markdown(f"{title}Nothing moves: counted so, every figure of this run is the same.")
            continue
        st.markdown(f"{title}{len(moved)} figures move.")
        draw_table(HEADER, movement_rows(moved), figures=(1, 2, 3))
    if definitions.failures == "infinite" and any(run.status == "running" for run in runs.values()):
        st.caption("A request that is still going counts as not finished until it has.")


def _draw_downloads(runs: Sequence[RunData], recounted: Sequence[RunData], definitions: Definitions) -> None:
    name = "-".join([run.run_id for run in runs])
    own, here = ({run.run_id: run.metrics for run in some} for some in (runs, recounted))

    def requests() -> str:
        store = lab().store
        return requests_csv(
            {run.run_id: store.runs.requests(run.run_id) for run in runs},
            {run.run_id: counted_requests(store.cursor(), run.run_id, definitions) for run in runs},
            definitions,
        )

    with st.container(horizontal=True):
        st.download_button(
            "Requests as CSV",
            requests,
            file_name=f"{name}-requests.csv",
            mime="text/csv",
            icon=":material/download:",
            on_click="ignore",
            key=page_key("requests_csv"),
        )
        st.download_button(
            "Metrics as CSV",
            lambda: metrics_csv(here, own, definitions),
            file_name=f"{name}-metrics.csv",
            mime="text/csv",
            icon=":material/download:",
            on_click="ignore",
            key=page_key("metrics_csv"),
        )
    st.caption(
        "Seconds in full precision, counted as chosen; inf is a wait without bound, an empty cell was not measured."
    )
