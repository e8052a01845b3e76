"""The control that says how latencies are counted, how far that moves the figures, and their tables as CSV.

Its choices are kept in the address (`?ttft=admission&failures=infinite`), the lab's own are left out of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from engine.metrics.definitions import CHOICES, DefinitionChoice, Definitions
from engine.metrics.distribution import Distribution
from engine.metrics.latency import latency_metrics
from engine.metrics.metric import Value
from engine.metrics.metrics import RUN_METRICS
from pages.parts.runs.loaded_run import RunData
from pages.parts.runs.sensitivity import Movement, draw_definitions, movement_rows, movements
from pages.parts.shared.lab import lab
from pages.parts.shared.links import WHO_COUNTS_SO
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import linked, one_of, page_key
from pages.parts.shared.tables import draw_table
from store.queries.latency_definitions import counted_requests, distributions

# Requests and metrics as CSV, by the definitions that are chosen: full precision, seconds; `inf` without bound.

OWN = "the lab's own definitions"
TEXTS = ("prompt_text", "output_text")


def requests_csv(requests: Mapping[str, pd.DataFrame], counted: Mapping[str, pd.DataFrame], by: Definitions) -> str:
    """A row a request of each run, by run id: the run log's columns, its values as counted, its texts last.

    `itl_mean_s` is the mean of the request's gaps.
    """
    parts = [_requests(run_id, frame, counted[run_id], by) for run_id, frame in requests.items()]
    return pd.concat(parts, ignore_index=True).to_csv(index=False)


def metrics_csv(
    here: Mapping[str, Mapping[str, Value]], own: Mapping[str, Mapping[str, Value]], by: Definitions
) -> str:
    """A row a metric of each run, by run id: run_id, metric, unit, value, value_by_default, difference, counted_by."""
    rows = [
        [
            run_id,
            metric.name,
            metric.unit,
            *_values(Movement(metric=metric, here=of[metric.name], own=own[run_id][metric.name])),
            counted_by(by),
        ]
        for run_id, of in here.items()
        for metric in RUN_METRICS
        if metric.name in of
    ]
    columns = ["run_id", "metric", "unit", "value", "value_by_default", "difference", "counted_by"]
    return pd.DataFrame(rows, columns=columns, dtype=object).to_csv(index=False)


def counted_by(definitions: Definitions) -> str:
    """`ttft=admission&failures=infinite`, as in the address."""
    return "&".join(f"{name}={option}" for name, option in definitions.changed().items()) or OWN


def _values(m: Movement) -> tuple[Value, Value, Value]:
    return m.here, m.own, m.difference


def _requests(run_id: str, requests: pd.DataFrame, counted: pd.DataFrame, by: Definitions) -> pd.DataFrame:
    counted = counted.rename(columns={"itl_s": "itl_mean_s"})
    logged = requests.drop(columns=[name for name in counted if name != "request_id" and name in requests])
    texts = [name for name in TEXTS if name in logged]
    frame = logged.drop(columns=texts).merge(counted, on="request_id", how="left")
    frame.insert(0, "run_id", run_id)
    return frame.assign(counted_by=counted_by(by), **{name: logged[name].to_numpy() for name in texts})


# A run counted anew: its metrics, its requests' values and its latencies by other definitions than the lab's own.

KEPT = 16
REQUEST_VALUES = ("queue_wait_s", "ttft_s", "tpot_s", "e2e_s")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recount:
    """What other definitions change of one run."""

    metrics: Mapping[str, Value]
    requests: pd.DataFrame
    latencies: Mapping[str, Distribution]


def counted(run: RunData, definitions: Definitions) -> RunData:
    """The same run by these definitions; figures, tables and tiles follow by themselves."""
    if definitions == run.definitions:
        return run
    version = -1 if run.status != "running" else lab().recorder.version
    found = _recount(str(lab().home), run.run_id, run.status, version, definitions)
    return replace(
        run,
        definitions=definitions,
        metrics=recounted_metrics(run.metrics, found.metrics),
        requests=_with_values(run.requests, found.requests),
        latencies=found.latencies,
    )


def recounted_metrics(metrics: Mapping[str, Value], counted: Mapping[str, Value]) -> dict[str, Value]:
    """All metrics in their order, those of latencies as counted, and what follows from them."""
    found = {**metrics, **counted}
    if "itl_max_over_p50" in found:
        worst, median = counted["itl_max_s"], counted["itl_p50_s"]
        found["itl_max_over_p50"] = worst / median if worst is not None and median and worst != median else None
        if worst is not None and worst == median:
            found["itl_max_over_p50"] = 1.0
    return found


@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _recount(home: str, run_id: str, status: str, version: int, definitions: Definitions) -> Recount:
    """Kept by what may change, as a run's own data is."""
    cursor = lab().store.cursor()
    latencies = distributions(cursor, run_id, definitions)
    return Recount(
        metrics=latency_metrics(latencies, definitions),
        requests=counted_requests(cursor, run_id, definitions),
        latencies=latencies,
    )


def _with_values(requests: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """The requests with their values as counted; of a request that has come in between, none."""
    values = counted.set_index("request_id").reindex(requests["request_id"])
    return requests.assign(**{name: values[name].to_numpy(dtype=float) for name in REQUEST_VALUES})


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


def _choice(choice: DefinitionChoice) -> str | None:
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
