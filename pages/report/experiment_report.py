"""The reports of a sweep and of a load test."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import pandas as pd

from engine.core.config import RunConfig
from engine.core.format import MISSING, count, exact, is_missing, number
from engine.load.goodput import Limits
from engine.load.load_point import LoadPoint
from pages.figures.load.latency import QUEUE, TTFT, latency_over_offered
from pages.figures.load.queue import queue_with_windows
from pages.figures.load.rates import GOODPUT, achieved_over_offered
from pages.figures.sweep.measures import (
    BANDWIDTH,
    COMPUTE,
    INTENSITY,
    PEAK_MEMORY,
    SPEEDUP,
    TPOT,
    SweepMeasure,
    measure_caption,
    measure_over_batch,
)
from pages.figures.sweep.measures import TTFT as TTFT_BY_BATCH
from pages.figures.sweep.ragged import ragged_bars, ragged_caption
from pages.figures.sweep.throughput import throughput_caption, throughput_over_batch
from pages.parts.experiments.stored import StoredExperiment, busy_line_of
from pages.parts.load.measured import MeasuredLoad, measured_load, read_figures, read_waiting
from pages.parts.load.results import (
    capacities_of,
    capacity_sentences,
    first_growing,
    goodput_sentences,
    load_failures,
    load_line,
    queue_choices,
    queue_sentences,
    queues_of,
    rate_sentences,
    ttft_sentences,
    wait_caption,
)
from pages.parts.load.tables import CAPACITY_HEADER, capacity_rows, goodput_columns, load_columns
from pages.parts.run.environment import setting_rows
from pages.parts.runs.badges import RANDOM_WEIGHTS, SIMULATED, Badge
from pages.parts.runs.run_text import machine_line
from pages.parts.shared.fields import Number
from pages.parts.shared.machines import read_calibrations
from pages.parts.shared.markdown import unescaped
from pages.parts.sweep.measured import MeasuredSweep, balance_of, measured_sweep
from pages.parts.sweep.results import (
    LIMITS,
    TPOT_LIMIT,
    by_series,
    choice_text,
    memory_text,
    serial_text,
    sweep_failures,
    sweep_line,
)
from pages.parts.sweep.tables import ragged_table, shown_table
from pages.report.commands import load_command, prompts_note, sweep_command
from pages.report.report import Picture, Report, ReportTable, Section
from pages.report.run_report import SETTINGS_HEADER, machine_table
from store import Store

POINTS_TITLE = "Points"
TABLE_DIGITS = 4


def sweep_report(store: Store, stored: StoredExperiment) -> Report:
    """Everything about a sweep. ValueError for one without a result."""
    data = measured_sweep(stored, partial(read_calibrations, store))
    assert data is not None
    config = _config_of(data)
    return Report(
        kind="Sweep",
        finding=throughput_caption(data.grid) if not data.grid.empty else ragged_caption(data.ragged),
        about=_about(store, data, sweep_line(data)),
        badges=_badges(data),
        cautions=_cautions(store, data, sweep_failures(data)),
        tiles=(),
        sections=[section for section in (*_grid(data), _ragged(data)) if section is not None],
        settings=_settings_table(data, config),
        machine=machine_table(data.info),
        metrics=_frame_table(POINTS_TITLE, shown_table(data.grid), "Medians of n runs. tok/s is B / TPOT."),
        commands=(sweep_command(config, data.settings),),
        commands_note=prompts_note(config),
        subjects=(data.experiment_id,),
    )


def load_test_report(store: Store, stored: StoredExperiment) -> Report:
    """Everything about a load test, within the latency limits of its plan. ValueError for one without a result."""
    limits = Limits(ttft_s=stored.settings.get("ttft_limit_s"), tpot_s=stored.settings.get("tpot_limit_s"))
    data = measured_load(stored, partial(_figures, store, limits))
    assert data is not None
    config = _config_of(data)
    return Report(
        kind="Load test",
        finding=rate_sentences(data)[-1],
        about=_about(store, data, load_line(data)),
        badges=_badges(data),
        cautions=_cautions(store, data, load_failures(data)),
        tiles=(),
        sections=[section for section in (*_load_sections(store, data), _goodput(data, limits)) if section is not None],
        settings=_settings_table(data, config),
        machine=machine_table(data.info),
        metrics=_frame_table(
            POINTS_TITLE,
            load_columns(data.rows),
            "Medians of completed repeats; n requests, from the intended arrival.",
        ),
        commands=(load_command(config, data.settings),),
        commands_note=prompts_note(config),
        subjects=(data.experiment_id,),
    )


# What both share.


def _config_of(data: StoredExperiment) -> RunConfig:
    if data.config is None or not data.has_results:
        raise ValueError(f"{data.experiment_id}: no point has a result yet; report it when one has")
    return data.config


def _about(store: Store, data: StoredExperiment, line: str) -> list[str]:
    machine = unescaped(machine_line(data.info)) if data.info else ""
    created = store.experiments.get(data.experiment_id)["created_at"]
    return list(filter(None, [line, machine, f"Experiment {data.experiment_id}, {created:%Y-%m-%d %H:%M} UTC"]))


def _badges(data: StoredExperiment) -> list[Badge]:
    found = [
        (SIMULATED, data.info.get("simulated")),
        (RANDOM_WEIGHTS, (data.info.get("model") or {}).get("random_weights")),
    ]
    return [badge for badge, applies in found if applies]


def _cautions(store: Store, data: StoredExperiment, failures: Sequence[str]) -> list[str]:
    marks = [badge.help for badge in _badges(data)]
    failed = [unescaped(line.removeprefix("- ")) for line in failures]
    return list(filter(None, [*marks, busy_line_of(store, data.points), *failed]))


def _settings_table(data: StoredExperiment, config: RunConfig) -> ReportTable:
    listed = {
        name: ", ".join(map(str, value)) if isinstance(value, list) else value for name, value in data.settings.items()
    }
    rows = [*setting_rows(listed), *setting_rows({"first point": config.to_dict()})]
    return ReportTable(title="Settings", header=SETTINGS_HEADER, rows=rows, is_folded=True)


def _frame_table(title: str, frame: pd.DataFrame, caption: str = "") -> ReportTable:
    """A frame of a page as texts, without empty columns: a run's id in place of its link."""
    cells = {str(name): _cells(frame[name]) for name in frame}
    shown = {name: texts for name, texts in cells.items() if set(texts) - {"", MISSING}}
    numbers = [place for place, name in enumerate(shown) if pd.api.types.is_numeric_dtype(frame[name])]
    rows = list(zip(*shown.values(), strict=True))
    return ReportTable(title=title, header=list(shown), rows=rows, figures=numbers, caption=caption)


