"""One request as it ran: its full prompt, its answer in each run, and its times."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from functools import partial

import pandas as pd
import streamlit as st

from engine.core.format import count, duration, is_missing, plural
from pages.parts.runs.answers import answer_or_note, answers_of, with_texts
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.shared.charts import in_columns
from pages.parts.shared.markdown import plain


def draw_texts(run: LoadedRun, row: pd.Series) -> None:
    """A request's full prompt and answer side by side. `row` is its row of the run's requests, with texts."""
    in_columns([partial(_draw_prompt, row), partial(_draw_answer, "Answer", run, row)])


def draw_request(runs: Mapping[str, LoadedRun], request_id: int) -> None:
    """A request's prompt, and its answer and times in each run that has it."""
    rows = {name: row for name, run in runs.items() if (row := _row_of(run, request_id)) is not None}
    if not rows:
        st.caption(f"There is no request {request_id} here.")
        return
    answers = [partial(_draw_answer, plain(name).capitalize(), runs[name], row) for name, row in rows.items()]
    prompt = partial(_draw_prompt, next(iter(rows.values())))
    if len(runs) == 1:
        in_columns([prompt, *answers])
        return
    prompt()
    in_columns(answers)


def _row_of(run: LoadedRun, request_id: int) -> pd.Series | None:
    """The request's row with prompt_text and output_text; None where the run has no such request."""
    found = run.requests[run.requests["request_id"] == request_id]
    if found.empty:
        return None
    shown = with_texts(run, found)
    return shown.assign(output_text=shown["request_id"].map(answers_of(run, shown))).iloc[0]


def _draw_prompt(row: pd.Series) -> None:
    st.markdown(f"**Prompt of request {int(row['request_id'])}** · {plural(int(row['prompt_tokens']), 'token')}")
    st.html(text_block(row["prompt_text"] or "The prompt's text was not logged."))


def _draw_answer(title: str, run: LoadedRun, row: pd.Series) -> None:
    st.markdown(f"**{title}** · {answer_stats(row)}")
    st.html(text_block(answer_or_note(row["output_text"], row, run.status)))


def text_block(text: str) -> str:
    """Foreign text as HTML, line by line, in a box that scrolls."""
    style = "white-space: pre-wrap; overflow-wrap: anywhere; max-height: 20rem; overflow-y: auto; line-height: 1.45;"
    border = "border: 1px solid rgba(128,128,128,.3); border-radius: .5rem; padding: .6rem .8rem;"
    return f'<div class="text" style="{style} {border}">{html.escape(text)}</div>'


def answer_stats(row: pd.Series) -> str:
    """`6 tokens, waited 12.0 ms, first after 310 ms, complete after 1.20 s, ended by its budget`."""
    tokens = int(row["output_tokens"]) if not is_missing(row["output_tokens"]) else 0
    parts = [plural(tokens, "token")]
    times = (("queue_wait_s", "waited"), ("ttft_s", "first token after"), ("e2e_s", "complete after"))
    parts += [f"{text} {duration(row[name])}" for name, text in times if _is_known(row.get(name))]
    lost = row.get("preemptions")
    if not is_missing(lost) and lost:
        parts.append(f"preempted {'once' if lost == 1 else f'{count(lost)} times'}")
    ended = {"budget": "ended by its budget", "eos": "ended by the model"}
    return ", ".join([*parts, ended.get(str(row["finish_reason"]), str(row["state"]))])


def _is_known(value: float | None) -> bool:
    return not is_missing(value) and value is not None and math.isfinite(value)
