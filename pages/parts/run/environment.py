"""Two expanders at the end of a run's page: every metric; and its configuration, model, device and environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.core.format import is_missing, number, size
from engine.metrics.metrics import RUN_METRICS
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.runs.run_text import flattened
from pages.parts.shared.metric_text import metric_text
from pages.parts.shared.tables import draw_table

HEADER = ("setting", "value")
METRICS_HEADER = ("metric", "value", "name")
MAX_TEXT = 200


def draw_every_metric(run: LoadedRun) -> None:
    """All metrics in the glossary's order; a dash for one that the run does not have."""
    with st.expander("Every metric", icon=":material/functions:"):
        draw_table(METRICS_HEADER, metric_rows(run), figures=(1,))


def draw_environment(run: LoadedRun) -> None:
    """The settings that reproduce this run, and the machine it ran on."""
    with st.expander("Configuration and environment", icon=":material/settings:"):
        left, right = st.columns(2, gap="medium")
        with left:
            st.markdown("**Configuration**")
            draw_table(HEADER, setting_rows(run.config.to_dict()))
        with right:
            st.markdown("**Model, device and environment**")
            draw_table(HEADER, setting_rows(machine_settings(run.info)))


def metric_rows(run: LoadedRun) -> list[list[str]]:
    """Every metric below METRICS_HEADER, in the glossary's order."""
    return [[metric.label, metric_text(metric, run.metrics.get(metric.name)), metric.name] for metric in RUN_METRICS]


def machine_settings(info: Mapping[str, Any]) -> dict[str, Any]:
    """The model, device and environment of a run.json, where it has them."""
    return {name: part for name in ("model", "device", "environment") if (part := info.get(name))}


def setting_rows(settings: Mapping[str, Any]) -> list[list[str]]:
    """Nested settings as rows of a name and a value; a dash for an unknown value."""
    return [[name, _cell(name, value)] for name, value in flattened(settings)]


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