def _cells(column: pd.Series) -> list[str]:
    """Texts as they are; whole numbers in full, others to four significant digits."""
    if not pd.api.types.is_numeric_dtype(column):
        return [MISSING if is_missing(value) else str(value).rpartition("run_id=")[2] for value in column]
    known = column.dropna()
    if bool((known % 1 == 0).all()):
        return [count(value) for value in column]
    return [number(value, TABLE_DIGITS) for value in column]


# A sweep.


def _grid(data: MeasuredSweep) -> list[Section]:
    grid = data.grid
    if grid.empty:
        return []
    first = Picture(
        title="Throughput by batch size",
        caption=throughput_caption(grid),
        draw=lambda dark: throughput_over_batch(grid, dark=dark),
    )
    sections = [Section(heading=first.title, pictures=(first,))]
    if not grid["tpot_s"].notna().any():
        return sections
    texts = [unescaped(text) for text in (memory_text(grid, data.machine.shape), serial_text(grid)) if text]
    costs = [_measure(grid, measure) for measure in (TPOT, TTFT_BY_BATCH, PEAK_MEMORY, SPEEDUP)]
    return [
        *sections,
        _choice(data),
        Section(heading="Cost by batch size", pictures=costs, sentences=texts),
        _machine(data),
    ]


def _measure(grid: pd.DataFrame, measure: SweepMeasure, level: tuple[float, str] | None = None) -> Picture:
    return Picture(
        title=f"{measure.title} by batch size",
        caption=measure_caption(grid, measure),
        draw=lambda dark: measure_over_batch(grid, measure, level=level, dark=dark),
        is_narrow=True,
    )


def _choice(data: MeasuredSweep) -> Section:
    """The largest batch size within the page's default limits."""
    ttft_s, tpot_s = _limit("ttft_limit_s"), _limit(TPOT_LIMIT) / 1e3
    texts = [f"{name}: {choice_text(rows, ttft_s, tpot_s).replace('**', '')}" for name, rows in by_series(data).items()]
    heading = f"Largest batch size within TTFT {exact(ttft_s, 's')} and TPOT {exact(tpot_s, 's')}"
    return Section(heading=heading, sentences=texts)


