"""What if: what a batch size would cost on a card, from bytes and arithmetic alone, rebuilt as the sliders move."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from engine.hardware.what_if import WhatIfRow, free_until, memory_wall, reading_tokens_per_s, what_if_table
from pages.figures.what_if.what_if import batch_trade
from pages.parts.runs.badges import SIMULATED
from pages.parts.shared.charts import show_still
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.fields import Field, complaints
from pages.parts.shared.lab import is_dark
from pages.parts.shared.machines import calibration_here, calibrations, cards
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import put, setting
from pages.parts.shared.tables import draw_table
from pages.parts.what_if.controls import QUESTION_FIELDS, THIS, Asked, draw_controls, what_if_fields
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
A decode step reads every weight once, and for each request all keys and values that it has so far. On a card that reads
faster than it needs to compute, the step takes its bytes over the card's achieved bandwidth; arithmetic counts too and
takes over where it takes longer, as do launches where kernels are issued one by one. A request gets one token a step,
so its rate is one over the step's time, and the rate in all is that times the batch.

Left out: activations, sampling, prefill in between, and what an engine does beside its passes. A run tells.
"""


def render() -> None:
    """The sliders, what they come to, the table, the chapter's own figures, and eight questions."""
    st.title("What if", anchor=False)
    st.markdown(
        "A batch shares one reading of the weights. Move the sliders and see how far that goes: what a step reads, how "
        "fast each reader and all together are served, and where memory ends. They start where a published chapter on "
        "continuous batching stands, so that its figures can be held against these."
    )
    known = calibration_here(calibrations())
    fields = what_if_fields((*cards(), *((THIS,) if known else ())))
    for line in complaints(st.query_params.to_dict(), {**fields, **QUESTION_FIELDS}):
        st.warning(f"This link asks for something that cannot be set: {plain(line)}.", icon=":material/link_off:")
    sliders, result = st.columns([2, 3], gap="medium")
    with sliders:
        asked = draw_controls(fields)
    if asked is None:
        result.info("Something in the settings has to be mended first.", icon=":material/edit:")
    else:
        rows = what_if_table(asked.case, asked.batch_sizes)
        with result:
            _draw_result(asked, rows, fields)
        _draw_table(asked, rows, _at_chapter(fields))
    draw_questions()


def _draw_result(asked: Asked, rows: list[WhatIfRow], fields: Fields) -> None:
    """What the sliders come to, in words and as two curves."""
    case = asked.case
    st.badge(SIMULATED.label, icon=SIMULATED.icon, color=SIMULATED.color, help=SIMULATED.help)
    st.markdown(f"#### {plain(headline(rows))}")
    frame = pd.DataFrame([{name: getattr(row, name) for name in FRAME} for row in rows])
    figure = batch_trade(
        frame,
        free_until=free_until(case),
        wall=float(memory_wall(case)) if asked.knows_memory else None,
        reading_tokens_per_s=reading_tokens_per_s(asked.words_per_minute),
        dark=is_dark(),
    )
    show_still(figure, key="trade", alt="Tokens a second in all and a request, by batch size")
    st.caption(figure_caption(rows))
    said = (free_text(case), wall_text(asked), reading_text(asked, fitting(rows)[-1]), bits_text(asked))
    st.markdown("\n".join(f"- {line}" for line in said))
    if not _at_chapter(fields):
        st.button("Back to the chapter's conditions", icon=":material/undo:", on_click=_reset, args=(fields,))


FRAME = ("batch_size", "tokens_per_s", "tokens_per_s_per_request", "step_s")


def _draw_table(asked: Asked, rows: list[WhatIfRow], at_chapter: bool) -> None:
    st.subheader("Every batch size", anchor="table")
    draw_table(HEADER, table_rows(rows, knows_memory=asked.knows_memory), figures=FIGURES)
    st.caption(f"{plain(asked.machine.label)}. {plain(asked.machine.source)}.".replace("..", "."))
    if at_chapter:
        claims = chapter_claims(asked.case)
        st.subheader("The chapter's figures, rebuilt", anchor="claims")
        draw_table(CLAIM_HEADER, claim_rows(claims), figures=(1, 2, 3))
        st.caption(claims_caption(claims))
    with st.expander("How this is reckoned, and what is left out"):
        st.markdown(WHY)


def _at_chapter(fields: Fields) -> bool:
    return is_chapter({name: setting(name) for name in fields})


def _reset(fields: Fields) -> None:
    put({name: field.default for name, field in fields.items()})


entry_guard(render)
