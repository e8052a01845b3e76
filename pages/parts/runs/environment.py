"""All of a run behind two expanders: every metric; and configuration, versions, device, threads, load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import streamlit as st

from engine.core.format import is_missing, number, size
from engine.metrics.metrics import RUN_METRICS
from pages.parts.runs.loaded_run import RunData
from pages.parts.shared.metric_text import metric_text
from pages.parts.shared.tables import draw_table

HEADER = ("setting", "value")
MAX_TEXT = 200


def draw_every_metric(run: RunData) -> None:
    """All that was measured, in the glossary's order; what a run has no value of is a dash."""
    with st.expander("Every metric", icon=":material/functions:"):
        rows = [
            [metric.label, metric_text(metric, run.metrics.get(metric.name)), metric.name] for metric in RUN_METRICS
        ]
        draw_table(("metric", "value", "name"), rows, figures=(1,))


def draw_environment(run: RunData) -> None:
    """The settings that give this run again, and the machine it ran on."""
    with st.expander("Configuration and environment", icon=":material/settings:"):
        left, right = st.columns(2, gap="medium")
        with left:
            st.markdown("**Configuration**")
            draw_table(HEADER, fact_rows(run.config.to_dict()))
        with right:
            st.markdown("**Model, device and environment**")
            parts = {name: run.info.get(name) for name in ("model", "device", "environment")}
            draw_table(HEADER, fact_rows({name: part for name, part in parts.items() if part}))


def fact_rows(facts: Mapping[str, Any]) -> list[list[str]]:
    """Nested facts as rows of a name and a value; what is not known is a dash."""
    return [[name, _cell(name, value)] for name, value in flat(facts)]


def flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested facts in one list: `workload.seed`, 0."""
    for name, value in facts.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _cell(name: str, value: Any) -> str:
    if value is None or (isinstance(value, float) and is_missing(value)):
        return "–"
    if name.endswith("_bytes") and isinstance(value, int):
        return size(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list):
        return f"{len(value)} lines" if value else "–"
    return " ".join(str(value).split())[:MAX_TEXT]
