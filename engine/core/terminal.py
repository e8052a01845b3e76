"""The terminal: errors of a command line in one line, and tables.

Tables are plain text in aligned columns, two spaces apart. Cells are never cut off or colored. tabulate does the
layout. Without it, cells are printed unaligned, with a note on standard error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

from engine.core.errors import shortened

BAD_INPUT = 2  # exit status
GAP = "  "
SIDES = {"l": "left", "r": "right"}


class OneLineParser(argparse.ArgumentParser):
    """argparse with one line per error and no usage text."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {shortened(message)}; see {self.prog} --help\n")


def table_lines(rows: Iterable[Sequence[str]], align: str, header: Sequence[str] = ()) -> list[str]:
    """One line per row, after an optional header. `align` has one letter per column: `l` or `r`."""
    lines = [list(row) for row in ([header] if header else [])] + [list(row) for row in rows]
    assert all(len(line) == len(align) for line in lines)
    if not lines:
        return []
    try:
        import tabulate
    except ImportError:
        print("the columns are not aligned: tabulate is missing, `pip install tabulate` adds it", file=sys.stderr)
        return [GAP.join(line).rstrip() for line in lines]
    text = tabulate.tabulate(
        lines,
        tablefmt="plain",
        disable_numparse=True,
        preserve_whitespace=True,
        colalign=[SIDES[side] for side in align],
    )
    return [line.rstrip() for line in text.split("\n")]
