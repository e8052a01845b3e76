"""The table of a run's requests, and the full prompt and answer of the selected one."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from engine.core.format import plural
from pages.parts.runs.answers import answers_of, with_texts
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.runs.request_texts import draw_texts
from pages.parts.shared.page_state import page_key
from pages.parts.shared.tables import TABLE_FORMAT

PAGE_ROWS = 200
CUT = 160

COLUMNS = {
    "request_id": "request",
    "prompt_text": "prompt",
    "output_text": "answer",
    "prompt_tokens": "prompt tokens",
    "output_tokens": "new tokens",
    "ttft_s": "TTFT, s",
    "e2e_s": "E2E, s",
    "tpot_s": "TPOT, s",
    "queue_wait_s": "queue wait, s",
    "arrival_s": "arrival, s",
    "budget_tokens": "budget",
    "state": "state",
    "finish_reason": "ended by",
    "preemptions": "preempted",
    "label": "prompt kind",
}
_SECONDS = ("arrival_s", "queue_wait_s", "ttft_s", "tpot_s", "e2e_s")


@st.fragment
def draw_requests(run: LoadedRun) -> None:
    """The table page by page, then the selected request's texts. A selection redraws this section only."""
    if run.requests.empty:
        st.markdown("No request was logged.")
        return
    shown = with_texts(run, _one_page(run.requests))
    shown = shown.assign(output_text=shown["request_id"].map(answers_of(run, shown)))
    event = st.dataframe(
        table_of(shown),
        hide_index=True,
        height=min(35 * (len(shown) + 1) + 3, 423),
        column_config=_column_config(),
        on_select="rerun",
        selection_mode="single-row",
        key=page_key(f"requests_{run.run_id}"),
        alt="Requests",
    )
    st.caption(f"{plural(len(run.requests), 'request')}. Select a row to read its full prompt and answer.")
    chosen = event["selection"]["rows"]
    place = chosen[0] if chosen and chosen[0] < len(shown) else 0
    draw_texts(run, shown.iloc[place])


def table_of(requests: pd.DataFrame) -> pd.DataFrame:
    """The requests as the table shows them: texts cut to one line, preemptions only where there are any."""
    known = [column for column in COLUMNS if column in requests]
    if "preemptions" in known and not requests["preemptions"].fillna(0).any():
        known.remove("preemptions")
    table = requests[known].copy()
    for column in ("prompt_text", "output_text"):
        table[column] = table[column].map(_one_line)
    return table.rename(columns=COLUMNS)


def _one_page(requests: pd.DataFrame) -> pd.DataFrame:
    pages = -(-len(requests) // PAGE_ROWS)
    if pages == 1:
        return requests
    page = st.pagination(pages, key=page_key("requests_page"))
    return requests.iloc[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]


def _one_line(text: Any) -> str | None:
    if not isinstance(text, str):
        return None
    line = " ".join(text[: 2 * CUT].split())
    return line if len(line) <= CUT and len(text) <= 2 * CUT else f"{line[:CUT]} …"


def _column_config() -> dict[str, Any]:
    config: dict[str, Any] = {COLUMNS[name]: st.column_config.NumberColumn(format=TABLE_FORMAT) for name in _SECONDS}
    config["request"] = st.column_config.NumberColumn(pinned=True, width="small")
    config["prompt"] = st.column_config.TextColumn(width="medium")
    config["answer"] = st.column_config.TextColumn(width="medium")
    return config
