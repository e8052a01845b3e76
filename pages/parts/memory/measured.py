"""The section of the Memory page that sets the estimate beside what runs were measured to hold at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from engine.core.format import plural
from engine.hardware.model_presets import RANDOM_SUFFIX
from pages.figures.memory.measured import memory_measured
from pages.parts.memory.controls import Asked
from pages.parts.memory.estimate import RUNS_HEADER, prompts_text, run_rows, runs_finding
from pages.parts.shared.charts import show_still
from pages.parts.shared.lab import is_dark, lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key, put
from pages.parts.shared.tables import draw_table
from store.queries.memory_runs import MeasuredRun, measured_runs

MOST_LISTED = 24
WHY = """
A run's peak is another thing on each device. On a GPU it is the most that torch's allocator had given out: weights, KV
cache and passes. On a CPU it is the most that the whole process held, Python and torch among it, so that a small model
measures far above its estimate; there the differences between runs are what the estimate can be held against. Linux
keeps that high-water mark itself; elsewhere it is the highest of samples between passes, which miss what a pass gives
back.

Each run is estimated for its own requests, engine and sampling. Runs as CUDA graphs are not here: their graphs keep
memory to themselves that the estimate does not know.
"""


def same_shape(model: str) -> tuple[str, str]:
    """A model's name, and that of its shape with random weights: they take the same memory."""
    name = model.removesuffix(RANDOM_SUFFIX)
    return name, f"{name}{RANDOM_SUFFIX}"


def measured_on(asked: Asked, runs: Sequence[MeasuredRun]) -> pd.DataFrame:
    """Runs of exactly the figure's requests on its engine: a diamond each, over the bar of their batch size."""
    length = (asked.prompt_tokens, asked.grid.budget_tokens)
    rows = [
        {"batch_size": run.batch_size, "measured_bytes": run.measured_bytes, "run": run.run_id}
        for run in runs
        if run.engine == asked.grid.shape.engine
        and run.uniform is not None
        and (run.uniform.prompt_tokens, run.uniform.budget_tokens) == length
    ]
    return pd.DataFrame(rows, columns=["batch_size", "measured_bytes", "run"])


def draw_measured(asked: Asked, runs: Sequence[MeasuredRun]) -> None:
    """Estimate and measurement of the model's runs in the dtype; where there are none, those that there are."""
    st.subheader("Estimated and measured", anchor="measured")
    if not runs:
        _draw_none(asked)
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
    with st.expander(f"The {plural(min(len(runs), MOST_LISTED), 'run')} in figures"):
        draw_table(RUNS_HEADER, run_rows(runs[:MOST_LISTED]), figures=(3, 4, 5, 6))
    with st.expander("What a measured peak is"):
        st.markdown(WHY)


def _draw_none(asked: Asked) -> None:
    """No run of this model: a line, and the models that have runs."""
    st.markdown(f"No completed run of {plain(asked.model.name)} in {asked.dtype} has told its peak yet.")
    others = Counter((run.model, run.dtype) for run in measured_runs(lab().store.cursor()))
    with st.container(horizontal=True):
        for (model, dtype), runs in others.most_common(4):
            st.button(
                f"{model} in {dtype}: {plural(runs, 'run')}",
                key=page_key(f"measured_{model}_{dtype}"),
                on_click=_choose,
                args=(model, dtype),
            )


def _choose(model: str, dtype: str) -> None:
    put({"model": model, "dtype": dtype})
