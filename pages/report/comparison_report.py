"""The report of a comparison: two to four runs side by side. The first is the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from pages.figures.timeline.preemptions import preemptions_of
from pages.figures.timeline.queue import queue_from_passes
from pages.figures.timeline.timeline import shared_range, slot_timeline, timeline_caption, timelines_caption
from pages.figures.waste.breakdowns import IN_TIME
from pages.figures.waste.kv_layouts import kv_layouts, kv_layouts_caption
from pages.figures.waste.waste import waste_breakdown, waste_caption
from pages.parts.compare.answers import agreement_text
from pages.parts.compare.compared_run import ComparedRun
from pages.parts.compare.differences import difference_header, difference_rows, differences, ratio_tiles
from pages.parts.compare.finding import drawback, finding
from pages.parts.compare.sections import preempted_text
from pages.parts.compare.settings import Mismatch, cautions, mismatches, setting_of, setting_rows
from pages.parts.runs.badges import badges_of
from pages.parts.runs.figures import worst_gap_text
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.runs.run_text import engine_line, machine_line, run_names, workload_line
from pages.parts.runs.validity import Checks, badge_differences, distrust, lost_by_all, summary
from pages.parts.shared.markdown import listed, unescaped
from pages.parts.shared.tiles import Tile
from pages.report.commands import prompts_note, repeat_command
from pages.report.report import Picture, Report, ReportTable, Section
from pages.report.run_report import latency_pictures, machine_table, made_text, marked
from store import Store

Runs = Mapping[str, LoadedRun]


def comparison_report(store: Store, found: Sequence[LoadedRun]) -> Report:
    """Everything about the difference between runs."""
    runs = dict(zip(run_names([run.config for run in found]), found, strict=True))
    compared = [ComparedRun.of(name, run) for name, run in runs.items()]
    differing = mismatches([setting_of(run.info) for run in found])
    checks = {name: store.runs.checks(run.run_id) for name, run in runs.items()}
    header = difference_header(compared)
    why = distrust(checks)
    return Report(
        kind="Comparison",
        finding=finding(compared, differing, why),
        below="" if why else drawback(compared),
        about=[
            f"{name}: {engine_line(run.config)}. {_measured_on(run)}. {made_text(run)}." for name, run in runs.items()
        ],
        badges=list(dict.fromkeys(badge for run in found for badge in badges_of(run.row))),
        cautions=_cautions(runs, checks, differing),
        tiles=_tiles(compared, why),
        tiles_note=f"Each ratio is {compared[1].name} over {compared[0].name}."
        if _tiles(compared, why) and len(compared) == 2
        else "",
        sections=(
            Section(heading="Slot timelines on one axis", pictures=_timelines(runs), sentences=_preempted(runs)),
            Section(heading="Latencies", pictures=latency_pictures(runs), sentences=_worst(runs)),
            Section(heading="KV memory and waste", pictures=_wastes(runs)),
            Section(heading="Same answers?", sentences=_agreements(store, runs, differing)),
            Section(heading="Validity", tables=(_validity(checks),)),
        ),
        settings=ReportTable(
            title="Different settings", header=["setting", *runs], rows=setting_rows([run.config for run in found])
        ),
        machine=machine_table(found[0].info),
        metrics=ReportTable(
            title="Differences",
            header=header,
            rows=difference_rows(differences(compared)),
            figures=range(1, len(header)),
            caption=f"Each ratio is over {compared[0].name}.",
        ),
        commands=[repeat_command(run.info, run.config) for run in found],
        commands_note=prompts_note(found[0].config),
        subjects=[run.run_id for run in found],
    )


def _measured_on(run: LoadedRun) -> str:
    return f"{unescaped(workload_line(run.info, run.metrics))}. {unescaped(machine_line(run.info))}"


def _tiles(compared: Sequence[ComparedRun], why: str) -> list[Tile]:
    return ratio_tiles(compared, trusted=not why) if all(run.is_complete for run in compared) else []


def _cautions(runs: Runs, checks: Mapping[str, Checks], differing: Sequence[Mismatch]) -> list[str]:
    """What makes the comparison unfair or its times doubtful."""
    found = list(dict.fromkeys(text for run in runs.values() for text in marked(run.row)))
    if differing:
        what = " and ".join(mismatch.what for mismatch in differing)
        found.append(f"These runs differ in {what}: the difference says nothing about the engines.")
    for caution in cautions([setting_of(run.info) for run in runs.values()]):
        values = ", ".join(f"{name} {value}" for name, value in zip(runs, caution.values, strict=True))
        found.append(f"The {caution.what} differs too ({values}): {caution.why}.")
    unequal = badge_differences(list(checks.values()))
    if unequal:
        labels = ", ".join(difference.label for difference in unequal)
        found.append(f"These runs differ in validity: {labels}. That may explain differences between their numbers.")
    disturbed, _ = lost_by_all(list(checks.values()))
    if disturbed:
        found.append(f"In all of these runs, {listed(disturbed)}. The difference may come from the machine.")
    return found


def _timelines(runs: Runs) -> list[Picture]:
    """A timeline per run over one x range; the last caption is on all of them."""
    window = shared_range([run.spans for run in runs.values()], "step")
    spans = {name: run.spans for name, run in runs.items()}
    together = timelines_caption(spans, unit="step")
    last = list(runs)[-1]
    return [
        Picture(
            title=f"Slot timeline of {name}",
            caption=together if name == last else timeline_caption(run.spans, num_lanes=run.config.num_slots),
            draw=partial(_draw_timeline, name, run, window),
        )
        for name, run in runs.items()
    ]


def _draw_timeline(name: str, run: LoadedRun, window: tuple[float, float] | None, dark: bool) -> Any:
    return slot_timeline(
        run.spans,
        queue=queue_from_passes(run.passes),
        x_range=window,
        num_lanes=run.config.num_slots,
        preemptions=preemptions_of(run.events),
        title=name,
        dark=dark,
    )


def _preempted(runs: Runs) -> list[str]:
    return [text] if (text := preempted_text({name: preemptions_of(run.events) for name, run in runs.items()})) else []


def _worst(runs: Runs) -> list[str]:
    return [text] if (text := worst_gap_text({name: run.metrics for name, run in runs.items()})) else []


def _wastes(runs: Runs) -> list[Picture]:
    waste = pd.DataFrame([run.waste_row(name) for name, run in runs.items()])
    return [
        Picture(
            title="KV positions by use",
            caption=kv_layouts_caption(waste),
            draw=lambda dark: kv_layouts(waste, dark=dark),
        ),
        Picture(
            title="Waste in time",
            caption=waste_caption(waste, IN_TIME),
            draw=lambda dark: waste_breakdown(waste, groups=IN_TIME, dark=dark),
        ),
    ]


def _agreements(store: Store, runs: Runs, differing: Sequence[Mismatch]) -> list[str]:
    """Whether each run gave the first one's answers; nothing is said of other requests or models."""
    (first, base), *others = runs.items()
    if any(run.info.get("simulated") for run in runs.values()):
        return ["A simulation has no answers."]
    barred = [mismatch.what for mismatch in differing if mismatch.what in ("workload", "model")]
    if barred:
        return [f"The runs have another {listed(barred)}, so their answers are not compared."]
    found = []
    for name, other in others:
        lenient = not (base.status == other.status == "completed")
        agreement = store.agreements.of(base.run_id, other.run_id, as_far_as_both=lenient)
        found.append(agreement_text(first, name, agreement, as_far_as_both=lenient))
    return found


def _validity(checks: Mapping[str, Checks]) -> ReportTable:
    """What each run's badges say, and the checks in which runs differ."""
    rows = [["in all", *(f"{summary(each)}." if each else "The run is not over." for each in checks.values())]]
    rows += [[each.label, *each.findings] for each in badge_differences(list(checks.values()))]
    return ReportTable(title="Checks per run", header=["badge", *checks], rows=rows)
