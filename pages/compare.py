"""Compare: two to four runs of one workload side by side. `?runs=a,b` names them; the first is the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.parts.compare.answers import draw_answers
from pages.parts.compare.cautions import draw_cautions
from pages.parts.compare.choice import asked_runs, draw_picker, draw_suggestions
from pages.parts.compare.compared_run import ComparedRun
from pages.parts.compare.differences import draw_differences, draw_ratios
from pages.parts.compare.finding import drawback, finding
from pages.parts.compare.run_cards import draw_run_cards
from pages.parts.compare.sections import draw_kv_layouts, draw_overlays, draw_timelines, draw_wastes
from pages.parts.compare.settings import ANYWAY, Mismatch, allows_comparison, draw_settings, mismatches, setting_of
from pages.parts.predictions.section import draw_predictions, has_predictions
from pages.parts.runs.again import draw_again
from pages.parts.runs.figures import UNIT, draw_timeline_tools
from pages.parts.runs.latency_definitions import (
    DEFINITIONS,
    by_chosen_definitions,
    draw_definitions,
    draw_definitions_control,
)
from pages.parts.runs.loaded_run import LoadedRun, load_run, recent_rows
from pages.parts.runs.run_text import run_names
from pages.parts.runs.status import draw_no_runs, draw_status, draw_unknown
from pages.parts.runs.tabs import Tab, draw_sections, tab_field
from pages.parts.runs.timeline import TIMELINE_FIELDS, draw_player
from pages.parts.runs.validity import Checks, distrust
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.headline import draw_headline, draw_title_row, reading
from pages.parts.shared.lab import lab
from pages.parts.shared.links import MAX_RUNS, RUNS
from pages.parts.shared.markdown import plain
from pages.parts.shared.share import share
from pages.parts.shared.widgets import draw_complaints
from pages.report.sharing import shared_runs
from store.predictions.predictions import Subject

WASTE, LATENCIES, KV_MEMORY, DIFFERENCES, ANSWERS, RUNS_TAB, PREDICTIONS = (
    "Waste", "Latencies", "KV memory", "Differences", "Answers", "Runs and settings", "Predictions",
)  # fmt: skip
TABS = tab_field((WASTE, LATENCIES, KV_MEMORY, DIFFERENCES, ANSWERS, RUNS_TAB, PREDICTIONS))


def render() -> None:
    """The choice of runs, then the comparison."""
    title_row = draw_title_row("Compare")
    draw_complaints(TABS | TIMELINE_FIELDS, also=(RUNS, UNIT, ANYWAY, *DEFINITIONS))
    asked = asked_runs(st.query_params.get(RUNS))
    if not asked and not recent_rows():
        draw_no_runs("This page compares two to four runs: timelines, latencies, waste and answers.")
        return
    with reading(",".join(asked)):
        loaded = {run_id: load_run(run_id) for run_id in asked[:MAX_RUNS]}
    unknown = [run_id for run_id, run in loaded.items() if run is None]
    if unknown:
        draw_unknown(unknown)
    if len(asked) > MAX_RUNS:
        st.caption(f"The first {MAX_RUNS} of {len(asked)} runs are compared.")
    runs = [run for run in loaded.values() if run is not None]
    if len(runs) < 2:
        draw_picker(runs)
        draw_suggestions([run.run_id for run in runs])
        return
    named = dict(zip(run_names([run.config for run in runs]), runs, strict=True))
    _draw_toolbar(title_row, named)
    _draw_comparison(named)


def _draw_toolbar(row: DeltaGenerator, runs: Mapping[str, LoadedRun]) -> None:
    """A link to each run, the choice of other runs, and a report to share."""
    with row:
        for name, run in runs.items():
            st.page_link(
                "pages/run.py",
                label=plain(name),
                icon=":material/view_timeline:",
                query_params={"run_id": run.run_id},
                help=f"Open {plain(name)}",
            )
        with st.popover("Choose runs", icon=":material/checklist:", type="tertiary"):
            draw_picker(list(runs.values()))
        share(shared_runs([run.run_id for run in runs.values()]))


def _draw_comparison(runs: dict[str, LoadedRun]) -> None:
    """The finding, the timelines and the tiles; everything else is in tabs."""
    differing = mismatches([setting_of(run.info) for run in runs.values()])
    if not allows_comparison(runs, differing):
        return
    checks: dict[str, Checks] = {name: lab().store.runs.checks(run.run_id) for name, run in runs.items()}
    recounted = by_chosen_definitions(runs)
    compared = [ComparedRun.of(name, run) for name, run in recounted.items()]
    why = distrust(checks)
    with st.container(gap="xxsmall"):
        draw_headline(finding(compared, differing, why), "" if why else drawback(compared))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            draw_timeline_tools()
            draw_cautions(runs, checks, differing)
            if why:
                draw_again(list(runs.values()))
        for run in runs.values():
            if run.status == "running":
                draw_status(run)
        draw_timelines(recounted)
        draw_definitions(next(iter(recounted.values())).definitions)
        if all(run.is_complete for run in compared):
            draw_ratios(compared, trusted=not why)
        draw_player(recounted)
    draw_sections(_sections(runs, recounted, compared, differing, why))


def _sections(
    runs: Mapping[str, LoadedRun],
    recounted: Mapping[str, LoadedRun],
    compared: Sequence[ComparedRun],
    differing: Sequence[Mismatch],
    why: str,
) -> list[Tab]:
    def latencies() -> None:
        draw_overlays(recounted)
        draw_definitions_control(runs, recounted)

    def about_the_runs() -> None:
        draw_run_cards(recounted)
        draw_settings(recounted)

    found = [
        Tab(title=WASTE, draw=partial(draw_wastes, recounted)),
        Tab(title=LATENCIES, draw=latencies),
        Tab(title=KV_MEMORY, draw=partial(draw_kv_layouts, recounted)),
        Tab(title=DIFFERENCES, draw=partial(draw_differences, compared, why)),
        Tab(title=ANSWERS, draw=partial(draw_answers, recounted, [mismatch.what for mismatch in differing])),
        Tab(title=RUNS_TAB, draw=about_the_runs),
    ]
    subject = _subject(runs)
    if subject is not None and has_predictions(subject):
        found.insert(0, Tab(title=PREDICTIONS, draw=partial(draw_predictions, subject)))
    return found


def _subject(runs: Mapping[str, LoadedRun]) -> Subject | None:
    """The experiment that all of these runs belong to, if there is one."""
    experiments = {run.row.get("experiment_id") for run in runs.values()}
    experiment_id = experiments.pop()
    if experiments or not experiment_id:
        return None
    return Subject(kind="experiment", subject_id=str(experiment_id))


entry_guard(render)
