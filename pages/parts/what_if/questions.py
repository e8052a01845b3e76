"""Eight questions from a lesson on static batching, each with a calculator.

The fields start at the lesson's own case. The arithmetic is in engine.hardware.self_check, the text in answers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from pages.parts.shared.fields import Text
from pages.parts.shared.markdown import plain
from pages.parts.shared.widgets import number, text
from pages.parts.what_if import answers
from pages.parts.what_if.controls import QUESTION_FIELDS

QUESTIONS: tuple[tuple[str, tuple[str, ...], Callable[..., str]], ...] = (
    (
        "1. Does a larger batch read more weights per step?",
        ("q1_parameters", "q1_batch"),
        answers.shared_weights,
    ),
    (
        "2. On which of two GPUs is batching nearly free for longer?",
        ("q2_a", "q2_b"),
        answers.two_gpus,
    ),
    (
        "3. How can a step be past the balance point and far from the compute ceiling?",
        ("q3_intensity", "q3_balance", "q3_compute"),
        answers.two_ceilings,
    ),
    (
        "4. Why does a larger static batch have a later first token, and what helps its first request?",
        ("q4_batch", "q4_prompt", "q4_rate", "q4_group"),
        answers.first_tokens,
    ),
    (
        "5. How much memory do the logits of every prompt position take?",
        ("q5_batch", "q5_prompt", "q5_vocab"),
        answers.all_logits,
    ),
    (
        "6. How much of a batch is wasted when a few long requests hold many short ones?",
        ("q6_budgets",),
        answers.long_and_short,
    ),
    (
        "7. Which batch size suits an interactive user, and which a job overnight?",
        ("q7_limit", "q7_documents", "q7_tokens"),
        answers.interactive_or_overnight,
    ),
    (
        "8. One request was slower than two together: how to find out why?",
        ("q8_busy", "q8_quiet", "q8_kernels"),
        answers.slow_single_request,
    ),
)


def draw_questions() -> None:
    """The eight questions in expanders; each answer follows its fields."""
    st.subheader("Eight questions to check yourself", anchor="questions")
    st.markdown("Guess before you open one; the fields start at the case of a published lesson.")
    for question, names, answer in QUESTIONS:
        with st.expander(question):
            values = _inputs(names)
            try:
                st.markdown(answer(*values))
            except ValueError as error:
                st.caption(f":red[:material/error: {plain(str(error))}]")


def _inputs(names: tuple[str, ...]) -> list[Any]:
    values = []
    for column, name in zip(st.columns(max(2, len(names))), names, strict=False):
        with column:
            if isinstance(QUESTION_FIELDS[name], Text):
                values.append(text(name, fields=QUESTION_FIELDS))
            else:
                values.append(number(name, least=0.001, fields=QUESTION_FIELDS))
    return values
