"""The top of a run's page: links, note and tags, export, its badges and settings, and up to six key figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from engine.core.format import MISSING, count
from engine.core.presets import PRESETS
from engine.metrics.definitions import Definitions
from engine.metrics.metric import Value
from engine.simulator.machine import SimulationTarget
from pages.parts.experiments.progress import draw_way_to_experiment
from pages.parts.runs.badges import badges_of
from pages.parts.runs.latency_definitions import definition_text
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.runs.run_actions import draw_download, edit_notes, set_pinned
from pages.parts.runs.run_text import engine_line, machine_line, when, workload_line
from pages.parts.shared.fields import query_of
from pages.parts.shared.lab import lab
from pages.parts.shared.links import runs_query
from pages.parts.shared.markdown import plain
from pages.parts.shared.metric_text import METRIC_BY_NAME, headline_metric, value_and_unit
from pages.parts.shared.page_state import page_key
from pages.parts.shared.tiles import Tile, draw_tiles
from store.folders import log_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFigure:
    """A metric, and the metric that counts its samples, shown as `n = 8 requests`."""

    label: str
    metric: str
    rests_on: str
    noun: str


KEY_FIGURES = (
    KeyFigure(label="Throughput", metric="output_tokens_per_s", rests_on="output_tokens", noun="tokens"),
    KeyFigure(label="TTFT p50", metric="ttft_p50_s", rests_on="ttft_n", noun="requests"),
    KeyFigure(label="ITL p95", metric="itl_p95_s", rests_on="itl_n", noun="gaps"),
    KeyFigure(label="E2E p50", metric="e2e_p50_s", rests_on="e2e_n", noun="requests"),
    KeyFigure(label="Dead slot-steps", metric="dead_fraction", rests_on="slot_steps", noun="slot-steps"),
    KeyFigure(label="Padding", metric="padding_fraction", rests_on="computed_positions", noun="positions"),
)

PAGED_FIGURES = (
    KeyFigure(label="Worst gap over median gap", metric="itl_max_over_p50", rests_on="itl_n", noun="gaps"),
    KeyFigure(label="Preemptions", metric="preemptions", rests_on="requests", noun="requests"),
)


def draw_toolbar(run: LoadedRun, companions: Sequence[str]) -> None:
    """Links to where a run leads, and what can be done with it. `companions` are the ids of the runs of its comparison,
    itself included; empty where it was made for none."""
    if companions:
        label = "Compare with the other engine" if len(companions) == 2 else "Compare with the other engines"
    else:
        label = "Compare with another run"
    st.page_link(
        "pages/compare.py",
        label=label,
        icon=":material/compare_arrows:",
        query_params=runs_query(companions or [run.run_id]),
    )
    draw_way_to_experiment(str(run.row.get("experiment_kind")), str(run.row.get("experiment_id")))
    st.page_link(
        "pages/bench.py",
        label="Repeat on Bench",
        icon=":material/replay:",
        query_params=query_of(run.config, SimulationTarget.of_run(run.info)),
    )
    with st.popover("More", icon=":material/more_horiz:", type="tertiary"):
        _draw_run_tools(run)


def draw_description(run: LoadedRun) -> None:
    """The run's badges, settings and machine in a line, then its tags and its note."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for badge in badges_of(run.row):
            st.badge(badge.label, icon=badge.icon, color=badge.color, help=badge.help)
        annotation = lab().store.annotations.of(run.run_id)
        for tag in annotation.tags:
            st.badge(plain(tag), icon=":material/sell:", color="gray")
        st.caption(f"{engine_line(run.config)} · {workload_line(run.info, run.metrics)} · {machine_line(run.info)}")
    if annotation.note:
        st.markdown("  \n".join(plain(line) for line in annotation.note.splitlines()))


def draw_key_figures(run: LoadedRun) -> None:
    """Each figure with its unit and sample count. Paged runs show preemptions in place of padding and dead slots."""
    draw_tiles(key_tiles(run))


def key_tiles(run: LoadedRun) -> list[Tile]:
    """The tiles of a run, six at most."""
    figures = (*KEY_FIGURES[:4], *PAGED_FIGURES) if PRESETS[run.config.engine].has_blocks else KEY_FIGURES
    return [_tile(figure, run.metrics, run.definitions) for figure in figures]


def _tile(figure: KeyFigure, metrics: Mapping[str, Value], definitions: Definitions) -> Tile:
    """A figure that the run does not have is a dash, not a zero. A percentile that too few samples support gives way to
    the largest value."""
    noun = "requests" if figure.rests_on == "itl_n" and definitions.itl == "mean" else figure.noun
    changed = definition_text(definitions)
    metric = METRIC_BY_NAME[headline_metric(figure.metric, metrics)]
    value, unit = value_and_unit(metric, metrics.get(metric.name))
    rests_on = metrics.get(figure.rests_on)
    return Tile(
        label=figure.label if metric.name == figure.metric else figure.label.replace("p95", "max"),
        value=value,
        unit=unit,
        note="no sample in this run" if value == MISSING else f"n = {count(rests_on)} {noun}",
        hint=f"{metric.meaning} {metric.name} = {metric.formula}." + (f" Definitions: {changed}." if changed else ""),
    )


def _draw_run_tools(run: LoadedRun) -> None:
    """Note, tags and pin, the export of an ended run, and the run's id."""
    is_pinned = lab().store.annotations.of(run.run_id).pinned
    if st.button("Note and tags …", icon=":material/edit_note:", key=page_key("note")):
        edit_notes([run.run_id])
    if st.button("Unpin" if is_pinned else "Pin", icon=":material/keep:", key=page_key("pin")):
        set_pinned([run.run_id], not is_pinned)
        st.rerun()
    if run.status != "running":
        draw_download([run.run_id], log_bytes(Path(run.row["folder"])) or 0, label="Export", key=page_key("export"))
    st.page_link("pages/glossary.py", label="Glossary", icon=":material/dictionary:")
    st.caption(f"Run {run.run_id}, {when(run.row.get('created_at'))}")
