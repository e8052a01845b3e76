"""Numbers as text: the one formatter for tiles, captions, hover texts, badges, tables and the command line.

Times arrive in seconds, memory in bytes, shares between 0 and 1. JSON and CSV hold the numbers themselves.

| function | value | text |
|---|---|---|
| number | 0.052149, 1, 9.996, 5214.9 | 0.0521, 1.00, 10.0, 5,210 |
| count | 4096 | 4,096 |
| plural | 1, 8 | 1 request, 8 requests |
| counted | 4096, 12.54 | 4,096, 12.5 |
| duration | 0.0005, 0.0521, 0.9996, 312 | 500 µs, 52.1 ms, 1.00 s, 312 s |
| percent | 0, 0.4375, 0.0002, 0.00002, 0.99996 | 0 %, 43.8 %, 0.0200 %, under 0.01 %, over 99.9 % |
| change | 0.241, -0.003 | +24.1 %, -0.300 % |
| ratio | 1.9231 | 1.92x |
| size | 512, 97_600_000, 3_092_376_453 | 512 B, 93.1 MiB, 2.88 GiB |
| quantity | 312.4 and "tokens/s" | 312 tokens/s |
| exact | 0.5 and "GiB", 5 and "%" | 0.5 GiB, 5 % |

- Three significant digits, the zeros at the end included, and thousands separators. Never a power of ten.
- The unit fits the rounded value: 0.9996 s is 1.00 s, not 1,000 ms.
- `count` and `plural` write whole numbers in full. `exact` writes a limit or a setting as it was chosen: 5 %, not
  5.00 %.
- A small share is not rounded to 0 %, and one near 1 not to 100 %.
- A missing value (None, NaN, pandas' NA) is a dash, never a zero. Infinity is ∞, without a unit.
- A no-break space precedes units and %, so lines do not break there. A normal space precedes nouns.
"""

from __future__ import annotations

import codecs
import io
import math
import re
from typing import TextIO

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
NO_BREAK_SPACE = "\u00a0"
MISSING = "–"
PLAIN_CHARACTERS = "plain_characters"
UNIT_FREE = (MISSING, "∞", "-∞")
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")  # a cell that begins with one is a formula to a spreadsheet

SMALLEST_SHARE = 1e-4
NEARLY_ALL = 0.9995
SMALLEST_CHANGE = 5e-5
ROUNDING = 1e-12  # a share this close to 1 counts as 1

_BEFORE_UNIT = re.compile(
    r"(?<=[0-9∞]) (?=(?:%|(?:s|ms|µs|[KMGT]i?B|[MGT]B/s|[MGT]?FLOP/s|FLOP/byte|(?:tok|tokens|requests?)/s)(?![\w/])))"
)


def is_missing(value: float | None) -> bool:
    """True for a value that was not measured: None, NaN, or pandas' NA."""
    if value is None:
        return True
    try:
        return math.isnan(value)
    except TypeError:
        return True


def number(value: float | None, digits: int = 3) -> str:
    """`digits` significant digits, with thousands separators: 0.0521, 5.21, 52.1, 5,210. Whole counts: use `count`."""
    if value is None or is_missing(value):
        return MISSING
    if value == 0:
        return "0"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    rounded = _rounded(value, digits)
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


def count(value: float | None) -> str:
    """A whole number in full, with thousands separators."""
    return MISSING if value is None or is_missing(value) else f"{round(value):,}"


def plural(amount: float, noun: str, plural_noun: str | None = None) -> str:
    """A whole number with its noun: `1 request`, `8 requests`, `2 batches`."""
    return f"{count(amount)} {noun if amount == 1 else plural_noun or noun + 's'}"


def counted(value: float | None) -> str:
    """A count or a mean of counts: whole numbers in full, 4,096, others to three significant digits, 12.5."""
    return count(value) if value is not None and not is_missing(value) and value % 1 == 0 else number(value)


def quantity(value: float | None, unit: str) -> str:
    """Three significant digits and a unit: `312 tokens/s`, `4.39 TB/s`."""
    return _with_unit(number(value), unit)


