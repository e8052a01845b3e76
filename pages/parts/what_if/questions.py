"""Eight questions that a lesson on static batching leaves its readers with, each with a calculator that answers it.

What stands in the fields at first is the lesson's own case, so that its figures come out. The arithmetic is
engine.hardware.self_check's; this module asks and puts the answers in words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from pages.parts.shared.markdown import plain
from pages.parts.shared.widgets import number, text
from pages.parts.what_if import answers
from pages.parts.what_if.controls import QUESTION_FIELDS

Inputs = tuple[tuple[str, str], ...]  # label, field

QUESTIONS: tuple[tuple[str, Inputs, Callable[..., str]], ...] = (
    (
        "1. Do more requests make a step read more weights?",
        (("Parameters, billions", "q1_parameters"), ("Batch", "q1_batch")),
        answers.shared_weights,
    ),
    (
        "2. On which of two cards does batching stay free for longer?",
        (("Balance point of A, FLOP a byte", "q2_a"), ("Balance point of B", "q2_b")),
        answers.two_cards,
    ),
    (
        "3. Past the balance point, yet far from the compute ceiling: how can both be?",
        (
            ("Intensity, FLOP a byte", "q3_intensity"),
            ("Balance point", "q3_balance"),
            ("Share of compute reached, %", "q3_compute"),
        ),
        answers.two_ceilings,
    ),
    (
        "4. Why does a larger static batch say its first token later, and what would help its first reader?",
        (
            ("Batch", "q4_batch"),
            ("Tokens a prompt", "q4_prompt"),
            ("Prompt tokens read a second", "q4_rate"),
            ("Prompts read at once instead", "q4_group"),
        ),
        answers.first_sentence,
    ),
    (
        "5. What would it take to keep the logits of every prompt position?",
        (("Batch", "q5_batch"), ("Tokens a prompt", "q5_prompt"), ("Vocabulary", "q5_vocab")),
        answers.all_logits,
    ),
    (
        "6. How much of a batch is wasted when a few long requests hold many short ones?",
        (("Budgets, requests x tokens", "q6_budgets"),),
        answers.long_and_short,
    ),
    (
        "7. Which batch suits a reader who waits, and which a night's work?",
        (
            ("First token within, s", "q7_limit"),
            ("Documents overnight", "q7_documents"),
            ("New tokens a document", "q7_tokens"),
        ),
        answers.reader_or_night,
    ),
    (
        "8. One request alone was slower than two together: what would show why?",
        (("Step measured, ms", "q8_busy"), ("Step on a quiet host, ms", "q8_quiet"), ("Kernels a pass", "q8_kernels")),
        answers.slow_alone,
    ),
)


def draw_questions() -> None:
    """The eight, folded; each answers as its fields change."""
    st.subheader("Eight questions to check yourself", anchor="questions")
    st.markdown("Guess first, then open one. The fields start at the case of a published lesson; change them freely.")
    for question, inputs, answer in QUESTIONS:
        with st.expander(question):
            values = _inputs(inputs)
            try:
                st.markdown(answer(*values))
            except ValueError as error:
                st.caption(f":red[:material/error: {plain(str(error))}]")


def _inputs(inputs: Inputs) -> list[Any]:
    values = []
    for column, (label, name) in zip(st.columns(max(2, len(inputs))), inputs, strict=False):
        with column:
            if name == "q6_budgets":
                values.append(text(label, name, "30x20+2x1000", fields=QUESTION_FIELDS))
            else:
                values.append(number(label, name, least=0.001, fields=QUESTION_FIELDS))
    return values
