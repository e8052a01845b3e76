"""A visitor's question from asking to its answer: the snapshot it is asked of, its process, what came of it.

It lives in the visitor's session, so that it survives whatever else the visitor clicks on while it runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count

import pandas as pd
import streamlit as st

from engine.core.format import plural
from pages.parts.query.link import params_of
from pages.parts.shared.lab import lab
from store.sandbox import Answer, Asking, Limits, Refusal
from store.sandbox.answer_files import flat
from store.snapshot.snapshot import Snapshot

EDITOR = "query.sql"  # the editor's text
PENDING = "query.pending"  # a text that is to be asked in this run of the page
ASKED = "query.asked"
HANDLED = "query.handled"  # the page's address as it was last taken up, or written
ROWS, SECONDS = "query.rows", "query.seconds"
ROW_CHOICES, SECOND_CHOICES = (1_000, 10_000, 100_000), (5, 15, 60)

_numbers = count(1)


@dataclass(slots=True, kw_only=True)
class Asked:
    """A question of this visitor. Once it is settled, either `answer` and `frame` are there, or `refusal`."""

    sql: str
    number: int  # its own, for the keys of what is drawn of it
    snapshot: Snapshot | None = None
    asking: Asking | None = None
    answer: Answer | None = None
    frame: pd.DataFrame | None = None
    refusal: Refusal | None = None

    @property
    def is_settled(self) -> bool:
        return self.answer is not None or self.refusal is not None


def put(sql: str) -> None:
    """Write a question into the editor and ask it: for the callbacks of buttons."""
    st.session_state[EDITOR] = sql
    st.session_state[PENDING] = sql


def asked() -> Asked | None:
    """The visitor's last question."""
    found: Asked | None = st.session_state.get(ASKED)
    return found


def begin_pending() -> None:
    """Ask what is waiting to be asked: of a fresh snapshot, which may have to be made first."""
    sql: str | None = st.session_state.get(PENDING)
    if sql is None:
        return
    before = asked()
    if before is not None and before.asking is not None:
        before.asking.cancel()
    question = Asked(sql=sql, number=next(_numbers))
    try:
        if not sql.strip():
            raise ValueError("There is no question in the editor yet.")
        question.snapshot = fresh_snapshot()
        question.asking = Asking(question.snapshot.path, sql, _limits())
    except (ValueError, OSError) as error:
        question.refusal = Refusal(str(error), "statement")
    st.session_state[ASKED] = question
    del st.session_state[PENDING]  # last: a run of the page that is broken off here asks it again
    _note_in_address(sql)


def fresh_snapshot() -> Snapshot:
    """The snapshot of the store as it is now; while a new one is made, the page says so."""
    snapshots = lab().store.snapshots
    latest = snapshots.latest()
    if latest is not None and not snapshots.is_stale():
        return latest
    bar = st.progress(0.0, text="Runs have changed: taking a snapshot of the store …")
    try:
        return snapshots.publish(lambda share, what: bar.progress(min(share, 1.0), text=f"Taking a snapshot: {what} …"))
    finally:
        bar.empty()


def settle(question: Asked) -> None:
    """Take up what came of a question whose process has ended."""
    assert question.asking is not None
    try:
        answer = question.asking.result()
        question.frame = flat(answer.table).to_pandas()
        question.answer = answer
        outcome = plural(answer.table.num_rows, "row")
    except Refusal as refusal:
        question.refusal = refusal
        outcome = "not answered"
    lab().store.saved_queries.remember(question.sql, outcome)


def running_s(question: Asked) -> float:
    """How long its process has been going."""
    return time.monotonic() - question.asking.began if question.asking is not None else 0.0


def _limits() -> Limits:
    rows, seconds = st.session_state.get(ROWS), st.session_state.get(SECONDS)
    return Limits(timeout_s=float(seconds or SECOND_CHOICES[0]), max_rows=int(rows or ROW_CHOICES[1]))


def _note_in_address(sql: str) -> None:
    """Let the page's address carry the question, where it is short enough."""
    params = params_of(sql) or {}
    if st.query_params.to_dict() != params:
        st.query_params.from_dict(params)
    st.session_state[HANDLED] = params
