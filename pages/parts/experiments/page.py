"""The page of an experiment: the chosen one with its progress, the form for a new one, results, export and delete.

`?experiment=` names the experiment; the form's settings are in the address too. An `ExperimentPage` holds what differs
between kinds.
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
from pages.parts.shared.fields import Field
from pages.parts.shared.headline import reading
from pages.parts.shared.lab import lab, others_text
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from pages.parts.shared.widgets import draw_complaints
from store.predictions.predictions import Subject
from store.queries.history import RunFilter

REFRESH_S = 2.0
TO_DELETE = "lab.experiment_to_delete"

Found = TypeVar("Found", bound=StoredExperiment)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentPage(Generic[Found]):
    """What differs between the pages of experiments.

    `kind` is the store's name of the kind, `noun` the page's. `command` runs one without the app; `command_does` says
    to what extent. `fields` are the form's, `limits` those of the results. Without `fields`, `draw_form` links to
    another page. `form_values` converts a configuration and settings to the form's values.
    `load` returns an experiment by id: None without a plan in the store, ValueError for a damaged one.
    `line` describes the experiment, `failures` are list items. `soon` appears before the first results, `no_plan` for
    an experiment without a plan. `also` are names in the page's address besides the fields.
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
    soon: str = "Figures appear after the first point."
    no_plan: str = ""
    also: Sequence[str] = ()


def draw_experiment_page(page: ExperimentPage[Found], *, first: Callable[[str], Found | None] | None = None) -> None:
    """Draw the page below its introduction. `first` is as for `follow_results`."""
    delete_if_confirmed()
    draw_complaints({**page.fields, **page.limits}, also=(EXPERIMENT, *page.also))
    is_open = is_form_open(any(name in st.query_params for name in page.fields))
    chosen = choose_experiment(page.kind, page.noun)
    if chosen is None and EXPERIMENT not in st.query_params:
        where = "with the settings below" if page.fields else "on Bench"
        st.info(
            f"No {page.noun} yet. Start one {where}. On the command line, `{page.command}` {page.command_does}; its "
            "results appear here.",
            icon=":material/hourglass_empty:",
        )
    if chosen is None:
        if page.fields:
            st.subheader(f"New {page.noun}", anchor=False)
        page.draw_form()
        return
    is_live = show_progress(chosen) == "live"
    with st.expander(f"New {page.noun}", icon=":material/add:", expanded=is_open) if page.fields else st.container():
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
    """Draw the results, again and again while the experiment runs and until the store has read its last runs.

    `draw` gets the result of `load`; a damaged plan is shown as an error. `first` replaces `load` for the first
    drawing, for pages that have loaded the experiment already.
    """
    try:
        with reading(experiment_id):
            found_first = (first or load)(experiment_id)
    except ValueError as error:
        draw_unreadable(error)
        return
    is_being_read = found_first is not None and found_first.is_being_read
    held = [found_first]  # only the first drawing uses it; later it is out of date

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
    """The error in place of results for a damaged plan."""
    st.error(f"The plan of this experiment is damaged: {plain(str(error))}", icon=":material/error:")


def _draw_results(page: ExperimentPage[Found], experiment_id: str, found: Found | None) -> None:
    """The header and all sections."""
    if found is None:
        is_planned = (lab().home / "runs" / experiment_id / EXPERIMENT_FILE).is_file()
        st.caption(page.soon if is_planned or not page.no_plan else page.no_plan)
        return
    if found.config is not None:
        _draw_header(page, found, found.config)
    if not found.has_results:
        st.caption(page.soon)
        return
    page.draw_sections(found)


def _draw_header(page: ExperimentPage[Found], found: Found, config: RunConfig) -> None:
    """The experiment's settings, machine and failures, and the button that fills the form with its settings."""
    info = found.info
    st.markdown(f"**{plain(page.line(found))}**" + (f"  \n{machine_line(info)}" if info else ""))
    if (info.get("model") or {}).get("random_weights"):
        st.badge(RANDOM_WEIGHTS.label, icon=RANDOM_WEIGHTS.icon, color=RANDOM_WEIGHTS.color, help=RANDOM_WEIGHTS.help)
    if busy := busy_line_of(lab().store, found.points):
        st.caption(f":material/speed: {busy}")
    if failures := page.failures(found):
        st.warning("\n".join(failures), icon=":material/error:")
    if page.form_values is not None:
        st.button(
            "Use these settings",
            icon=":material/replay:",
            help=f"Fill the form with the settings of this {page.noun}",
            key=page_key("again"),
            on_click=fill_form,
            args=(page.form_values(config, found.settings), page.fields),
        )


def delete_if_confirmed() -> None:
    """Delete the experiment that the dialog confirmed and open History. The page calls this before it draws anything.

    The dialog does not do this itself, because the page's fragment keeps redrawing meanwhile, and a late request of the
    old page would bring its address back.
    """
    experiment_id = st.session_state.pop(TO_DELETE, None)
    if experiment_id is not None:
        with st.spinner("Deleting …"):
            delete_experiment(experiment_id)
        st.switch_page("pages/history.py")


def draw_experiment_tools(experiment_id: str) -> None:
    """The buttons Export and Delete. Deleting asks for confirmation and can be undone on History."""
    rows = lab().store.experiments.runs(experiment_id)
    run_ids = [str(run_id) for run_id in rows["run_id"]]
    found = lab().store.history.find(RunFilter(text=experiment_id), limit=1)
    is_running = bool((rows["status"] == "running").any())
    with st.container(horizontal=True):
        draw_download(run_ids, found.log_bytes, label="Export", key=page_key(f"export_{experiment_id}"))
        if st.button(
            "Delete …",
            icon=":material/delete:",
            key=page_key(f"delete_{experiment_id}"),
            disabled=is_running,
            help="Stop the experiment first" if is_running else "Moves the experiment and its runs to the trash",
        ):
            _confirm(experiment_id, run_ids)


@st.dialog("Delete this experiment?", icon=":material/delete:")
def _confirm(experiment_id: str, run_ids: Sequence[str]) -> None:
    draw_confirmation(experiment_id, run_ids)


def draw_confirmation(experiment_id: str, run_ids: Sequence[str]) -> None:
    """What the trash gets, what becomes of predictions, and the buttons."""
    runs = plural(len(run_ids), "run")
    st.markdown(f"The experiment and {runs} go into the trash. Restore them on History.")
    for line in (others_text([experiment_id]), predictions_text([experiment_id, *run_ids])):
        if line:
            st.markdown(line)
    with st.container(horizontal=True):
        key = page_key(f"really_delete_{experiment_id}")
        if st.button("Delete", type="primary", icon=":material/delete:", key=key):
            st.session_state[TO_DELETE] = experiment_id
            st.rerun()
        if st.button("Cancel"):
            st.rerun()
