"""History: all runs, the newest first: open one, set two against each other, delete what is not wanted any more."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from pages.parts.compare_choice import MAX_RUNS, RUNS
from pages.parts.format import plain, plural
from pages.parts.front_door import front_door
from pages.parts.history_table import history_table, kept_apart, named
from pages.parts.lab import lab
from pages.parts.run_choice import draw_no_runs

PAGE_RUNS = 50
NOTICE = "history_notice"
WATCH_S = 2.0


def render() -> None:
    """The table, a page of it at a time, and what can be done with the selected rows."""
    st.title("History", anchor=False)
    if NOTICE in st.session_state:
        st.toast(st.session_state.pop(NOTICE), icon=":material/delete:")
    known = lab().store.count_runs()
    if not known:
        draw_no_runs("Every run is listed here, those of the command line too.")
        return
    st.markdown("Every run, the newest first. Select rows to open, compare or delete them.")
    actions = st.container(horizontal=True, vertical_alignment="center")
    offset = _offset(known)
    rows = _rows(offset)
    chosen = _draw_table(rows)
    with actions:
        _draw_actions(chosen)
    st.caption(f"{plural(known, 'run')} in {lab().home}. Runs made on the command line appear by themselves.")
    _watch(offset, _fingerprint(rows))


def _offset(known: int) -> int:
    """Where the page that is open begins."""
    pages = -(-known // PAGE_RUNS)
    page = st.pagination(pages, key="page", bind="query-params") if pages > 1 else 1
    return (page - 1) * PAGE_RUNS


def _rows(offset: int) -> pd.DataFrame:
    return lab().store.runs(limit=PAGE_RUNS, offset=offset)


def _fingerprint(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """What has to change for the table to be drawn anew."""
    return [] if rows.empty else list(zip(rows["run_id"], rows["status"], strict=True))


@st.fragment(run_every=WATCH_S)
def _watch(offset: int, drawn: list[tuple[str, str]]) -> None:
    if _fingerprint(_rows(offset)) != drawn:
        st.rerun()


def _draw_table(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The selected rows."""
    event = st.dataframe(
        history_table(rows),
        hide_index=True,
        height="content",
        column_config=_column_config(),
        on_select="rerun",
        selection_mode="multi-row",
        key=f"history_{len(rows)}_" + "_".join(rows["run_id"].iloc[[0, -1]] if len(rows) else []),  # goes by place
        alt="All runs",
    )
    places = [place for place in event["selection"]["rows"] if place < len(rows)]
    return rows.iloc[places].to_dict("records")


def _draw_actions(chosen: list[dict[str, Any]]) -> None:
    deletable, running = kept_apart(chosen)
    if st.button("Open", icon=":material/view_timeline:", disabled=len(chosen) != 1, help="Select one run"):
        st.switch_page("pages/run.py", query_params={"run_id": str(chosen[0]["run_id"])})
    can_compare = 2 <= len(chosen) <= MAX_RUNS
    if st.button(
        "Compare", icon=":material/compare_arrows:", disabled=not can_compare, help=f"Select two to {MAX_RUNS} runs"
    ):
        oldest_first = [str(row["run_id"]) for row in reversed(chosen)]
        st.switch_page("pages/compare.py", query_params={RUNS: ",".join(oldest_first)})
    if st.button("Delete …", icon=":material/delete:", disabled=not deletable, help="It asks before it deletes"):
        _confirm([row for row in chosen if str(row["run_id"]) in deletable])
    if running:
        st.caption(f"{plural(len(running), 'run')} of the selection still going: stop it on Bench before deleting it.")
    elif chosen:
        st.caption(f"{plural(len(chosen), 'run')} selected")


@st.dialog("Delete for good?", icon=":material/delete:")
def _confirm(rows: list[dict[str, Any]]) -> None:
    what = plural(len(rows), "run")
    st.markdown(f"{what} with all tokens, passes and answers, in the store and on disk:")
    st.markdown("\n".join(f"- {plain(line)}" for line in named(rows)))
    with st.container(horizontal=True):
        if st.button(f"Delete {what}", type="primary", icon=":material/delete_forever:"):
            _delete(rows)
            st.rerun()
        if st.button("Keep"):
            st.rerun()


def _delete(rows: list[dict[str, Any]]) -> None:
    refused = []
    for row in rows:
        try:
            lab().store.delete_run(str(row["run_id"]))
        except (KeyError, ValueError) as error:  # deleted by another visitor meanwhile, or running again
            refused.append(str(error.args[0] if error.args else error))
    gone = plural(len(rows) - len(refused), "run")
    st.session_state[NOTICE] = f"Deleted {gone}." + "".join(f" {line}" for line in refused)


def _column_config() -> dict[str, Any]:
    number = st.column_config.NumberColumn
    return {
        "open": st.column_config.LinkColumn("open", display_text="open", width="small"),
        "status": st.column_config.TextColumn(width="medium"),
        "tokens/s": number(format="%.3g"),
        "first token p50, s": number(format="%.3g"),
        "dead, %": number(format="%.3g"),
        "duration, s": number(format="%.3g"),
        "new tokens": number(format="localized"),
        "requests": number(format="localized"),
    }


front_door(render)
