"""The Memory page's comparison of estimates with the measured peaks of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from engine.core.format import plural
from engine.hardware.model_presets import RANDOM_SUFFIX
from pages.figures.memory.measured import memory_measured
from pages.parts.memory.controls import MemorySettings
from pages.parts.memory.estimate import RUNS_HEADER, prompts_text, run_rows, runs_finding
from pages.parts.shared.charts import show_still
from pages.parts.shared.lab import is_dark, lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key, put
from pages.parts.shared.tables import draw_table
from store.queries.memory_runs import MeasuredRun

MOST_LISTED = 24
WHY = """
On a GPU, the peak is the most memory that torch's allocator handed out: weights, KV cache and passes. On a CPU, it is
the most memory of the whole process, with Python and torch, so a small model is far above its estimate; compare
differences between runs there. Linux records this peak; on other systems it is the highest of samples between passes,
which miss memory that a pass frees.

The estimate of each run is for its own requests, engine and sampling. Runs with CUDA graphs are left out, because the
graphs hold memory that the estimate does not include.
"""


def same_shape(model: str) -> tuple[str, str]:
    """A model's name and the name of the same model with random weights, which takes the same memory."""
    name = model.removesuffix(RANDOM_SUFFIX)
    return name, f"{name}{RANDOM_SUFFIX}"


def measured_on(settings: MemorySettings, runs: Sequence[MeasuredRun]) -> pd.DataFrame:
    """Runs with exactly the figure's requests and engine; the figure shows each as a diamond over its bar."""
    length = (settings.prompt_tokens, settings.grid.budget_tokens)
    rows = [
        {"batch_size": run.batch_size, "measured_bytes": run.measured_bytes, "run": run.run_id}
        for run in runs
        if run.engine == settings.grid.shape.engine
        and run.uniform is not None
        and (run.uniform.prompt_tokens, run.uniform.budget_tokens) == length
    ]
    return pd.DataFrame(rows, columns=["batch_size", "measured_bytes", "run"])


def draw_measured(settings: MemorySettings, runs: Sequence[MeasuredRun]) -> None:
    """Estimates and peaks of the model's runs with the dtype; without any, buttons for models that have runs."""
    st.subheader("Estimated and measured", anchor="measured")
    if not runs:
        _draw_none(settings)
        return
    frame = pd.DataFrame(
        {
            "engine": [run.engine for run in runs],
            "run": [run.run_id for run in runs],
            "settings": [f"{prompts_text(run)}, {plural(run.batch_size, 'row')}" for run in runs],
            "predicted_bytes": [run.predicted.total_bytes for run in runs],
            "measured_bytes": [run.measured_bytes for run in runs],
        }
    )
    show_still(memory_measured(frame, dark=is_dark()), key="measured", alt="Estimated and measured memory")
    st.caption(plain(runs_finding(runs)))
    with st.expander(f"Table of {plural(min(len(runs), MOST_LISTED), 'run')}"):
        draw_table(RUNS_HEADER, run_rows(runs[:MOST_LISTED]), figures=(3, 4, 5, 6))
    with st.expander("How peaks are measured"):
        st.markdown(WHY)


def _draw_none(settings: MemorySettings) -> None:
    """A line that there are no runs, and a button for each model with runs."""
    st.markdown(f"No completed run of {plain(settings.model.name)} in {settings.dtype} has recorded a peak yet.")
    others = Counter((run.model, run.dtype) for run in lab().store.memory_runs.newest())
    with st.container(horizontal=True):
        for (model, dtype), runs in others.most_common(4):
            st.button(
                f"{plain(model)} in {plain(dtype)}: {plural(runs, 'run')}",
                key=page_key(f"measured_{model}_{dtype}"),
                on_click=_choose,
                args=(model, dtype),
            )


def _choose(model: str, dtype: str) -> None:
    put({"model": model, "dtype": dtype})
