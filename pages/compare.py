"""Compare: two to four runs of one workload on one axis. `?runs=a,b` names them, the first being the base."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from pages.parts.compare.answers import draw_answers
from pages.parts.compare.choice import asked_runs, draw_picker, draw_suggestions
from pages.parts.compare.finding import finding
from pages.parts.compare.sections import draw_kv_layouts, draw_overlays, draw_timelines, draw_wastes
from pages.parts.compare.table import draw_differences, draw_ratios, mismatch_rows, setting_rows
from pages.parts.predictions.section import draw_predictions
from pages.parts.runs.badges import show_badges
from pages.parts.runs.comparable import Mismatch, Setting, cautions, mismatches
from pages.parts.runs.compared import Compared, run_names
from pages.parts.runs.counting import how_to_count
from pages.parts.runs.loaded_run import RunData, load_run
from pages.parts.runs.run_choice import draw_no_runs, draw_unknown, recent_rows
from pages.parts.runs.run_text import busy_line, engine_line, machine_line, workload_line
from pages.parts.runs.status import draw_status
from pages.parts.runs.validity import draw_validity_warning
from pages.parts.shared.front_door import front_door
from pages.parts.shared.links import MAX_RUNS, RUNS
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import linked, switch
from pages.parts.shared.tables import draw_table
from store.predictions.predictions import Subject

ANYWAY = "anyway"


def render() -> None:
    """The choice of runs, whether they may be compared, and the comparison."""
    st.title("Compare", anchor=False)
    asked = asked_runs(st.query_params.get(RUNS))
    if not asked and not recent_rows():
        draw_no_runs("This page sets two of them against each other: timelines, latencies, waste and answers.")
        return
    loaded = {run_id: load_run(run_id) for run_id in asked[:MAX_RUNS]}
    unknown = [run_id for run_id, run in loaded.items() if run is None]
    if unknown:
        draw_unknown(unknown)
    if len(asked) > MAX_RUNS:
        st.caption(f"The first {MAX_RUNS} of {len(asked)} runs are compared; more would be too many to read.")
    runs = [run for run in loaded.values() if run is not None]
    with st.expander("Choose other runs", icon=":material/checklist:") if len(runs) > 1 else st.container():
        draw_picker([run.run_id for run in runs])
    if len(runs) < 2:
        draw_suggestions([run.run_id for run in runs])
        return
    names = run_names([run.config for run in runs])
    _draw_comparison(dict(zip(names, runs, strict=True)))


def _draw_comparison(runs: dict[str, RunData]) -> None:
    settings = [run.as_compared(name).setting for name, run in runs.items()]
    _draw_heads(runs)
    differing = mismatches(settings)
    if differing and not _anyway(list(runs), differing):
        return
    _draw_cautions(list(runs), settings)
    draw_validity_warning(runs)
    the_finding = st.container()
    runs = how_to_count(runs)
    compared = [run.as_compared(name) for name, run in runs.items()]
    with the_finding:
        _draw_finding(compared, differing)
    _draw_predictions(runs)
    draw_timelines(runs)
    draw_overlays(runs)
    draw_kv_layouts(runs)
    draw_wastes(runs)
    draw_differences(compared)
    _draw_settings(runs)
    draw_answers(runs, [mismatch.what for mismatch in differing])


def _draw_heads(runs: dict[str, RunData]) -> None:
    """What each run is, two beside each other."""
    items = list(runs.items())
    for row in range(0, len(items), 2):
        for column, (name, run) in zip(st.columns(2, gap="medium"), items[row : row + 2], strict=False):
            with column, st.container(border=True):
                st.page_link(
                    "pages/run.py",
                    label=f"**{name}**",
                    icon=":material/view_timeline:",
                    query_params={"run_id": run.run_id},
                    help="Open this run by itself",
                )
                show_badges(run.row)
                st.caption(
                    f"{engine_line(run.config)}. {workload_line(run.info, run.metrics)}. {machine_line(run.info)}."
                )
                if busy := busy_line(run.info):
                    st.caption(f":material/speed: {busy}")
                draw_status(run)


def _anyway(names: Sequence[str], differing: Sequence[Mismatch]) -> bool:
    """The bar to an unfair comparison, and the switch that lifts it; the switch is kept in the address."""
    what = " and ".join(mismatch.what for mismatch in differing)
    st.warning(
        f"**These runs differ in {what}.** A difference between their figures would say nothing about the engines.",
        icon=":material/balance:",
    )
    draw_table(["differs", *names, "why it matters"], mismatch_rows(differing))
    with linked(ANYWAY, False, switch) as key:
        return st.toggle("Compare them all the same", key=key, persist_state="page")


def _draw_cautions(names: Sequence[str], settings: Sequence[Setting]) -> None:
    """What differs beside the engines and may be what one wants to compare, or may be what makes the difference."""
    for caution in cautions(settings):
        values = ", ".join(f"{name} {value}" for name, value in zip(names, caution.values, strict=True))
        st.warning(plain(f"The {caution.what} differs too ({values}): {caution.why}."), icon=":material/rule:")


def _draw_finding(compared: Sequence[Compared], differing: Sequence[Mismatch]) -> None:
    with st.container(border=True):
        st.markdown(f"#### {plain(finding(compared, differing))}")
        if len(compared) == 2 and all(run.is_complete for run in compared):
            draw_ratios(compared)


def _draw_predictions(runs: dict[str, RunData]) -> None:
    """What was predicted of the comparison that all of these runs were made for, if they were."""
    experiments = {run.row.get("experiment_id") for run in runs.values()}
    experiment_id = experiments.pop()
    if not experiments and experiment_id:
        draw_predictions(Subject(kind="experiment", subject_id=str(experiment_id)))


def _draw_settings(runs: dict[str, RunData]) -> None:
    rows = setting_rows([run.config for run in runs.values()])
    with st.expander("Settings that differ"):
        if rows:
            draw_table(["setting", *runs], rows)
        else:
            st.markdown("None: the same settings were run more than once.")


front_door(render)
