"""Predictions: what was expected of runs and experiments, how it came out, and how often one is right.

`?prediction=ID` shows one; filters are in the address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from engine.core.format import plural
from pages.parts.predictions.published import draw_published
from pages.parts.predictions.section import draw_prediction, state_of_predictions
from pages.parts.predictions.text import tally_text
from pages.parts.shared.front_door import front_door
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import linked, one_of, place

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
    """One's own predictions with their grades, then those of the texts."""
    st.title("Predictions", anchor=False)
    st.markdown(
        "A figure that was expected teaches more than one that was only looked at. Write down what you expect on "
        "Bench, Sweep or Load before the job starts; it closes when its first run starts and is graded when that is "
        "over."
    )
    rows = lab().store.predictions.list()
    asked = st.query_params.get(PREDICTION)
    if asked is not None:
        _draw_asked(rows, asked)
    elif rows.empty:
        _draw_none()
    else:
        _draw_all(rows)
    st.subheader("What two texts predicted", anchor="texts")
    st.caption(
        "Their seconds belong to their card; what can be asked of any machine is a ratio, beside which stands this "
        "lab's own, where an experiment here has asked the same."
    )
    draw_published()
    _watch(_pulse(rows))


def _draw_none() -> None:
    st.info("You have not predicted anything yet.", icon=":material/psychology:")
    st.page_link("pages/bench.py", label="Set up a run on Bench and say what you expect", icon=":material/tune:")


def _draw_asked(rows: pd.DataFrame, asked: str) -> None:
    """The one that the address names, and the way back to all."""
    mine = rows[rows["prediction_id"] == asked].to_dict("records")
    if mine:
        draw_prediction(_row(mine[0]), with_subject=True)
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
            f"This link asks for predictions that are {plain(st.query_params[SHOW][:40])}: use one of "
            f"{', '.join(FILTERS)}; all are shown instead.",
            icon=":material/link_off:",
        )
    with linked(SHOW, "all", one_of(list(FILTERS))) as key:
        shown = st.segmented_control("Show", list(FILTERS), key=key, required=True, persist_state="page") or "all"
    fitting = rows[rows["outcome"].isin(FILTERS[shown])]
    if fitting.empty:
        st.info(f"None of the {plural(len(rows), 'prediction')} is {shown}.", icon=":material/search_off:")
    with linked(PAGE, 1, place) as key:
        pages = max(1, -(-len(fitting) // PAGE_ROWS))
        if st.session_state[key] > pages:
            st.session_state[key] = pages
        first = (st.session_state[key] - 1) * PAGE_ROWS
        for row in fitting.iloc[first : first + PAGE_ROWS].to_dict("records"):
            draw_prediction(_row(row), with_subject=True)
        if pages > 1:
            st.pagination(pages, key=key, persist_state="page")


def _row(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}


@st.fragment(run_every=WATCH_S)
def _watch(drawn: tuple[tuple[str, ...], ...]) -> None:
    """The page is drawn anew when a prediction was made, edited, closed or graded, by whomever."""
    if _pulse(lab().store.predictions.list()) != drawn:
        st.rerun()


def _pulse(rows: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    return state_of_predictions(rows.to_dict("records"))


front_door(render)
