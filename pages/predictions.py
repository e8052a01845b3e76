"""Predictions of runs and experiments, their grades, and the share that held. `?prediction=ID` shows one; the filter is
in the address.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from engine.core.format import plural
from pages.figures.frames import records
from pages.parts.predictions.published import draw_published
from pages.parts.predictions.section import draw_prediction, state_of_predictions
from pages.parts.predictions.text import tally_text
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import linked, one_of, place
from pages.parts.shared.widgets import draw_complaints

PREDICTION = "prediction"
SHOW = "show"
PAGE = "page"
PAGE_ROWS = 20
FILTERS: Mapping[str, tuple[str, ...]] = {
    "all": ("open", "pending", "held", "missed", "ungraded"),
    "open": ("open",),
    "closed": ("pending", "ungraded"),
    "held": ("held",),
    "missed": ("missed",),
}
WATCH_S = 2.0


def render() -> None:
    """The stored predictions with their grades, then those of published texts."""
    st.title("Predictions", anchor=False)
    draw_complaints({}, also=(PREDICTION, SHOW, PAGE))
    st.markdown(
        "You learn more from a number you predicted than from one you only read.",
        help="Add predictions on Bench, Sweep or Load before the job starts. A prediction closes when the job's first "
        "run starts and is graded after that run.",
    )
    rows = lab().store.predictions.list()
    asked = st.query_params.get(PREDICTION)
    if asked is not None:
        _draw_asked(rows, asked)
    elif rows.empty:
        _draw_none()
    else:
        _draw_all(rows)
    st.subheader("Predictions of two published texts", anchor="texts")
    st.caption(
        "Their times are those of one GPU; the ratios can be measured on any machine. *Here* is the ratio that this "
        "lab measured."
    )
    draw_published()
    _watch(_state(rows))


def _draw_none() -> None:
    st.info("No predictions yet.", icon=":material/psychology:")
    st.page_link("pages/bench.py", label="Predict a run on Bench", icon=":material/tune:")


def _draw_asked(rows: pd.DataFrame, asked: str) -> None:
    """The prediction in the address, and a button back to all."""
    found = records(rows[rows["prediction_id"] == asked])
    if found:
        draw_prediction(found[0], with_subject=True)
    else:
        st.warning(
            f"There is no prediction {plain(asked[:40])} here: it may have been withdrawn.", icon=":material/link_off:"
        )
    if st.button("All predictions", icon=":material/arrow_back:"):
        st.query_params.pop(PREDICTION, None)
        st.rerun()


def _draw_all(rows: pd.DataFrame) -> None:
    st.markdown(f"**{plain(tally_text(rows))}**")
    counted = [f"{int(rows['outcome'].isin(FILTERS[name]).sum()):,} {name}" for name in list(FILTERS)[1:]]
    st.caption(f"{plural(len(rows), 'prediction')}: {', '.join(counted)}.")
    if st.query_params.get(SHOW, "all") not in FILTERS:
        st.warning(
            f"Unknown filter {plain(st.query_params[SHOW][:40])} in this link: use one of {', '.join(FILTERS)}. All "
            "predictions are shown.",
            icon=":material/link_off:",
        )
    with linked(SHOW, "all", one_of(list(FILTERS))) as key:
        shown = st.segmented_control("Show", list(FILTERS), key=key, required=True, persist_state="page") or "all"
    matching = rows[rows["outcome"].isin(FILTERS[shown])]
    if matching.empty:
        st.info(f"None of the {plural(len(rows), 'prediction')} is {shown}.", icon=":material/search_off:")
    with linked(PAGE, 1, place) as key:
        pages = max(1, -(-len(matching) // PAGE_ROWS))
        if st.session_state[key] > pages:
            st.session_state[key] = pages
        first = (st.session_state[key] - 1) * PAGE_ROWS
        for row in records(matching.iloc[first : first + PAGE_ROWS]):
            draw_prediction(row, with_subject=True)
        if pages > 1:
            st.pagination(pages, key=key, persist_state="page")


@st.fragment(run_every=WATCH_S)
def _watch(drawn: tuple[tuple[str, ...], ...]) -> None:
    """Draw the page again when a prediction is added, edited, closed or graded."""
    if _state(lab().store.predictions.list()) != drawn:
        st.rerun()


def _state(rows: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    return state_of_predictions(records(rows))


entry_guard(render)
