"""The comparison in figures: ratios as tiles, the difference table, the settings that differ. Verdicts are words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import MISSING, exact
from engine.metrics.metrics import RUN_METRICS
from pages.parts.compare.comparison import TIE_SHARE, Difference, differences
from pages.parts.runs.comparable import Mismatch
from pages.parts.runs.compared import Compared
from pages.parts.runs.environment import flat
from pages.parts.shared.markdown import plain
from pages.parts.shared.tables import draw_table
from pages.parts.shared.tiles import Tile, draw_tiles

RATIOS = {
    "output_tokens_per_s": "Throughput",
    "duration_s": "Duration",
    "ttft_p50_s": "First token, p50",
    "e2e_p50_s": "Whole answer, p50",
    "itl_p95_s": "Gap between tokens, p95",
    "slot_steps": "Slot-steps",
}


def draw_ratios(runs: Sequence[Compared]) -> None:
    """For a pair: the second run over the first, whether that is better, and both values beneath."""
    rows = {row.metric.name: row for row in differences(runs, list(RATIOS))}
    draw_tiles([_tile(label, rows[name]) for name, label in RATIOS.items() if name in rows])
    first, second = runs
    st.caption(f"Each ratio is {plain(second.name)} over {plain(first.name)}.")


def _tile(label: str, row: Difference) -> Tile:
    other = row.others[0]
    return Tile(
        label=label,
        value=other.ratio_text,
        note=f"{other.verdict + ': ' if other.verdict else ''}{other.text} against {row.first_text}",
        hint=f"{row.metric.meaning} {_direction(row)}",
    )


def draw_differences(runs: Sequence[Compared]) -> None:
    """The key metrics, then behind an expander every one."""
    st.subheader("Differences", anchor="differences")
    header = difference_header(runs)
    figures = range(1, len(header))
    draw_table(header, difference_rows(differences(runs)), figures=figures)
    incomplete = [run.name for run in runs if not run.is_complete]
    if incomplete:
        st.caption(f"{plain(', '.join(incomplete))} did not complete: nothing is called better or worse.")
    else:
        st.caption(
            f"Each ratio is over {plain(runs[0].name)}. Counts are compared exactly; measured values within "
            f"{exact(TIE_SHARE * 100, '%')} of each other are about equal, since a second run differs by as much."
        )
    with st.expander("Every metric"):
        every = differences(runs, [metric.name for metric in RUN_METRICS])
        draw_table(header, difference_rows(every), figures=figures)
        st.page_link("pages/glossary.py", label="What they mean is in the glossary", icon=":material/dictionary:")


def difference_header(runs: Sequence[Compared]) -> list[str]:
    """metric, the first run; then for a pair the other run and the ratio, for more runs one column each."""
    first, *others = runs
    if len(others) == 1:
        return ["metric", first.name, others[0].name, "ratio"]
    return ["metric", first.name, *(other.name for other in others)]


def difference_rows(rows: Sequence[Difference]) -> list[list[str]]:
    """The cells beneath difference_header."""
    lines = []
    for row in rows:
        judged = [" ".join(filter(None, (other.ratio_text, other.verdict))) for other in row.others]
        if len(row.others) == 1:
            others = [row.others[0].text, judged[0]]
        else:
            others = [f"{other.text} ({words})" for other, words in zip(row.others, judged, strict=True)]
        lines.append([row.metric.label, row.first_text, *others])
    return lines


def setting_rows(configs: Sequence[RunConfig]) -> list[list[str]]:
    """The settings in which the runs differ, a row each: its name and each run's value."""
    flattened = [dict(flat(config.to_dict())) for config in configs]
    differing = [name for name in flattened[0] if len({repr(facts.get(name)) for facts in flattened}) > 1]
    return [[name, *(_setting(facts.get(name)) for facts in flattened)] for name in differing]


def mismatch_rows(found: Sequence[Mismatch]) -> list[list[str]]:
    """What bars the comparison, a row each: what differs, each run's value, why it matters."""
    return [[mismatch.what, *mismatch.values, mismatch.why] for mismatch in found]


def _direction(row: Difference) -> str:
    return f"{row.metric.better.capitalize()} is better." if row.metric.better else "Neither way is better by itself."


def _setting(value: Any) -> str:
    return MISSING if value is None else str(value)[:80]
