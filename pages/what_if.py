"""The What-if page: estimated throughput, latency and memory by batch size, from bytes and arithmetic."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from engine.hardware.hardware_presets import HARDWARE
from engine.hardware.what_if import WhatIfRow, free_until, memory_wall, reading_tokens_per_s, what_if_table
from pages.figures.what_if.what_if import batch_trade
from pages.parts.runs.badges import SIMULATED
from pages.parts.shared.charts import show_still
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.fields import Field
from pages.parts.shared.lab import is_dark
from pages.parts.shared.machines import calibration_here, calibrations
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import put, setting
from pages.parts.shared.tables import draw_table
from pages.parts.shared.widgets import draw_complaints
from pages.parts.what_if.controls import QUESTION_FIELDS, THIS, WhatIfSettings, draw_controls, what_if_fields
from pages.parts.what_if.findings import (
    FIGURES,
    HEADER,
    bits_text,
    figure_caption,
    fitting,
    free_text,
    headline,
    reading_text,
    table_rows,
    wall_text,
)
from pages.parts.what_if.questions import draw_questions
from pages.parts.what_if.source import HEADER as CLAIM_HEADER
from pages.parts.what_if.source import chapter_claims, claim_rows, claims_caption, is_chapter

Fields = Mapping[str, Field]

WHY = """
A decode step reads every weight once, and all KV of each request. Its time is the longest of three: its bytes over the
GPU's achieved bandwidth, its FLOP over the achieved compute rate, and, without CUDA graphs, its kernel launches.
Several GPUs divide bytes and FLOP, and add two all-reduces per layer. Each request gets one token per step, so its rate
is 1 / step time; the total rate is that times the batch size.

Left out: activations, sampling, prefills between steps, and the engine's work outside passes. Run the engine to measure
these.
"""


def render() -> None:
    """The settings with their result, the table, the chapter's figures, and eight questions."""
    st.title("What if", anchor=False)
    st.markdown(
        "Estimate how throughput, latency and memory scale with batch size; the defaults are the conditions of a "
        "published chapter on continuous batching."
    )
    known = calibration_here(calibrations())
    fields = what_if_fields((*HARDWARE, *((THIS,) if known else ())))
    draw_complaints({**fields, **QUESTION_FIELDS})
    sliders, result = st.columns([2, 3], gap="medium")
    with sliders:
        settings = draw_controls(fields)
    if settings is None:
        result.info("Fix the settings first.", icon=":material/edit:")
    else:
        rows = what_if_table(settings.case, settings.batch_sizes)
        with result:
            _draw_result(settings, rows, fields)
        _draw_table(settings, rows, _at_chapter(fields))
    draw_questions()


def _draw_result(settings: WhatIfSettings, rows: list[WhatIfRow], fields: Fields) -> None:
    """The headline, the figure, and what limits the batch size."""
    case = settings.case
    st.badge(SIMULATED.label, icon=SIMULATED.icon, color=SIMULATED.color, help=SIMULATED.help)
    st.markdown(f"#### {plain(headline(rows))}")
    frame = pd.DataFrame([{name: getattr(row, name) for name in FRAME} for row in rows])
    figure = batch_trade(
        frame,
        free_until=free_until(case),
        wall=float(memory_wall(case)) if settings.knows_memory else None,
        reading_tokens_per_s=reading_tokens_per_s(settings.words_per_minute),
        dark=is_dark(),
    )
    show_still(figure, key="trade", alt="Total and per-request tokens/s by batch size")
    st.caption(figure_caption(rows))
    notes = (free_text(case), wall_text(settings), reading_text(settings, fitting(rows)[-1]), bits_text(settings))
    st.markdown("\n".join(f"- {line}" for line in notes))
    if not _at_chapter(fields):
        st.button("Reset to the chapter's conditions", icon=":material/undo:", on_click=_reset, args=(fields,))


FRAME = ("batch_size", "tokens_per_s", "tokens_per_s_per_request", "step_s")


def _draw_table(settings: WhatIfSettings, rows: list[WhatIfRow], at_chapter: bool) -> None:
    st.subheader("Table by batch size", anchor="table")
    draw_table(HEADER, table_rows(rows, knows_memory=settings.knows_memory), figures=FIGURES)
    st.caption(f"{plain(settings.machine.label)}. {plain(settings.machine.source)}.".replace("..", "."))
    if at_chapter:
        claims = chapter_claims(settings.case)
        st.subheader("The chapter's figures", anchor="claims")
        draw_table(CLAIM_HEADER, claim_rows(claims), figures=(1, 2, 3))
        st.caption(claims_caption(claims))
    with st.expander("How this is calculated and what it leaves out"):
        st.markdown(WHY)


def _at_chapter(fields: Fields) -> bool:
    return is_chapter({name: setting(name) for name in fields})


def _reset(fields: Fields) -> None:
    put({name: field.default for name, field in fields.items()})


entry_guard(render)
