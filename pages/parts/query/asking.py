"""A visitor's query: the snapshot it runs on, its process, and its answer.

It is in the visitor's session, so that other clicks do not lose it while it runs.
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
PENDING = "query.pending"  # a text to run in this run of the page
ASKED = "query.asked"
HANDLED = "query.handled"  # the address that was last read or written
UNREAD = "query.unread"  # a text from a link that the visitor has not run
OWN = "query.own"  # the texts that the visitor has run; links to them, as by Back, run at once
ROWS, SECONDS = "query.rows", "query.seconds"
ROW_CHOICES, SECOND_CHOICES = (1_000, 10_000, 100_000), (5, 15, 60)

_numbers = count(1)


@dataclass(slots=True, kw_only=True)
class AskedQuery:
    """A query of this visitor. A settled one has either `answer` and `frame`, or `refusal`."""

    sql: str
    number: int  # unique, for the keys of its widgets
    snapshot: Snapshot | None = None
    asking: Asking | None = None
    answer: Answer | None = None
    frame: pd.DataFrame | None = None
    refusal: Refusal | None = None

    @property
    def is_settled(self) -> bool:
        return self.answer is not None or self.refusal is not None


def put(sql: str) -> None:
    """Write a query into the editor and run it. For a button's `on_click`."""
    st.session_state[EDITOR] = sql
    st.session_state[PENDING] = sql


def fill(sql: str) -> None:
    """Write a query from a link into the editor; it runs when the visitor presses Run."""
    st.session_state[EDITOR] = st.session_state[UNREAD] = sql
    st.session_state[ASKED] = None


def is_own(sql: str) -> bool:
    """Whether the visitor has run this text before."""
    return sql in st.session_state.get(OWN, set())


def asked() -> AskedQuery | None:
    """The visitor's last query."""
    found: AskedQuery | None = st.session_state.get(ASKED)
    return found


def begin_pending() -> None:
    """Start the pending query on a current snapshot, which is made first where needed."""
    sql: str | None = st.session_state.get(PENDING)
    if sql is None:
        return
    before = asked()
    if before is not None and before.asking is not None:
        before.asking.cancel()
    question = AskedQuery(sql=sql, number=next(_numbers))
    try:
        if not sql.strip():
            raise ValueError("Write a query into the editor first.")
        question.snapshot = fresh_snapshot()
        question.asking = Asking(question.snapshot.path, sql, _limits(), lab().turns)
    except (ValueError, OSError) as error:
        question.refusal = Refusal(str(error), "statement")
    st.session_state[ASKED] = question
    st.session_state[UNREAD] = None
    st.session_state.setdefault(OWN, set()).add(sql.strip())
    del st.session_state[PENDING]  # last: a run of the page that is interrupted here starts it again
    _write_address(sql)


def fresh_snapshot() -> Snapshot:
    """A snapshot of the store as it is now. A new one is made with a progress bar."""
    snapshots = lab().store.snapshots
    latest = snapshots.latest()
    if latest is not None and not snapshots.is_stale():
        return latest
    bar = st.progress(0.0, text="Runs have changed: taking a snapshot of the store …")

    def show_progress(share: float, what: str) -> None:
        bar.progress(min(share, 1.0), text=f"Taking a snapshot: {what} …")

    try:
        return snapshots.publish(show_progress)
    finally:
        bar.empty()


def settle(question: AskedQuery) -> None:
    """Read the result of a query whose process has ended."""
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


def running_s(question: AskedQuery) -> float | None:
    """How long its process has run, in seconds; None while it waits for its turn."""
    began = None if question.asking is None else question.asking.began
    return None if began is None else time.monotonic() - began


def _limits() -> Limits:
    rows, seconds = st.session_state.get(ROWS), st.session_state.get(SECONDS)
    return Limits(timeout_s=float(seconds or SECOND_CHOICES[0]), max_rows=int(rows or ROW_CHOICES[1]))


def _write_address(sql: str) -> None:
    """Put the query into the page's address, if it is short enough."""
    params = params_of(sql) or {}
    if st.query_params.to_dict() != params:
        st.query_params.from_dict(params)
    st.session_state[HANDLED] = params
