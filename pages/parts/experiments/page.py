"""The page of an experiment: the one that is shown, how far it is, a form for another, its results, its tools.

`?experiment=` names the one that is shown; a form's settings go along in the address. What differs from kind to kind
stands in an `ExperimentPage`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import plural
from engine.runlog.experiment_log import EXPERIMENT_FILE
from pages.parts.experiments.choice import EXPERIMENT, choose_experiment
from pages.parts.experiments.form import fill_form, is_form_open
from pages.parts.experiments.progress import show_progress
from pages.parts.experiments.stored import StoredExperiment, busy_line_of
from pages.parts.predictions.section import draw_predictions
from pages.parts.runs.badges import RANDOM_WEIGHTS
from pages.parts.runs.run_actions import delete_experiment, draw_download, predictions_text
from pages.parts.runs.run_text import machine_line
from pages.parts.shared.fields import Field, complaints
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from store.predictions.predictions import Subject
from store.queries.history import RunFilter

# What can be done with an experiment as a whole: taken along as one file, deleted with its runs.

TO_DELETE = "lab.experiment_to_delete"


def delete_if_confirmed() -> None:
    """Called before a page of experiments draws anything: carry out what its dialog was told, and go to History.

    Not from the dialog itself: the page's bar would go on asking to be drawn anew meanwhile, and a request of the old
    page behind the way to the new one brings the old page's address back. A page that is drawn anew stops asking.
    """
    experiment_id = st.session_state.pop(TO_DELETE, None)
    if experiment_id is not None:
        with st.spinner("Deleting …"):
            delete_experiment(experiment_id)
        st.switch_page("pages/history.py")


def draw_experiment_tools(experiment_id: str) -> None:
    """Two buttons. Deleting asks first, says what becomes of predictions, and can be undone on History."""
    rows = lab().store.experiments.runs(experiment_id)
    run_ids = [str(run_id) for run_id in rows["run_id"]]
    found = lab().store.history.find(RunFilter(text=experiment_id), limit=1)
    is_going = bool((rows["status"] == "running").any())
    with st.container(horizontal=True):
        draw_download(run_ids, found.log_bytes, label="Export", key=page_key(f"export_{experiment_id}"))
        if st.button(
            "Delete …",
            icon=":material/delete:",
            key=page_key(f"delete_{experiment_id}"),
            disabled=is_going,
            help="Stop it first" if is_going else "With its runs, into the trash, from where it can come back",
        ):
            _confirm(experiment_id, run_ids)


@st.dialog("Delete this experiment?", icon=":material/delete:")
def _confirm(experiment_id: str, run_ids: Sequence[str]) -> None:
    draw_confirmation(experiment_id, run_ids)


def draw_confirmation(experiment_id: str, run_ids: Sequence[str]) -> None:
    """What will go, what stays, and the way back."""
    what = f"The experiment and {plural(len(run_ids), 'run')}"
    st.markdown(f"{what} go into the trash. History has it, and brings them back.")
    if kept := predictions_text([experiment_id, *run_ids]):
        st.markdown(kept)
    with st.container(horizontal=True):
        key = page_key(f"really_delete_{experiment_id}")
        if st.button("Delete", type="primary", icon=":material/delete:", key=key):
            st.session_state[TO_DELETE] = experiment_id
            st.rerun()
        if st.button("Keep"):
            st.rerun()


REFRESH_S = 2.0

Found = TypeVar("Found", bound=StoredExperiment)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentPage(Generic[Found]):
    """What differs between the pages of experiments.

    `kind` is the store's word, `noun` the page's. `command` makes one without the app, and `command_does` says how far
    it is the same. `fields` are the form's, `limits` those that the results are looked at by; without `fields` the form
    is but a way to another page. `form_values` fills the form from a config and settings, where there is one to fill.
    `load` finds an experiment by its id: None where the store has no plan of it, ValueError where that is damaged.
    `line` says what was asked, `failures` are list items. `soon` stands in place of results, `no_plan` where the
    experiment was never planned.
    """

    kind: str
    noun: str
    command: str
    command_does: str = "does the same"
    fields: Mapping[str, Field]
    limits: Mapping[str, Field]
    draw_form: Callable[[], None]
    load: Callable[[str], Found | None]
    line: Callable[[Found], str]
    failures: Callable[[Found], Sequence[str]]
    form_values: Callable[[RunConfig, Mapping[str, Any]], Mapping[str, Any]] | None = None
    draw_sections: Callable[[Found], None]
    soon: str = "The figures appear with the first point that has run."
    no_plan: str = ""


def draw_experiment_page(page: ExperimentPage[Found], *, first: Callable[[str], Found | None] | None = None) -> None:
    """All below a page's introduction. `first` is as for `follow_results`."""
    delete_if_confirmed()
    for line in complaints(st.query_params.to_dict(), {**page.fields, **page.limits}):
        st.warning(f"This link asks for something that cannot be set: {plain(line)}.", icon=":material/link_off:")
    is_open = is_form_open(any(name in st.query_params for name in page.fields))
    chosen = choose_experiment(page.kind, page.noun)
    if chosen is None and EXPERIMENT not in st.query_params:
        maker = "The settings below make" if page.fields else "Bench makes"
        st.info(
            f"No {page.noun} has been run yet. {maker} one; on the command line `{page.command}` {page.command_does}, "
            "and what it measures appears here.",
            icon=":material/hourglass_empty:",
        )
    if chosen is None:
        if page.fields:
            st.subheader(f"A new {page.noun}", anchor=False)
        page.draw_form()
        return
    is_live = show_progress(chosen) == "live"
    another = f"Set up another {page.noun}"
    with st.expander(another, icon=":material/add:", expanded=is_open) if page.fields else st.container():
        page.draw_form()
    draw_predictions(Subject(kind="experiment", subject_id=chosen))
    follow_results(chosen, is_live, page.load, lambda found: _draw_results(page, chosen, found), first=first)
    if not is_live:
        draw_experiment_tools(chosen)


