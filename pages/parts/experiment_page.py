"""The frame of an experiment's page: the one that is shown, how far it is, a form for another, its results, its tools.

`?experiment=` names the one that is shown; a form's settings go along in the address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import streamlit as st

from pages.parts.bench_fields import Field, complaints
from pages.parts.experiment_choice import EXPERIMENT, choose_experiment
from pages.parts.experiment_progress import show_progress
from pages.parts.experiment_results import draw_unreadable
from pages.parts.experiment_start import is_form_open
from pages.parts.experiment_tools import delete_if_confirmed, draw_experiment_tools
from pages.parts.markdown import plain
from pages.parts.predictions_section import draw_predictions
from store.predicting import Subject

REFRESH_S = 2.0


class Followed(Protocol):
    """What a page shows of an experiment while the store may yet have to read its last runs."""

    @property
    def is_being_read(self) -> bool: ...


Data = TypeVar("Data", bound=Followed)


def draw_experiment_page(
    *,
    kind: str,
    noun: str,
    command: str,
    fields: Mapping[str, Field],
    limits: Mapping[str, Field],
    draw_form: Callable[[], None],
    draw_results: Callable[[str, bool], None],
    command_does: str = "does the same",
) -> None:
    """All below a page's introduction. `noun` is what the page calls one; `command` makes one without the app, and
    `command_does` says how far it is the same.

    `fields` are the form's, `limits` those that the results are looked at by; without `fields` the form is but a way to
    another page. `draw_results` gets the experiment's id and whether it is still going.
    """
    delete_if_confirmed()
    for line in complaints(st.query_params.to_dict(), {**fields, **limits}):
        st.warning(f"This link asks for something that cannot be set: {plain(line)}.", icon=":material/link_off:")
    is_open = is_form_open(any(name in st.query_params for name in fields))
    chosen = choose_experiment(kind, noun)
    if chosen is None and EXPERIMENT not in st.query_params:
        st.info(
            f"No {noun} has been run yet. {'The settings below make' if fields else 'Bench makes'} one; on the command "
            f"line `{command}` {command_does}, and what it measures appears here.",
            icon=":material/hourglass_empty:",
        )
    if chosen is None:
        if fields:
            st.subheader(f"A new {noun}", anchor=False)
        draw_form()
        return
    is_live = show_progress(chosen) == "live"
    another = f"Set up another {noun}"
    with st.expander(another, icon=":material/add:", expanded=is_open) if fields else st.container():
        draw_form()
    draw_predictions(Subject(kind="experiment", subject_id=chosen))
    draw_results(chosen, is_live)
    if not is_live:
        draw_experiment_tools(chosen)


def follow_results(
    experiment_id: str,
    is_live: bool,
    load: Callable[[str], Data | None],
    draw: Callable[[str, Data | None], None],
    *,
    first: Callable[[str], Data | None] | None = None,
) -> None:
    """Results, drawn again while the experiment runs, and after it until the store has read its last runs.

    `draw` gets what `load` finds, None where the store has no plan; one that is damaged is said to be. `first` is asked
    in place of `load` when they are drawn with the page, which may have loaded the experiment for itself.
    """
    try:
        data = (first or load)(experiment_id)
    except ValueError as error:
        draw_unreadable(error)
        return
    is_being_read = data is not None and data.is_being_read
    held = [data]  # what was loaded with the page is drawn once; from then on it is out of date

    def draw_again() -> None:
        try:
            found = held.pop() if held else load(experiment_id)
        except ValueError as error:
            draw_unreadable(error)
            return
        if is_being_read and not is_live and found is not None and not found.is_being_read:
            st.rerun()
        draw(experiment_id, found)

    st.fragment(draw_again, run_every=REFRESH_S if is_live or is_being_read else None)()
