"""Writes docs/validity.md from the badges defined in engine/validity/validity.py (`make docs`).

A test compares the page with what this writes.
"""

from __future__ import annotations

from pathlib import Path

from engine.validity.validity import CHECKS

PAGE = Path(__file__).with_name("validity.md")

INTRODUCTION = """# Validity

Written by `make docs` from `engine/validity/validity.py`, where each badge is defined once.

A run earns a badge by passing its check. Runs are judged once, when they end, from the run log only. A check that does
not apply (the run has no arrival rate, or nothing was logged) neither earns nor loses a badge. No check changes a
figure: a lost badge warns that figures may mislead. Limits are conventions.

An earned badge shows its label (`real weights`), a lost badge its fault (`random weights`). A run's page shows its
badges with their findings. History has a column of lost badges and filters by badges. Compare warns where runs differ.
In the store, the table `run_checks` has one row per check and run, with `outcome` (`pass`, `fail`, `not applicable`),
`value` and `threshold` if a figure was judged, and `finding`, one sentence with the run's own figures.
"""


def render() -> str:
    """The whole page."""
    lines = ["| earned | lost | name | why it matters | limit | `value` |", "|---|---|---|---|---|---|"]
    lines += [
        f"| **{check.label}** | {check.fault} | `{check.name}` | {check.meaning} | {check.limit} "
        f"| {check.unit or '–'} |"
        for check in CHECKS
    ]
    return "\n".join([INTRODUCTION, *lines, ""])


if __name__ == "__main__":
    PAGE.write_text(render())
    print(f"{PAGE.name}: {len(CHECKS)} badges")
