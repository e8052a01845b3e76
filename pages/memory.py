"""Memory: what a batch needs, term by term, against a card; where it ends; and what runs were measured to need."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import streamlit as st

from engine.memory.memory_plan import MemoryPoint, memory_points, walls
from pages.figures.memory.memory import cut_sizes, memory_bars
from pages.parts.memory.controls import FIELDS, Asked, draw_controls, draw_examples
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
from pages.parts.shared.fields import complaints
from pages.parts.shared.lab import is_dark, lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.tables import draw_table
from store.queries.memory_runs import measured_runs

LENGTHS = (16, 64, 256, 1024, 4096)
WHY = """
Weights and KV cache stay for as long as the batch does. What ends a large batch is often something that lives for a
moment: in a prefill the MLP holds its gate, its up-projection and their product at once, each as wide as the MLP and as
long as all prompts together. The logits are one row of the vocabulary for each request, and a sampler copies them to
fp32.

Left out: the residual stream, attention's workspace and mask, what an allocator rounds up or cannot use again, and the
framework. All terms are added up as if they were held at once; the MLP's pieces are given back before the logits come.
"""


def render() -> None:
    """The finding, the bars, every prompt length, the runs that were measured, and the settings."""
    st.title("Memory", anchor=False)
    st.markdown(
        "What would a batch need, and where does memory end? Reckoned from the model's shape alone, before anything is "
        "run: weights, KV cache, the activations of the prefill, the logits."
    )
    for line in complaints(st.query_params.to_dict(), FIELDS):
        st.warning(f"This link asks for something that cannot be set: {plain(line)}.", icon=":material/link_off:")
    examples, result = st.container(), st.container()
    st.subheader("Settings", anchor=False)
    asked = draw_controls()
    with examples:
        draw_examples()
    with result:
        if asked is None:
            st.info("Something below has to be mended first.", icon=":material/edit:")
        else:
            _draw_result(asked)


def _draw_result(asked: Asked) -> None:
    points = memory_points(asked.model, asked.grid)
    (wall,) = walls(asked.model, asked.grid)
    runs = measured_runs(lab().store.cursor(), same_shape(asked.model.name), asked.dtype)
    with st.container(border=True):
        st.markdown(f"#### {plain(headline(asked, wall))}")
        st.markdown(f"{plain(asked.model.name)} in {asked.dtype}, {asked.grid.shape.engine} engine.")
    rows, measured = pd.DataFrame([point.to_dict() for point in points]), measured_on(asked, runs)
    capacity_bytes = asked.grid.capacity_bytes
    figure = memory_bars(
        rows,
        capacity_bytes=capacity_bytes,
        capacity_name=asked.capacity_name,
        measured=measured,
        dark=is_dark(),
    )
    st.subheader(f"Batches of p{asked.prompt_tokens}", anchor="batches")
    show_still(figure, key="bars", alt="Memory by batch size, term by term")
    cut = cut_sizes(rows, capacity_bytes=capacity_bytes, measured=measured)
    said = (finding(asked, wall, points), hatched_text(points), cut_text(cut))
    st.caption(plain(" ".join(filter(None, said))))
    st.markdown("\n".join(f"- {plain(line)}" for line in notes(asked, points)))
    _draw_details(asked, points)
    _draw_lengths(asked)
    draw_measured(asked, runs)


def _draw_details(asked: Asked, points: list[MemoryPoint]) -> None:
    with st.expander("Every batch size in figures"):
        draw_table(TERMS_HEADER, term_rows(points), figures=range(7))
    with st.expander("How this is reckoned, and what is left out"):
        st.markdown(WHY)
        st.code(command(asked), language="bash")


def _draw_lengths(asked: Asked) -> None:
    """The same for other prompt lengths."""
    st.subheader("Where memory ends, by prompt length", anchor="lengths")
    lengths = tuple(sorted({*LENGTHS, asked.prompt_tokens}))
    found = walls(asked.model, replace(asked.grid, prompt_tokens=lengths))
    draw_table(WALLS_HEADER, wall_rows(found), figures=(1, 2, 4, 5))
    st.caption(plain(wall_finding(asked, found)))


entry_guard(render)
