"""Tables on the terminal: plain text, columns of equal width two spaces apart, nothing cut off and nothing in color.

Laid out by tabulate. A machine without it still gets every cell: unaligned, and standard error says why.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

GAP = "  "
SIDES = {"l": "left", "r": "right"}


def table_lines(rows: Iterable[Sequence[str]], align: str, header: Sequence[str] = ()) -> list[str]:
    """A line a row, below the header where there is one. `align` has a letter a column: `l` or `r`."""
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
