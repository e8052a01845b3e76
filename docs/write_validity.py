"""Writes docs/validity.md from the definitions in engine/validity/validity.py: `make docs`. A test compares the two."""

from __future__ import annotations

from pathlib import Path

from engine.validity.validity import CHECKS

PAGE = Path(__file__).with_name("validity.md")

INTRODUCTION = """# Validity

Written by `make docs` from `engine/validity/validity.py`, where each badge is defined once.

A run earns a badge by passing a check. It is judged once, when it ends, from its run log. A check that does not apply
(no rate was asked for, nothing was logged) neither gives nor takes a badge. No check changes a number: a lost badge
says how far the run's numbers can be trusted. Limits are conventions.

An earned badge says what holds (`real weights`), a lost one what is wrong (`random weights`). A run's page shows its
badges with their findings; History has a column of them and filters by them; Compare warns where one run earned a badge
that another lost. In the store they are the table `run_checks`, a row per check and run: `outcome` (`pass`, `fail`,
`not applicable`), `value` and `threshold` where a number was judged, and `finding`, the sentence with the run's own
numbers.
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
