"""A run's validity on its page, and what a comparison has to say of it: badges earned and lost, each explained."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from engine.core.format import unbroken
from engine.core.validity import Outcome
from pages.parts.lab import lab
from pages.parts.markdown import plain
from pages.parts.run_data import RunData
from pages.parts.tables import draw_table
from pages.parts.validity_words import Checks, badge_differences, fault_of, label_of, lost_by_all, summary, told_checks

MARKS = {
    Outcome.FAIL.value: (":material/cancel:", "orange"),
    Outcome.PASS.value: (":material/check_circle:", "green"),
}


def draw_validity(run: RunData) -> None:
    """The badges in a row, the lost ones first, and all of them explained behind an expander."""
    checks = lab().store.runs.checks(run.run_id)
    if not checks:  # it is still going
        return
    st.subheader("Validity", anchor="validity")
    with st.container(horizontal=True, gap="small"):
        for outcome, (icon, colour) in MARKS.items():
            for check in checks:
                if check["outcome"] == outcome:
                    name = str(check["check_name"])
                    label = label_of(name) if outcome == Outcome.PASS.value else fault_of(name)
                    st.badge(label, icon=icon, color=colour, help=plain(unbroken(str(check["finding"]))))  # type: ignore[arg-type]
    st.caption(f"{summary(checks)}.")
    with st.expander("What was checked, and what was found", icon=":material/rule:"):
        for check in told_checks(checks):
            st.markdown(f"**{check.words}** · {check.outcome}  \n{plain(check.found)}")
            st.caption(f"{plain(check.meaning)} *Limit:* {plain(check.limit)}")


def draw_validity_warning(runs: Mapping[str, RunData]) -> None:
    """In a comparison: where one run earned a badge that another lost, which may be why their figures differ."""
    checks: dict[str, Checks] = {name: lab().store.runs.checks(run.run_id) for name, run in runs.items()}
    differing = badge_differences(list(checks.values()))
    if differing:
        labels = ", ".join(difference.label for difference in differing)
        st.warning(
            f"**These runs differ in validity: {plain(labels)}.** A difference between their figures may come from it.",
            icon=":material/rule:",
        )
        with st.expander("What was found of each"):
            draw_table(("badge", *checks), [[difference.label, *difference.found] for difference in differing])
    disturbed, others = lost_by_all(list(checks.values()))
    if disturbed:
        st.warning(
            f"**All of these runs: {plain(', '.join(disturbed))}.** How much they differ may be the machine's doing as "
            "much as the engines': run them again before you believe it.",
            icon=":material/rule:",
        )
    if others:
        st.caption(f":material/rule: All of these runs: {plain(', '.join(others))}.")