def follow_results(
    experiment_id: str,
    is_live: bool,
    load: Callable[[str], Found | None],
    draw: Callable[[Found | None], None],
    *,
    first: Callable[[str], Found | None] | None = None,
) -> None:
    """Results, drawn again while the experiment runs, and after it until the store has read its last runs.

    `draw` gets what `load` finds, None where the store has no plan; one that is damaged is said to be. `first` is asked
    in place of `load` when they are drawn with the page, which may have loaded the experiment for itself.
    """
    try:
        found_first = (first or load)(experiment_id)
    except ValueError as error:
        draw_unreadable(error)
        return
    is_being_read = found_first is not None and found_first.is_being_read
    held = [found_first]  # what was loaded with the page is drawn once; from then on it is out of date

    def draw_again() -> None:
        try:
            found = held.pop() if held else load(experiment_id)
        except ValueError as error:
            draw_unreadable(error)
            return
        if is_being_read and not is_live and found is not None and not found.is_being_read:
            st.rerun()
        draw(found)

    st.fragment(draw_again, run_every=REFRESH_S if is_live or is_being_read else None)()


def draw_unreadable(error: ValueError) -> None:
    """Instead of an experiment's results, when its plan makes no sense."""
    st.error(f"This experiment cannot be shown: its plan is damaged: {plain(str(error))}", icon=":material/error:")


def _draw_results(page: ExperimentPage[Found], experiment_id: str, found: Found | None) -> None:
    """The head, then all sections; while the experiment runs they are drawn again, each in its place."""
    if found is None:
        is_planned = (lab().home / "runs" / experiment_id / EXPERIMENT_FILE).is_file()
        st.caption(page.soon if is_planned or not page.no_plan else page.no_plan)
        return
    if found.config is not None:
        _draw_head(page, found, found.config)
    if not found.has_results:
        st.caption(page.soon)
        return
    page.draw_sections(found)


def _draw_head(page: ExperimentPage[Found], found: Found, config: RunConfig) -> None:
    """What was asked, on what, what failed, and the button that brings its form back."""
    info = found.info
    st.markdown(f"**{plain(page.line(found))}**" + (f"  \n{machine_line(info)}" if info else ""))
    if (info.get("model") or {}).get("random_weights"):
        st.badge(RANDOM_WEIGHTS.label, icon=RANDOM_WEIGHTS.icon, color=RANDOM_WEIGHTS.color, help=RANDOM_WEIGHTS.help)
    if busy := busy_line_of(found.points):
        st.caption(f":material/speed: {busy}")
    if failures := page.failures(found):
        st.warning("\n".join(failures), icon=":material/error:")
    if page.form_values is not None:
        st.button(
            "Set up the same again",
            icon=":material/replay:",
            help=f"Fill the form with this {page.noun}'s settings",
            key=page_key("again"),
            on_click=fill_form,
            args=(page.form_values(config, found.settings), page.fields),
        )
