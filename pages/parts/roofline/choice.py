"""The choice of runs on the Roofline page: `?run=` or `?runs=a,b` name runs, `?experiment=` all runs of one."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import plural
from pages.figures.frames import records
from pages.parts.experiments.description import experiment_label
from pages.parts.roofline.passes import MAX_MEMBERS, MeasuredPasses, likeness, measured_experiment, measured_run
from pages.parts.runs.loaded_run import find_row, recent_rows
from pages.parts.runs.run_text import choice_label, run_names
from pages.parts.runs.status import draw_unknown
from pages.parts.shared.headline import reading
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain

RUN, RUNS, EXPERIMENT = "run", "runs", "experiment"
MAX_RUNS = 4
NO_EXPERIMENT = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRuns:
    """The series to draw, and their experiment, if any."""

    series: list[MeasuredPasses]
    experiment_id: str | None


def asked_runs() -> list[str]:
    """The run ids of the address, each once, in order."""
    query = st.query_params
    parts = f"{query.get(RUN) or ''},{query.get(RUNS) or ''}".split(",")
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def choose() -> ChosenRuns:
    """Draw both lists and load the chosen runs; the newest run if the address names none."""
    experiment_id = _experiment()
    if experiment_id is not None:
        with reading(experiment_id):
            return ChosenRuns(series=_of_experiment(experiment_id), experiment_id=experiment_id)
    asked = asked_runs()
    unknown = [run_id for run_id in asked if find_row(run_id) is None]
    if unknown:
        draw_unknown(unknown)
    known = [run_id for run_id in asked if run_id not in unknown][:MAX_RUNS]
    if len(asked) - len(unknown) > MAX_RUNS:
        st.caption(f"The first {MAX_RUNS} of {len(asked) - len(unknown)} runs are shown.")
    picked = _picked(known, is_asked=bool(asked))
    with reading(",".join(picked)):
        return ChosenRuns(series=_of_runs(picked), experiment_id=None)


def _experiment() -> str | None:
    """The chosen experiment, if any; no list without experiments."""
    rows = records(lab().store.experiments.list())
    labels = {str(row["experiment_id"]): experiment_label(row) for row in rows}
    asked = st.query_params.get(EXPERIMENT) or None
    if asked is not None and asked not in labels:
        st.warning(f"No experiment {plain(asked[:40])} found.", icon=":material/link_off:")
    if not labels:
        return None
    options = [NO_EXPERIMENT, *labels]
    chosen = st.selectbox(
        "Experiment (all its runs as one series)",
        options,
        index=options.index(asked) if asked in labels else 0,
        format_func=lambda key: labels.get(key, "none"),
    )
    if chosen != (asked if asked in labels else NO_EXPERIMENT):
        st.query_params.pop(EXPERIMENT, None)
        if chosen:
            st.query_params[EXPERIMENT] = chosen
        st.rerun()
    return chosen or None


def _picked(known: list[str], *, is_asked: bool) -> list[str]:
    rows = recent_rows()
    labels = {str(row["run_id"]): choice_label(row) for row in rows}
    labels |= {run_id: choice_label(find_row(run_id) or {}) for run_id in known if run_id not in labels}
    default = known if known or is_asked else list(labels)[:1]
    picked = st.multiselect(
        f"Runs (up to {MAX_RUNS})",
        list(labels),
        default=default,
        format_func=lambda run_id: labels[run_id],
        max_selections=MAX_RUNS,
        placeholder="Choose a run",
    )
    if picked != default:
        st.query_params.pop(RUN, None)
        st.query_params[RUNS] = ",".join(picked)
        st.rerun()
    return picked


def _of_runs(run_ids: list[str]) -> list[MeasuredPasses]:
    """Each run as a series; a warning for a run that does not record its model's shape."""
    rows = [row for run_id in run_ids if (row := find_row(run_id)) is not None]
    try:
        names = run_names([RunConfig.from_dict(row["info"]["config"]) for row in rows])
    except (ValueError, KeyError, TypeError):  # from a version with other engines or settings
        names = tuple(run_ids)
    series = []
    for row, name in zip(rows, names, strict=True):
        try:
            measured = measured_run(str(row["run_id"]), name)
        except ValueError as error:
            st.warning(f"{plain(name)}: {plain(str(error))}.", icon=":material/help:")
            continue
        if measured is not None:
            series.append(measured)
    return series


def _of_experiment(experiment_id: str) -> list[MeasuredPasses]:
    """The runs of an experiment that match the first, as one series; a note for runs left out."""
    ids = lab().store.experiments.runs(experiment_id)["run_id"].tolist()[:MAX_MEMBERS]
    rows = [row for run_id in ids if (row := find_row(str(run_id))) is not None and row["status"] != "running"]
    rows.sort(key=lambda row: row["status"] != "completed")  # the others have to match the first
    if not rows:
        st.info("No run of this experiment has ended yet.", icon=":material/hourglass_empty:")
        return []
    matching = [row for row in rows if likeness(row) == likeness(rows[0])]
    if len(matching) < len(rows):
        left_out = plural(len(rows) - len(matching), "run")
        st.caption(f":orange[{left_out} of another model, dtype, device, execution or timing left out.]")
    try:
        return [measured_experiment(matching, plural(len(matching), "run"))]
    except ValueError as error:
        st.warning(f"{plain(str(error))}.", icon=":material/help:")
        return []
