"""Latency definitions on Run and Compare: the control that chooses them, runs recounted by them, which figures change,
and the downloads as CSV.

The choices are in the address (`?ttft=admission&failures=infinite`), except those at their default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from engine.core.format import MISSING, change, is_missing, plural
from engine.metrics.definitions import CHOICES, DefinitionChoice, Definitions
from engine.metrics.distribution import Distribution
from engine.metrics.latency import latency_metrics
from engine.metrics.metric import Metric, Value
from engine.metrics.metrics import RUN_METRICS
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.shared.lab import lab
from pages.parts.shared.links import WHO_COUNTS_SO
from pages.parts.shared.markdown import plain
from pages.parts.shared.metric_text import METRIC_BY_NAME, metric_text
from pages.parts.shared.page_state import linked, one_of, page_key
from pages.parts.shared.tables import csv_text, draw_table

DEFINITIONS = tuple(choice.name for choice in CHOICES)  # in the address
KEPT = 16
REQUEST_VALUES = ("queue_wait_s", "ttft_s", "tpot_s", "e2e_s")
ROUNDING = 1e-9  # a smaller relative difference is rounding
HEADER = ("metric", "here", "by default", "difference")
DEFAULT = "the lab's own definitions"  # in a CSV
TEXTS = ("prompt_text", "output_text")


# The control.


def choose_definitions(runs: Mapping[str, LoadedRun]) -> dict[str, LoadedRun]:
    """Draw the control, and return the runs, by their names, recounted by the chosen definitions."""
    with st.expander("Latency definitions", icon=":material/rule:", key=page_key("definitions")):
        definitions = _choose()
        recounted = {name: recounted_run(run, definitions) for name, run in runs.items()}
        _draw_changes(runs, recounted, definitions)
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
        label="Definitions of other tools",
        icon=":material/dictionary:",
        query_params={"term": WHO_COUNTS_SO},
    )
    return Definitions.from_names(chosen)


def _choice(choice: DefinitionChoice) -> str | None:
    """The chosen option, by default the first. The labels are the options' names, since these are in the address."""
    names = [option.name for option in choice.options]
    captions = [option.meaning for option in choice.options]
    with linked(choice.name, names[0], one_of(names)) as key:
        return st.radio(choice.label, names, captions=captions, key=key, persist_state="page")


def draw_definitions(definitions: Definitions) -> None:
    """A line that names the definitions that are not the default; nothing where all are."""
    if text := definition_text(definitions):
        st.caption(f":material/rule: Latency definitions other than the default: {plain(text)}.")


def definition_text(definitions: Definitions) -> str:
    """`time to first token from admission; percentiles by nearest rank`; empty for the default."""
    changed = definitions.changed()
    return "; ".join(f"{c.label}: {c.option(changed[c.name]).label}" for c in CHOICES if c.name in changed)


def _draw_changes(runs: Mapping[str, LoadedRun], recounted: Mapping[str, LoadedRun], definitions: Definitions) -> None:
    """Which figures change and by how much, a table per run."""
    if not definitions.changed():
        st.caption("These are the default definitions. Choose others to see which figures change.")
        return
    for name, run in runs.items():
        title = f"**{plain(name)}**: " if len(runs) > 1 else ""
        changes = metric_changes(recounted[name].metrics, run.metrics)
        if not changes:
            st.markdown(f"{title}No figure of this run changes.")
            continue
        st.markdown(f"{title}{plural(len(changes), 'figure')} {'changes' if len(changes) == 1 else 'change'}.")
        draw_table(HEADER, _change_rows(changes), figures=(1, 2, 3))
    if definitions.failures == "infinite" and any(run.status == "running" for run in runs.values()):
        st.caption("A running request counts as not finished.")


# Runs recounted.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recount:
    """What definitions change in one run."""

    metrics: Mapping[str, Value]
    requests: pd.DataFrame
    latencies: Mapping[str, Distribution]


def recounted_run(run: LoadedRun, definitions: Definitions) -> LoadedRun:
    """The same run with metrics, requests and latencies by these definitions."""
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


@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _recount(home: str, run_id: str, status: str, version: int, definitions: Definitions) -> Recount:
    """Cached as a LoadedRun is."""
    counted = lab().store.latencies
    latencies = counted.distributions(run_id, definitions)
    return Recount(
        metrics=latency_metrics(latencies, definitions),
        requests=counted.requests(run_id, definitions),
        latencies=latencies,
    )


def recounted_metrics(metrics: Mapping[str, Value], counted: Mapping[str, Value]) -> dict[str, Value]:
    """All metrics in their order, with those of latencies, and what follows from them, replaced by `counted`."""
    found = {**metrics, **counted}
    if "itl_max_over_p50" in found:
        worst, median = counted["itl_max_s"], counted["itl_p50_s"]
        found["itl_max_over_p50"] = worst / median if worst is not None and median and worst != median else None
        if worst is not None and worst == median:
            found["itl_max_over_p50"] = 1.0
    return found


