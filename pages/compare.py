"""Compare: two to four runs of one workload side by side. `?runs=a,b` names them; the first is the baseline."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from pages.parts.compare.answers import draw_answers
from pages.parts.compare.choice import asked_runs, draw_picker, draw_suggestions
from pages.parts.compare.compared_run import ComparedRun
from pages.parts.compare.differences import draw_differences, draw_ratios
from pages.parts.compare.finding import drawback, finding
from pages.parts.compare.sections import draw_kv_layouts, draw_overlays, draw_timelines, draw_wastes
from pages.parts.compare.settings import (
    ANYWAY,
    Mismatch,
    allows_comparison,
    draw_cautions,
    draw_settings,
    mismatches,
    setting_of,
)
from pages.parts.predictions.section import draw_predictions
from pages.parts.runs.badges import show_badges
from pages.parts.runs.figures import UNIT
from pages.parts.runs.latency_definitions import DEFINITIONS, choose_definitions
from pages.parts.runs.loaded_run import LoadedRun, load_run, recent_rows
from pages.parts.runs.run_text import busy_line, engine_line, machine_line, run_names, workload_line
from pages.parts.runs.status import draw_no_runs, draw_status, draw_unknown
from pages.parts.runs.timeline import TIMELINE_FIELDS
from pages.parts.runs.validity import draw_validity_warning
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.links import MAX_RUNS, RUNS
from pages.parts.shared.markdown import plain
from pages.parts.shared.widgets import draw_complaints
from store.predictions.predictions import Subject


def render() -> None:
    """The choice of runs, then the comparison."""
    st.title("Compare", anchor=False)
    draw_complaints(TIMELINE_FIELDS, also=(RUNS, UNIT, ANYWAY, *DEFINITIONS))
    asked = asked_runs(st.query_params.get(RUNS))
    if not asked and not recent_rows():
        draw_no_runs("This page compares two to four runs: timelines, latencies, waste and answers.")
        return
    loaded = {run_id: load_run(run_id) for run_id in asked[:MAX_RUNS]}
    unknown = [run_id for run_id, run in loaded.items() if run is None]
    if unknown:
        draw_unknown(unknown)
    if len(asked) > MAX_RUNS:
        st.caption(f"The first {MAX_RUNS} of {len(asked)} runs are compared.")
    runs = [run for run in loaded.values() if run is not None]
    with st.expander("Choose other runs", icon=":material/checklist:") if len(runs) > 1 else st.container():
        draw_picker([run.run_id for run in runs])
    if len(runs) < 2:
        draw_suggestions([run.run_id for run in runs])
        return
    names = run_names([run.config for run in runs])
    _draw_comparison(dict(zip(names, runs, strict=True)))


def _draw_comparison(runs: dict[str, LoadedRun]) -> None:
    _draw_headers(runs)
    differing = mismatches([setting_of(run.info) for run in runs.values()])
    if not allows_comparison(runs, differing):
        return
    draw_cautions(runs)
    draw_validity_warning(runs)
    top = st.container()
    runs = choose_definitions(runs)
    compared = [ComparedRun.of(name, run) for name, run in runs.items()]
    with top:
        _draw_finding(compared, differing)
    _draw_predictions(runs)
    draw_timelines(runs)
    draw_overlays(runs)
    draw_kv_layouts(runs)
    draw_wastes(runs)
    draw_differences(compared)
    draw_settings(runs)
    draw_answers(runs, [mismatch.what for mismatch in differing])


def _draw_headers(runs: dict[str, LoadedRun]) -> None:
    """What each run is, in two columns."""
    items = list(runs.items())
    for row in range(0, len(items), 2):
        for column, (name, run) in zip(st.columns(2, gap="medium"), items[row : row + 2], strict=False):
            with column, st.container(border=True):
                st.page_link(
                    "pages/run.py",
                    label=f"**{plain(name)}**",
                    icon=":material/view_timeline:",
                    query_params={"run_id": run.run_id},
                    help="Open this run",
                )
                show_badges(run.row)
                st.caption(
                    f"{engine_line(run.config)}. {workload_line(run.info, run.metrics)}. {machine_line(run.info)}."
                )
                if busy := busy_line(run.info):
                    st.caption(f":material/speed: {busy}")
                draw_status(run)


def _draw_finding(compared: Sequence[ComparedRun], differing: Sequence[Mismatch]) -> None:
    with st.container(border=True):
        st.markdown(f"#### {plain(finding(compared, differing))}")
        if text := drawback(compared):
            st.caption(plain(text))
        if len(compared) == 2 and all(run.is_complete for run in compared):
            draw_ratios(compared)


def _draw_predictions(runs: dict[str, LoadedRun]) -> None:
    """The predictions of the experiment that all of these runs belong to, if there is one."""
    experiments = {run.row.get("experiment_id") for run in runs.values()}
    experiment_id = experiments.pop()
    if not experiments and experiment_id:
        draw_predictions(Subject(kind="experiment", subject_id=str(experiment_id)))


entry_guard(render)
