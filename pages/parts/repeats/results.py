"""The results of a repeats experiment: header, finding, each repeat, medians, ratios, and every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from engine.core.format import MISSING, plural
from pages.figures.repeats.findings import drift_text, findings
from pages.figures.repeats.measures import BY_SHORT, MEASURES, RepeatMeasure
from pages.figures.repeats.repeats import repeat_dots
from pages.parts.experiments.choice import EXPERIMENT
from pages.parts.experiments.description import FAILED, cap_notes, execution_notes, failure_lines, lines, status_text
from pages.parts.experiments.tables import draw_csv, show_table, table_height
from pages.parts.repeats.measured import MeasuredRepeats, bench_link
from pages.parts.repeats.tables import (
    ENGINE_HEADER,
    RATIO_HEADER,
    RUN_FIGURES,
    csv_of,
    engine_rows,
    ratio_rows,
    repeat_table,
    runs_table,
)
from pages.parts.shared.charts import show_still
from pages.parts.shared.fields import Choice, Field
from pages.parts.shared.lab import is_dark
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.page_state import page_key
from pages.parts.shared.tables import TABLE_FORMAT, draw_table
from pages.parts.shared.widgets import choice

METRIC = "metric"
FIELDS: Mapping[str, Field] = {
    METRIC: Choice(options=tuple(measure.short for measure in MEASURES), default=MEASURES[0].short, label="Metric")
}
CHANCE = "By chance alone: the probability of at least as many ratios on one side of 1 if the engines were equal."
ON_BENCH = "Set **Repeats** on Bench to 2 or more; its run buttons then start a repeats experiment."
OVER_TIME = (
    "Requests arrive over time, so throughput and duration mostly reflect the arrivals. Compare latencies instead."
)


def repeats_line(data: MeasuredRepeats) -> str:
    """`static and continuous, 3 times each, interleaved: smollm2-135m, 4 slots; 8 requests of chat, budget 8-48 …`."""
    config = next(iter(data.configs.values()))
    workload = config.workload
    times = plural(data.repeats, "time")
    how = f"{times} each, interleaved" if len(data.names) > 1 else times
    what = [config.model, *execution_notes(config), plural(config.slots, "slot"), *cap_notes(config)]
    requests = f"{plural(workload.requests, 'request')} of {workload.prompts}, budget {workload.budget}"
    arrival = f"arrival {workload.arrival}, seed {workload.seed}"
    return f"{listed(list(data.names.values()))}, {how}: {', '.join(what)}; {requests}, {arrival}"


def repeats_failures(data: MeasuredRepeats) -> list[str]:
    """A line for each failure of an engine: `- static, repeat 2 (and 1 more): out of memory: asked for 4.38 GiB …`."""
    found: dict[tuple[str, str], list[int]] = {}
    for row in data.rows:
        if row["status"] in FAILED:
            found.setdefault((str(row["series"]), status_text(row)), []).append(int(row["repeat"]) + 1)
    failures = []
    for (name, status), repeats in found.items():
        more = f" (and {len(repeats) - 1} more)" if len(repeats) > 1 else ""
        failures.append(f"{name}, repeat {repeats[0]}{more}: {status}")
    return failure_lines(failures)


def draw_bench_link(load: Callable[[str], MeasuredRepeats | None]) -> None:
    """The link to Bench, with the settings of the shown experiment, if any. `load` returns one by its id."""
    data = _shown(load)
    label = "Use these settings on Bench" if data is not None else "New repeats experiment on Bench"
    query = bench_link(data) if data is not None else {"repeats": "3"}
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.page_link("pages/bench.py", label=label, icon=":material/tune:", query_params=query)
        st.caption(ON_BENCH)


def draw_finding(data: MeasuredRepeats) -> None:
    """One metric: its finding, every run in a figure, and the ratios of each repeat."""
    place = st.container(border=True)
    measure = BY_SHORT[choice(METRIC, fields=FIELDS)]
    with place:
        sentences = [plain(sentence) for sentence in findings(data.rows, data.names, measure)]
        headline = f"#### {sentences[0]}" if len(sentences) == 1 else ""
        st.markdown(headline or "\n".join(f"- **{sentence}**" for sentence in sentences))
        notes = [drift_text(data.rows, data.names, measure), _over_time(data, measure)]
        if any(notes):
            st.caption(lines(notes))
    show_still(repeat_dots(data.points, measure, dark=is_dark()), alt=f"{measure.title}, every repeat", key="dots")
    if not data.has_completed:
        return
    st.caption(
        f"{measure.title}: one dot a run, in running order from left to right; the wide tick is the engine's median, "
        f"also given under its name. {_better(measure)}"
    )
    if any("chance alone" in sentence for sentence in sentences):
        st.caption(CHANCE)
    _draw_repeats(data, measure)


def draw_medians(data: MeasuredRepeats) -> None:
    """All metrics of each engine over its repeats, and its ratios to the first engine."""
    if rows := engine_rows(data.rows, data.names):
        st.subheader("Medians and spreads", anchor=False)
        draw_table(ENGINE_HEADER, rows, figures=range(2, 7))
        st.caption("Over n completed runs; spread is (highest - lowest) / median. A p99 needs 100 gaps.")
    if len(data.names) < 2:
        return
    st.subheader("Ratios to the first engine", anchor=False)
    if ratios := ratio_rows(data.rows, data.names):
        draw_table(RATIO_HEADER, ratios, figures=range(2, 5))
        st.caption(
            "Each ratio compares two runs of the same repeat, so slow drift mostly cancels. Not within a repeat: the "
            "first engine always runs first, so drift there shifts every ratio the same way. Of many metrics, some "
            "agree by chance."
        )
    else:
        st.caption("No ratio yet; it needs a repeat in which the first engine and another completed.")


def draw_runs(data: MeasuredRepeats) -> None:
    """All runs in running order, failed ones included, and the CSV."""
    st.subheader("Runs", anchor=False)
    show_table(runs_table(data.points), "repeats_runs", figures=RUN_FIGURES, whole="repeat")
    draw_csv(csv_of(data.points), "repeats", data.experiment_id)


def _draw_repeats(data: MeasuredRepeats, measure: RepeatMeasure) -> None:
    """The chosen metric, a row per repeat; for one engine the other tables suffice."""
    if len(data.names) < 2:
        return
    frame = repeat_table(data.rows, data.names, measure)
    number, link = st.column_config.NumberColumn, st.column_config.LinkColumn
    config: dict[str, Any] = {name: number(format=TABLE_FORMAT) for name in map(str, frame) if name != "repeat"}
    config["compare"] = link("compare", display_text="open", help="Open the runs of this repeat on Compare")
    height = table_height(len(frame))
    st.dataframe(
        frame, hide_index=True, height=height, column_config=config, placeholder=MISSING, key=page_key("by_repeat")
    )


def _better(measure: RepeatMeasure) -> str:
    return "Higher is better." if measure.unit == "tokens/s" else "Lower is better."


def _over_time(data: MeasuredRepeats, measure: RepeatMeasure) -> str:
    """A note if arrivals, not the engines, determine the chosen metric."""
    config = next(iter(data.configs.values()), None)
    is_offered = config is not None and config.workload.arrival != "closed"
    return OVER_TIME if is_offered and measure.name in ("output_tokens_per_s", "duration_s") else ""


def _shown(load: Callable[[str], MeasuredRepeats | None]) -> MeasuredRepeats | None:
    """The experiment that the address names; None without a valid plan."""
    asked = st.query_params.get(EXPERIMENT)
    try:
        data = load(asked) if asked else None
    except ValueError:
        return None
    return data if data is not None and data.configs else None
