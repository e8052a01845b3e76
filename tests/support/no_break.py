"""Expected texts as they are rendered: tests type usual spaces, the lab writes no-break ones before units."""

from __future__ import annotations

import re

UNIT = r"%|s|ms|µs|B|[KMGT]iB|[GT]B|[GT]B/s|[MGT]FLOP/s|GFLOP|FLOP/byte|(?:tok|tokens|request|requests|words)/s|min|h"
NUMBER_AND_UNIT = re.compile(rf"(?<=\d) (?=(?:{UNIT})(?![\w/]))")


def nb(text: str) -> str:
    """The text with a no-break space between each number and its unit."""
    return NUMBER_AND_UNIT.sub("\u00a0", text)
