"""The results of repeats, section by section: the finding and its figure, each repeat, medians, ratios, every run."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from engine.core.format import MISSING
from pages.figures.repeat_measures import BY_SHORT, MEASURES, RepeatMeasure
from pages.figures.repeat_words import drift_words, findings
from pages.figures.repeats import repeat_dots
from pages.parts.bench_fields import Choice, Field
from pages.parts.bench_widgets import choice
from pages.parts.experiment_results import TABLE_ROWS, draw_csv, lines, show, show_table
from pages.parts.lab import is_dark
from pages.parts.markdown import plain
from pages.parts.repeats_columns import (
    ENGINE_HEADER,
    RATIO_HEADER,
    RUN_FIGURES,
    csv_of,
    engine_rows,
    ratio_rows,
    repeat_table,
    runs_table,
)
from pages.parts.repeats_data import RepeatsData
from pages.parts.tables import draw_table

METRIC = "metric"
FIELDS: Mapping[str, Field] = {
    METRIC: Choice(options=tuple(measure.short for measure in MEASURES), default=MEASURES[0].short)
}
OVER_TIME = (
    "Requests arrive over time here, so that what is served a second is mostly what was offered, and the duration "
    "mostly how long they took to arrive: the waits tell more."
)


def draw_finding(data: RepeatsData) -> None:
    """What the repeats say of one figure, drawn, in a sentence, and repeat by repeat."""
    place = st.container(border=True)
    measure = BY_SHORT[choice("Which figure", METRIC, fields=FIELDS)]
    with place:
        said = [plain(sentence) for sentence in findings(data.rows, data.names, measure)]
        st.markdown(f"#### {said[0]}" if len(said) == 1 else "\n".join(f"- **{sentence}**" for sentence in said))
        notes = [drift_words(data.rows, data.names, measure), _over_time(data, measure)]
        if any(notes):
            st.caption(lines(notes))
    show(repeat_dots(data.points, measure, dark=is_dark()), f"{measure.title}, every repeat", "repeats_dots")
    if not data.has_completed:
        return
    st.caption(
        f"{measure.title}: a dot a run, repeats from left to right in the order of running, a wide tick at each "
        f"engine's median, which stands under its name. {_better(measure)}"
    )
    _draw_repeats(data, measure)


def draw_medians(data: RepeatsData) -> None:
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


def draw_runs(data: RepeatsData) -> None:
    """Every run by itself, failures among them, and all of it as CSV."""
    st.subheader("Every run, in the order of running", anchor=False)
    show_table(runs_table(data.points), "repeats_runs", figures=RUN_FIGURES, whole="repeat")
    draw_csv(csv_of(data.points), "repeats", data.experiment_id)


def _draw_repeats(data: RepeatsData, measure: RepeatMeasure) -> None:
    """The chosen figure a repeat a line; of one engine the figure and the table of runs say it all."""
    if len(data.names) < 2:
        return
    frame = repeat_table(data.rows, data.names, measure)
    number, link = st.column_config.NumberColumn, st.column_config.LinkColumn
    config = {name: number(format="%.4g") for name in frame if name not in ("repeat", "compare")}
    config["compare"] = link("compare", display_text="open", help="The runs of this repeat on Compare")
    height = "content" if len(frame) <= TABLE_ROWS else 35 * (TABLE_ROWS + 1)
    st.dataframe(
        frame, hide_index=True, height=height, column_config=config, placeholder=MISSING, key="repeats_by_repeat"
    )


def _better(measure: RepeatMeasure) -> str:
    return "Higher is better." if measure.unit == "tokens/s" else "Lower is better."


def _over_time(data: RepeatsData, measure: RepeatMeasure) -> str:
    """A caution where throughput and duration are not the engines' own doing."""
    config = next(iter(data.configs.values()), None)
    is_offered = config is not None and config.workload.arrival != "closed"
    return OVER_TIME if is_offered and measure.name in ("output_tokens_per_s", "duration_s") else ""
