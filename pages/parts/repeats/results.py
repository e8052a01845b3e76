"""The results of repeats: what was asked and what failed, the finding, each repeat, medians, ratios, every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from engine.core.format import MISSING, plural
from pages.figures.repeats.findings import drift_text, findings
from pages.figures.repeats.measures import BY_SHORT, MEASURES, RepeatMeasure
from pages.figures.repeats.repeats import repeat_dots
from pages.parts.experiments.choice import EXPERIMENT
from pages.parts.experiments.description import FAILED, cap_text, failure_lines, how_text, lines, status_text
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
from pages.parts.shared.tables import draw_table
from pages.parts.shared.widgets import choice

METRIC = "metric"
FIELDS: Mapping[str, Field] = {
    METRIC: Choice(options=tuple(measure.short for measure in MEASURES), default=MEASURES[0].short)
}
ON_BENCH = "Set **Repeats** on Bench to 2 or more: each of its buttons then runs all its engines once, then all again."
OVER_TIME = (
    "Requests arrive over time here, so that what is served a second is mostly what was offered, and the duration "
    "mostly how long they took to arrive: the waits tell more."
)


def repeats_line(data: MeasuredRepeats) -> str:
    """`static and continuous, 3 times each, in turn: smollm2-135m, 4 slots, 8 requests of chat, budget 8-48 …`."""
    config = next(iter(data.configs.values()))
    workload = config.workload
    times = plural(data.repeats, "time")
    how = f"{times} each, in turn" if len(data.names) > 1 else times
    what = [config.model, *how_text(config), plural(config.slots, "slot"), *cap_text(config)]
    requests = f"{plural(workload.requests, 'request')} of {workload.prompts}, budget {workload.budget}"
    arrival = f"arrival {workload.arrival}, seed {workload.seed}"
    return f"{listed(list(data.names.values()))}, {how}: {', '.join(what)}; {requests}, {arrival}"


def repeats_failures(data: MeasuredRepeats) -> list[str]:
    """Each way in which an engine failed, once: `- static, repeat 2 (and 1 more): out of memory: asked 4.38 GiB …`."""
    found: dict[tuple[str, str], list[int]] = {}
    for row in data.rows:
        if row["status"] in FAILED:
            found.setdefault((str(row["series"]), status_text(row)), []).append(int(row["repeat"]) + 1)
    said = []
    for (name, status), repeats in found.items():
        more = f" (and {len(repeats) - 1} more)" if len(repeats) > 1 else ""
        said.append(f"{name}, repeat {repeats[0]}{more}: {status}")
    return failure_lines(said)


def draw_way_to_bench(load: Callable[[str], MeasuredRepeats | None]) -> None:
    """How an experiment of repeats is made: on Bench, with the settings of the one that is shown, if there is one.

    `load` finds an experiment by its id.
    """
    data = _shown(load)
    label = "The same on Bench" if data is not None else "Set one up on Bench"
    query = bench_link(data) if data is not None else {"repeats": "3"}
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.page_link("pages/bench.py", label=label, icon=":material/tune:", query_params=query)
        st.caption(ON_BENCH)


def draw_finding(data: MeasuredRepeats) -> None:
    """What the repeats say of one figure, drawn, in a sentence, and repeat by repeat."""
    place = st.container(border=True)
    measure = BY_SHORT[choice("Which figure", METRIC, fields=FIELDS)]
    with place:
        said = [plain(sentence) for sentence in findings(data.rows, data.names, measure)]
        st.markdown(f"#### {said[0]}" if len(said) == 1 else "\n".join(f"- **{sentence}**" for sentence in said))
        notes = [drift_text(data.rows, data.names, measure), _over_time(data, measure)]
        if any(notes):
            st.caption(lines(notes))
    show_still(repeat_dots(data.points, measure, dark=is_dark()), alt=f"{measure.title}, every repeat", key="dots")
    if not data.has_completed:
        return
    st.caption(
        f"{measure.title}: a dot a run, repeats from left to right in the order of running, a wide tick at each "
        f"engine's median, which stands under its name. {_better(measure)}"
    )
    _draw_repeats(data, measure)


def draw_medians(data: MeasuredRepeats) -> None:
    """Every figure of each engine over its repeats; the ratios to the first engine, where there are more."""
    if rows := engine_rows(data.rows, data.names):
        st.subheader("Each engine over its repeats", anchor=False)
        draw_table(ENGINE_HEADER, rows, figures=range(2, 7))
        st.caption(
            "Over the n completed runs; spread is (highest - lowest) / median. A 99th percentile needs 100 gaps."
        )
    if len(data.names) < 2:
        return
    st.subheader("Against the first, repeat by repeat", anchor=False)
    if ratios := ratio_rows(data.rows, data.names):
        draw_table(RATIO_HEADER, ratios, figures=range(2, 5))
        st.caption(
            "Each ratio is of two runs of the same repeat: what slows the machine over both weighs on both. The chance "
            "is that of so many or more on one side of 1, if the order did not matter; but the first engine always "
            "runs first, and a drift within a repeat pushes every ratio the same way. Of many figures, some agree by "
            "chance."
        )
    else:
        st.caption("There is no ratio yet: it takes a repeat in which the first engine and another completed.")


def draw_runs(data: MeasuredRepeats) -> None:
    """Every run by itself, failures among them, and all of it as CSV."""
    st.subheader("Every run, in the order of running", anchor=False)
    show_table(runs_table(data.points), "repeats_runs", figures=RUN_FIGURES, whole="repeat")
    draw_csv(csv_of(data.points), "repeats", data.experiment_id)


def _draw_repeats(data: MeasuredRepeats, measure: RepeatMeasure) -> None:
    """The chosen figure a repeat a line; of one engine the figure and the table of runs say it all."""
    if len(data.names) < 2:
        return
    frame = repeat_table(data.rows, data.names, measure)
    number, link = st.column_config.NumberColumn, st.column_config.LinkColumn
    config = {name: number(format="%.4g") for name in frame if name not in ("repeat", "compare")}
    config["compare"] = link("compare", display_text="open", help="The runs of this repeat on Compare")
    height = table_height(len(frame))
    st.dataframe(
        frame, hide_index=True, height=height, column_config=config, placeholder=MISSING, key=page_key("by_repeat")
    )


def _better(measure: RepeatMeasure) -> str:
    return "Higher is better." if measure.unit == "tokens/s" else "Lower is better."


def _over_time(data: MeasuredRepeats, measure: RepeatMeasure) -> str:
    """A caution where throughput and duration are not the engines' own doing."""
    config = next(iter(data.configs.values()), None)
    is_offered = config is not None and config.workload.arrival != "closed"
    return OVER_TIME if is_offered and measure.name in ("output_tokens_per_s", "duration_s") else ""


def _shown(load: Callable[[str], MeasuredRepeats | None]) -> MeasuredRepeats | None:
    """The experiment that the address names, where the store has it whole."""
    asked = st.query_params.get(EXPERIMENT)
    try:
        data = load(asked) if asked else None
    except ValueError:
        return None
    return data if data is not None and data.configs else None
