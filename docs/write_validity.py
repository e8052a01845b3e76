"""Writes docs/validity.md from the one definition of each badge in engine/validity/validity.py: `make docs`.

A test holds the page to what this writes, so that the two cannot drift apart.
"""

from __future__ import annotations

from pathlib import Path

from engine.validity.validity import CHECKS

PAGE = Path(__file__).with_name("validity.md")

INTRODUCTION = """# Validity

Written by `make docs` from `engine/validity/validity.py`, where each badge is defined once.

A run earns a badge by a check that it passes; it is judged once, when it has ended, by its run log alone. A check that
does not apply (no rate was asked for, nothing was logged of it) neither gives nor takes a badge. No check changes a
figure: a lost badge says what a reader should know before taking a figure for more than it is. Limits are conventions.

Everywhere a badge that was earned says what holds (`real weights`), one that was lost what is wrong (`random weights`).
A run's page shows its badges with what was found; History has a column of them and filters by them; Compare warns where
one run earned a badge that another lost. In the store they are the table `run_checks`: a row a check of a run, with
`outcome` (`pass`, `fail`, `not applicable`), `value` and `threshold` where a figure was judged, and `finding`, the
sentence with the run's own figures.
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