def _limit(name: str) -> float:
    field = LIMITS[name]
    assert isinstance(field, Number)
    assert field.default is not None
    return float(field.default)


def _machine(data: MeasuredSweep) -> Section:
    """Intensity, and the shares of the machine's ceilings where they are known."""
    balance = balance_of(data.machine.ceilings)
    level = None if balance is None else (balance, f"balance point {number(balance)}")
    measures = [_measure(data.grid, INTENSITY, level)]
    if data.machine.ceilings is not None:
        measures += [_measure(data.grid, COMPUTE), _measure(data.grid, BANDWIDTH)]
    note = unescaped(data.machine.note).replace("`", "")
    return Section(heading="Intensity and the machine's ceilings", pictures=measures, sentences=[note] if note else [])


def _ragged(data: MeasuredSweep) -> Section | None:
    ragged = data.ragged
    if ragged.empty:
        return None
    picture = Picture(
        title="Ragged batches and their controls",
        caption=ragged_caption(ragged),
        draw=lambda dark: ragged_bars(ragged, dark=dark),
    )
    return Section(heading="Ragged batches", pictures=(picture,), tables=(_frame_table("", ragged_table(ragged)),))


# A load test.


def _figures(store: Store, limits: Limits, run_id: str) -> LoadPoint | None:
    with contextlib.suppress(KeyError):
        return read_figures(store, run_id, limits)
    return None


def _waiting(store: Store, run_id: str) -> pd.DataFrame | None:
    with contextlib.suppress(KeyError):
        return read_waiting(store, run_id)
    return None


def _load_sections(store: Store, data: MeasuredLoad) -> list[Section | None]:
    rates = Picture(
        title="Achieved rate by offered rate",
        caption=" ".join(rate_sentences(data)),
        draw=lambda dark: achieved_over_offered(data.rows, capacities_of(data), dark=dark),
    )
    waits = [
        Picture(
            title=f"{name} by offered rate",
            caption=caption,
            draw=partial(_draw_wait, data.rows, latency),
            is_narrow=True,
        )
        for name, latency, caption in (
            ("Queue wait", QUEUE, wait_caption(data)),
            ("Time to first token", TTFT, " ".join(ttft_sentences(data))),
        )
    ]
    capacity = ReportTable(title="", header=CAPACITY_HEADER, rows=capacity_rows(data.table), figures=(1, 2, 3))
    return [
        Section(heading=rates.title, pictures=(rates,)),
        Section(heading="Waiting times", pictures=waits),
        _queue(store, data),
        Section(heading="Capacity and saturation point", sentences=capacity_sentences(data), tables=(capacity,)),
    ]


def _draw_wait(rows: pd.DataFrame, latency: Any, dark: bool) -> Any:
    return latency_over_offered(rows, latency, dark=dark)


def _queue(store: Store, data: MeasuredLoad) -> Section | None:
    """The queues at the lowest rate at which one grows."""
    choices = queue_choices(data)
    if not choices:
        return None
    at = first_growing(choices)
    queue, windows = queues_of(choices[at], partial(_waiting, store))
    picture = Picture(
        title=f"Queue over time at {at}",
        caption=" ".join(queue_sentences(choices[at])),
        draw=lambda dark: queue_with_windows(queue, windows, dark=dark),
    )
    return Section(heading=picture.title, pictures=(picture,))


def _goodput(data: MeasuredLoad, limits: Limits) -> Section | None:
    """Goodput within the plan's limits; nothing without one."""
    if not limits:
        return None
    known: Collection[str] = [
        f"{name} {exact(value, 's')}" for name, value in (("TTFT", limits.ttft_s), ("TPOT", limits.tpot_s)) if value
    ]
    picture = Picture(
        title="Goodput by offered rate",
        caption=" ".join(goodput_sentences(data)),
        draw=lambda dark: achieved_over_offered(data.rows, column=GOODPUT, dark=dark),
    )
    heading = f"Goodput within {' and '.join(known)}"
    return Section(heading=heading, pictures=(picture,), tables=(_frame_table("", goodput_columns(data.rows)),))