def _with_values(requests: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """The requests with their recounted values; a request that arrived since has none."""
    values = counted.set_index("request_id").reindex(requests["request_id"])
    return requests.assign(**{name: values[name].to_numpy(dtype=float) for name in REQUEST_VALUES})


# Which figures change.


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """A metric by the chosen definitions (`here`) and by default. None where a run has no such value."""

    metric: Metric
    here: Value
    default: Value

    @property
    def difference(self) -> Value:
        """`here` less `default`; None where one is missing or both are infinite."""
        if self.here is None or self.default is None or is_missing(self.here) or is_missing(self.default):
            return None
        difference = self.here - self.default
        return None if math.isnan(difference) else difference

    @property
    def difference_text(self) -> str:
        """`+120 ms (+24.1 %)`, `-2`, `∞`."""
        difference = self.difference
        if difference is None:
            return MISSING
        sign = "-" if difference < 0 else "+"
        text = f"{sign}{metric_text(self.metric, abs(difference))}"
        if not self.default or math.isinf(difference):
            return text
        return f"{text} ({change(math.copysign(difference / self.default, difference))})"


def metric_changes(here: Mapping[str, Value], default: Mapping[str, Value]) -> tuple[MetricChange, ...]:
    """Every metric whose value differs, in the glossary's order."""
    every = (
        MetricChange(metric=metric, here=here.get(name), default=default.get(name))
        for name, metric in METRIC_BY_NAME.items()
    )
    return tuple(each for each in every if not _is_same(each.here, each.default))


def _is_same(a: Value, b: Value) -> bool:
    if a is None or b is None or is_missing(a) or is_missing(b):
        return (a is None or is_missing(a)) and (b is None or is_missing(b))
    return a == b or abs(a - b) <= ROUNDING * max(abs(a), abs(b)) < math.inf


def _change_rows(changes: Sequence[MetricChange]) -> list[list[str]]:
    """The cells below HEADER."""
    return [
        [each.metric.label, metric_text(each.metric, each.here), metric_text(each.metric, each.default)]
        + [each.difference_text]
        for each in changes
    ]


# Downloads: full precision, seconds, `inf` for an infinite value.


def _draw_downloads(runs: Sequence[LoadedRun], recounted: Sequence[LoadedRun], definitions: Definitions) -> None:
    name = "-".join([run.run_id for run in runs])
    default, here = ({run.run_id: run.metrics for run in some} for some in (runs, recounted))

    def requests() -> str:
        store = lab().store
        return requests_csv(
            {run.run_id: store.runs.requests(run.run_id) for run in runs},
            {run.run_id: store.latencies.requests(run.run_id, definitions) for run in runs},
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
            lambda: metrics_csv(here, default, definitions),
            file_name=f"{name}-metrics.csv",
            mime="text/csv",
            icon=":material/download:",
            on_click="ignore",
            key=page_key("metrics_csv"),
        )
    st.caption("Full precision, by the chosen definitions. inf: never finished; empty: not measured.")


def requests_csv(requests: Mapping[str, pd.DataFrame], counted: Mapping[str, pd.DataFrame], by: Definitions) -> str:
    """A row per request of each run, by run id: the run log's columns, the recounted values, the texts last.

    `itl_mean_s` is the mean of the request's gaps.
    """
    parts = [_request_rows(run_id, frame, counted[run_id], by) for run_id, frame in requests.items()]
    return csv_text(pd.concat(parts, ignore_index=True))


def _request_rows(run_id: str, requests: pd.DataFrame, counted: pd.DataFrame, by: Definitions) -> pd.DataFrame:
    counted = counted.rename(columns={"itl_s": "itl_mean_s"})
    logged = requests.drop(columns=[name for name in counted if name != "request_id" and name in requests])
    texts = [name for name in TEXTS if name in logged]
    frame = logged.drop(columns=texts).merge(counted, on="request_id", how="left")
    frame.insert(0, "run_id", run_id)
    return frame.assign(counted_by=counted_by(by), **{name: logged[name].to_numpy() for name in texts})


def metrics_csv(
    here: Mapping[str, Mapping[str, Value]], default: Mapping[str, Mapping[str, Value]], by: Definitions
) -> str:
    """A row per metric of each run, by run id. The columns are below."""
    rows = []
    for run_id, metrics in here.items():
        for metric in RUN_METRICS:
            if metric.name in metrics:
                each = MetricChange(metric=metric, here=metrics[metric.name], default=default[run_id][metric.name])
                values = [each.here, each.default, each.difference]
                rows.append([run_id, metric.name, metric.unit, *values, counted_by(by)])
    columns = ["run_id", "metric", "unit", "value", "value_by_default", "difference", "counted_by"]
    return csv_text(pd.DataFrame(rows, columns=columns, dtype=object))


def counted_by(definitions: Definitions) -> str:
    """`ttft=admission&failures=infinite`, as in the address."""
    return "&".join(f"{name}={option}" for name, option in definitions.changed().items()) or DEFAULT
