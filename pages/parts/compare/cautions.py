"""What to know before believing a comparison, as one button that opens: how many cautions there are, then each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from engine.core.format import plural
from pages.parts.compare.settings import Mismatch, cautions, draw_mismatches, setting_of
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.runs.run_text import busy_line
from pages.parts.runs.validity import Checks, badge_differences, lost_by_all
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.tables import draw_table

Runs = Mapping[str, LoadedRun]


def draw_cautions(runs: Runs, checks: Mapping[str, Checks], differing: Sequence[Mismatch]) -> None:
    """Nothing where there is no caution. `differing` are the settings that bar a fair comparison."""
    lines = caution_lines(runs, checks)
    differences = badge_differences(list(checks.values()))
    number = len(lines) + bool(differing)
    if not number:
        return
    with st.popover(plural(number, "caution"), icon=":material/rule:", type="tertiary"):
        if differing:
            draw_mismatches(list(runs), differing)
        for line in lines:
            st.markdown(f"- {line}")
        if differences:
            draw_table(("badge", *checks), [[difference.label, *difference.findings] for difference in differences])


def caution_lines(runs: Runs, checks: Mapping[str, Checks]) -> list[str]:
    """The cautions as Markdown: badges, settings that may differ by mistake, and machines that were busy."""
    lines = []
    disturbed, others = lost_by_all(list(checks.values()))
    if disturbed:
        lines.append(
            f"**In all of these runs, {plain(listed(disturbed))}.** The difference may come from the machine, not the "
            "engines: run them again."
        )
    for caution in cautions([setting_of(run.info) for run in runs.values()]):
        values = ", ".join(f"{name} {value}" for name, value in zip(runs, caution.values, strict=True))
        lines.append(plain(f"The {caution.what} differs too ({values}): {caution.why}."))
    lines += [f"{plain(name)}: {plain(line)}" for name, run in runs.items() if (line := busy_line(run.info))]
    if others:
        lines.append(f"Badges that all of these runs lost: {plain(', '.join(others))}.")
    if differences := badge_differences(list(checks.values())):
        labels = plain(", ".join(difference.label for difference in differences))
        lines.append(
            f"**These runs differ in validity: {labels}.** That may explain differences between their figures."
        )
    return lines
