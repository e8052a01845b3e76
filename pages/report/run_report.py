"""The report of one run, and what reports of several runs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from engine.core.presets import PRESETS
from engine.validity.validity import Outcome
from pages.figures.latency.cdf import latency_caption, latency_cdf
from pages.figures.timeline.passes import pass_kinds_caption, pass_trace
from pages.figures.timeline.preemptions import preemptions_of, preemptions_text
from pages.figures.timeline.queue import queue_from_passes
from pages.figures.timeline.timeline import slot_timeline, timeline_caption
from pages.figures.waste.waste import waste_breakdown, waste_caption
from pages.parts.run.blocks import blocks_caption, blocks_figure, read_block_map
from pages.parts.run.environment import METRICS_HEADER, machine_settings, metric_rows, setting_rows
from pages.parts.run.finding import run_finding
from pages.parts.run.header import key_tiles
from pages.parts.run.sections import executed_text
from pages.parts.runs.badges import RANDOM_WEIGHTS, SIMULATED, badges_of
from pages.parts.runs.figures import LATENCY_FIGURES, LatencyFigure, absence, counted_noun, discarded_text, overlaid
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.runs.run_text import busy_line, engine_line, machine_line, when, workload_line
from pages.parts.runs.validity import Checks, distrust, explained_checks, fault_of, names_of, summary
from pages.parts.shared.markdown import unescaped
from pages.report.commands import prompts_note, repeat_command
from pages.report.report import Picture, Report, ReportTable, Section
from store import Store

SETTINGS_HEADER = ("setting", "value")
CHECKS_HEADER = ("check", "result", "finding", "limit")
DISTURBING = ("host", "steady_clocks")


def run_report(store: Store, run: LoadedRun) -> Report:
    """Everything about one run."""
    checks = store.runs.checks(run.run_id)
    return Report(
        kind="Run",
        finding=run_finding(run, distrust({run.config.engine: checks})),
        below=f"{engine_line(run.config)}. {unescaped(workload_line(run.info, run.metrics))}.",
        about=(unescaped(machine_line(run.info)), made_text(run)),
        badges=badges_of(run.row),
        cautions=run_cautions(run, checks),
        tiles=key_tiles(run),
        sections=(
            Section(heading="Slot timeline", pictures=(_timeline(run),), sentences=_timeline_sentences(run)),
            *_blocks(store, run),
            Section(heading="Waste", pictures=(_waste(run),), sentences=_discarded(run)),
            Section(heading="Latencies", pictures=latency_pictures({run.config.engine: run}), sentences=_absent(run)),
            Section(heading="Passes", pictures=(_passes(run),), sentences=_sentences(unescaped(executed_text(run)))),
            Section(heading="Validity", tables=(checks_table(checks),)),
        ),
        settings=ReportTable(
            title="Settings", header=SETTINGS_HEADER, rows=setting_rows(run.config.to_dict()), is_folded=True
        ),
        machine=machine_table(run.info),
        metrics=ReportTable(
            title="Every metric", header=METRICS_HEADER, rows=metric_rows(run), figures=(1,), is_folded=True
        ),
        commands=(repeat_command(run.info, run.config),),
        commands_note=prompts_note(run.config),
        subjects=(run.run_id,),
    )


def made_text(run: LoadedRun) -> str:
    """`Run 01kb…, 2026-11-29 14:31:07`."""
    return f"Run {run.run_id}, {when(run.row.get('created_at'))}"


def machine_table(info: Mapping[str, Any]) -> ReportTable:
    """The model, device and environment."""
    return ReportTable(
        title="Model, device and environment",
        header=SETTINGS_HEADER,
        rows=setting_rows(machine_settings(info)),
        is_folded=True,
    )


def run_cautions(run: LoadedRun, checks: Checks) -> list[str]:
    """Why its numbers may mislead: what it is, how it ended, a busy machine, lost badges that concern times."""
    lost = set(names_of(checks, Outcome.FAIL))
    ended = [] if run.status == "completed" else [f"The run ended as {run.status}. {run.error or ''}".strip()]
    marks = marked(run.row)
    disturbed = [f"Its times may mislead: {fault_of(name)}." for name in DISTURBING if name in lost]
    return list(filter(None, [*marks, *ended, busy_line(run.info), *disturbed]))


def marked(row: Mapping[str, Any]) -> list[str]:
    """What a simulated run, or one with random weights, does not say."""
    return [badge.help for badge in badges_of(row) if badge in (SIMULATED, RANDOM_WEIGHTS)]


def checks_table(checks: Checks) -> ReportTable:
    """Every check of a run, the lost ones first."""
    return ReportTable(
        title="Checks",
        header=CHECKS_HEADER,
        rows=[[each.badge, each.outcome, each.finding, each.limit] for each in explained_checks(checks)],
        caption=f"{summary(checks)}." if checks else "The run is not over.",
    )


def _sentences(*texts: str) -> tuple[str, ...]:
    return tuple(filter(None, texts))


def _timeline(run: LoadedRun) -> Picture:
    return Picture(
        title="Slot timeline",
        caption=timeline_caption(run.spans, unit="step", num_lanes=run.config.num_slots),
        draw=lambda dark: slot_timeline(
            run.spans,
            queue=queue_from_passes(run.passes),
            num_lanes=run.config.num_slots,
            preemptions=preemptions_of(run.events),
            dark=dark,
        ),
    )


def _timeline_sentences(run: LoadedRun) -> tuple[str, ...]:
    return _sentences(preemptions_text(preemptions_of(run.events)))


def _blocks(store: Store, run: LoadedRun) -> tuple[Section, ...]:
    """The pool of blocks over time; nothing where the KV memory is not paged."""
    if not PRESETS[run.config.engine].has_blocks:
        return ()
    grid = read_block_map(store, run.run_id, "step")
    picture = Picture(
        title="KV blocks over time",
        caption=blocks_caption(run, grid),
        draw=lambda dark: blocks_figure(run, grid, "step", dark=dark),
    )
    return (Section(heading="KV blocks", pictures=(picture,)),)


def _waste(run: LoadedRun) -> Picture:
    waste = pd.DataFrame([run.waste_row("")])
    return Picture(title="Waste", caption=waste_caption(waste), draw=lambda dark: waste_breakdown(waste, dark=dark))


def _discarded(run: LoadedRun) -> tuple[str, ...]:
    return _sentences(discarded_text(run.config, run.metrics))


def _passes(run: LoadedRun) -> Picture:
    return Picture(
        title="Passes",
        caption=pass_kinds_caption(run.pass_kinds),
        draw=lambda dark: pass_trace(run.passes, unit="step", dark=dark),
    )


def latency_pictures(runs: Mapping[str, LoadedRun]) -> list[Picture]:
    """A cumulative distribution for each latency that a run has, all runs over one axis."""
    return [picture for latency in LATENCY_FIGURES if (picture := _latency(runs, latency)) is not None]


def _latency(runs: Mapping[str, LoadedRun], latency: LatencyFigure) -> Picture | None:
    present = {name: run for name, run in runs.items() if run.latencies[latency.key].n}
    if not present:
        return None
    definitions = next(iter(present.values())).definitions
    frame = overlaid({name: run.latencies[latency.key] for name, run in present.items()}, definitions)
    noun = counted_noun(latency, definitions)
    return Picture(
        title=latency.title,
        caption=latency_caption(frame, latency.phrase, counted=noun),
        draw=partial(_draw_latency, frame, latency.title, noun),
        is_narrow=True,
    )


def _draw_latency(frame: pd.DataFrame, title: str, noun: str, dark: bool) -> Any:
    return latency_cdf(frame, title=title, counted=noun, dark=dark)


def _absent(run: LoadedRun) -> Sequence[str]:
    """Why a latency has no figure."""
    return [
        f"{latency.title}: {absence(latency, run.requests, run.status)}."
        for latency in LATENCY_FIGURES
        if not run.latencies[latency.key].n
    ]