def exact(value: float, unit: str = "", digits: int = 6) -> str:
    """A limit or setting as it was chosen, to `digits` significant digits: `5 %`, `0.5 GiB`, `1,024`."""
    rounded = value if value % 1 == 0 else float(f"{value:.{digits}g}")
    text = f"{rounded:,.12f}".rstrip("0").rstrip(".")
    return _with_unit(text, unit)


def duration(value_s: float | None) -> str:
    """A time in the unit that reads best: 850 µs, 52.1 ms, 5.21 s, 312 s."""
    if value_s is None or is_missing(value_s) or math.isinf(value_s):
        return number(value_s)
    size_s = abs(_rounded(value_s, 3))
    if size_s == 0 or size_s >= 1:
        return quantity(value_s, "s")
    return quantity(value_s * 1e3, "ms") if size_s >= 1e-3 else quantity(value_s * 1e6, "µs")


def percent(share: float | None) -> str:
    """A share between 0 and 1: 43.8 %. Only 0 is 0 %, only 1 is 100 %."""
    if share is None or is_missing(share):
        return MISSING
    if 0 < share < SMALLEST_SHARE:
        return f"under {exact(100 * SMALLEST_SHARE, '%')}"
    if NEARLY_ALL <= share < 1 - ROUNDING:
        return f"over {exact(99.9, '%')}"
    return quantity(share * 100, "%")


def change(share: float | None) -> str:
    """A relative change: +24.1 %, -0.300 %, 0 %."""
    if share is None or is_missing(share):
        return MISSING
    if abs(share) < SMALLEST_CHANGE:
        return quantity(0, "%")
    return f"{'+' if share > 0 else ''}{quantity(share * 100, '%')}"


def ratio(value: float | None, digits: int = 3) -> str:
    """A ratio: 1.92x."""
    text = number(value, digits)
    return text if text in UNIT_FREE else f"{text}x"


def size(value: float | None) -> str:
    """Bytes in binary units: 512 B, 93.1 MiB, 2.88 GiB."""
    if value is None or is_missing(value) or math.isinf(value):
        return number(value)
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(round(amount)) < 1024:
            return _with_unit(count(amount), unit) if unit == "B" else quantity(amount, unit)
        amount /= 1024
    return quantity(amount, "TiB")


def in_unit(value: float | None, unit: str) -> str:
    """A metric's value in its unit: s, share, bytes, times, any other unit, or none for a count."""
    by_unit = {"s": duration, "share": percent, "bytes": size, "times": ratio, "": counted}
    return by_unit[unit](value) if unit in by_unit else quantity(value, unit)


def aligned(value: float | None, unit: str, width: int = 10) -> str:
    """A value on the terminal: the number right-aligned in `width` characters, followed by its unit."""
    text, space, unit_text = in_unit(value, unit).partition(NO_BREAK_SPACE)
    return f"{text:>{width}}{space}{unit_text}"


def breakable(text: str) -> str:
    """The text with normal spaces, for files, JSON and CSV."""
    return text.replace(NO_BREAK_SPACE, " ")


def without_formula(text: str) -> str:
    """The text with an apostrophe before it if a spreadsheet would run it as a formula; a plain number stays."""
    return f"'{text}" if text.startswith(FORMULA_SIGNS) and not _NUMBER.fullmatch(text) else text


def unbroken(text: str) -> str:
    """A stored text with no-break spaces between numbers and units."""
    return _BEFORE_UNIT.sub(NO_BREAK_SPACE, text)


def fit_terminal(*streams: TextIO) -> None:
    """Let streams whose encoding lacks a character (ASCII has no no-break space) write a space or ? instead."""
    codecs.register_error(PLAIN_CHARACTERS, _plain_character)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=PLAIN_CHARACTERS)


def _plain_character(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(" " if c == NO_BREAK_SPACE else "?" for c in text), error.end


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}")


def _with_unit(text: str, unit: str) -> str:
    return f"{text}{NO_BREAK_SPACE}{unit}" if unit and text not in UNIT_FREE else text
