"""The Memory page: estimated memory of a batch by term, the largest batch that fits, and measured peaks of runs."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import streamlit as st

from engine.memory.memory_plan import MAX_PROMPT_TOKENS, MemoryPoint, memory_points, walls
from pages.figures.memory.memory import cut_sizes, memory_bars
from pages.parts.memory.controls import FIELDS, MemorySettings, draw_controls, draw_examples
from pages.parts.memory.estimate import (
    TERMS_HEADER,
    WALLS_HEADER,
    command,
    cut_text,
    finding,
    hatched_text,
    headline,
    notes,
    term_rows,
    wall_finding,
    wall_rows,
)
from pages.parts.memory.measured import draw_measured, measured_on, same_shape
from pages.parts.shared.charts import show_still
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.lab import is_dark, lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.tables import draw_table
from pages.parts.shared.widgets import draw_complaints

LENGTHS = (16, 64, 256, 1024, 4096)
WHY = """
Weights and KV cache last as long as the batch. A large batch often fails at something short-lived: in a prefill the MLP
holds its gate, its up-projection and their product at the same time, each as wide as the MLP and as long as all prompts
together. The logits have one row of the vocabulary per request, and a sampler copies them to fp32.

Left out: the residual stream, the workspace and mask of attention, allocator rounding and fragmentation, and the
framework. All terms are added as if they existed at the same time, although the MLP's tensors are freed before the
logits exist.
"""


def render() -> None:
    """The finding with its figure, the tables, measured runs, and the settings."""
    st.title("Memory", anchor=False)
    st.markdown(
        "Estimate the memory of a batch from the model's shape: weights, KV cache, prefill activations and logits."
    )
    draw_complaints(FIELDS)
    examples, result = st.container(), st.container()
    st.subheader("Settings", anchor=False)
    settings = draw_controls()
    with examples:
        draw_examples()
    with result:
        if settings is None:
            st.info("Fix the settings below first.", icon=":material/edit:")
        else:
            _draw_result(settings)


def _draw_result(settings: MemorySettings) -> None:
    points = memory_points(settings.model, settings.grid)
    (wall,) = walls(settings.model, settings.grid)
    is_alone = settings.gpus == 1  # every measured run is
    runs = lab().store.memory_runs.newest(same_shape(settings.model.name), settings.dtype) if is_alone else []
    with st.container(border=True):
        st.markdown(f"#### {plain(headline(settings, wall))}")
        of_each = f", on each of {settings.gpus} GPUs" if settings.gpus > 1 else ""
        st.markdown(f"{plain(settings.model.name)} in {settings.dtype}, {settings.grid.shape.engine} engine{of_each}.")
    rows, measured = pd.DataFrame([point.to_dict() for point in points]), measured_on(settings, runs)
    capacity_bytes = settings.grid.capacity_bytes
    figure = memory_bars(
        rows,
        capacity_bytes=capacity_bytes,
        capacity_name=settings.capacity_name,
        measured=measured,
        dark=is_dark(),
    )
    st.subheader(f"Batches of p{settings.prompt_tokens}", anchor="batches")
    show_still(figure, key="bars", alt="Memory by batch size, term by term")
    cut = cut_sizes(rows, capacity_bytes=capacity_bytes, measured=measured)
    sentences = (finding(settings, wall, points), hatched_text(points), cut_text(cut))
    st.caption(plain(" ".join(filter(None, sentences))))
    st.markdown("\n".join(f"- {plain(line)}" for line in notes(settings, points)))
    _draw_details(settings, points)
    _draw_lengths(settings)
    draw_measured(settings, runs)


def _draw_details(settings: MemorySettings, points: list[MemoryPoint]) -> None:
    with st.expander("Table by batch size"):
        draw_table(TERMS_HEADER, term_rows(points), figures=range(7))
    with st.expander("How this is calculated and what it leaves out"):
        st.markdown(WHY)
        st.code(command(settings), language="bash")


def _draw_lengths(settings: MemorySettings) -> None:
    """The largest batch for other prompt lengths."""
    st.subheader("Largest batch by prompt length", anchor="lengths")
    window = settings.model.window
    most = MAX_PROMPT_TOKENS if window is None else window - settings.grid.budget_tokens
    lengths = tuple(sorted({*(length for length in LENGTHS if length <= most), settings.prompt_tokens}))
    found = walls(settings.model, replace(settings.grid, prompt_tokens=lengths))
    draw_table(WALLS_HEADER, wall_rows(found), figures=(1, 2, 4, 5))
    st.caption(plain(wall_finding(settings, found)))


entry_guard(render)
