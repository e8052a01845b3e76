"""Small tables as HTML: foreign text is escaped, numbers are right-aligned, a wide table scrolls.

Sortable tables are Streamlit's; TABLE_FORMAT is how their numbers are written.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Sequence

import pandas as pd
import streamlit as st

from engine.core.format import without_formula

PROSE_CHARACTERS = 32
TABLE_FORMAT = "%.4g"  # of numbers in sortable tables: four significant digits, so that close rows differ


def frame_csv(frame: pd.DataFrame) -> str:
    """A frame as CSV: full precision, an empty cell for a missing value, no text that a spreadsheet would run."""
    safe = {
        str(name): frame[name].map(lambda value: without_formula(value) if isinstance(value, str) else value)
        for name in frame
        if not pd.api.types.is_numeric_dtype(frame[name])
    }
    return frame.assign(**safe).to_csv(index=False)


def draw_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, figures: Collection[int] = ()) -> None:
    """Draw a table. `figures` are the indexes of columns with numbers."""
    st.html(table_html(header, rows, figures=figures) + STYLE)


def table_html(header: Sequence[str], rows: Sequence[Sequence[str]], *, figures: Collection[int] = ()) -> str:
    """The table without its style, with a button for its CSV. Every row is as long as the header."""
    assert all(len(row) == len(header) for row in rows)
    kinds = [' class="figure"' if place in figures else "" for place in range(len(header))]
    head = "".join(f"<th{kind}>{html.escape(text)}</th>" for kind, text in zip(kinds, header, strict=True))
    body = "".join(f"<tr>{''.join(map(_cell, kinds, row))}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    name = html.escape("-".join(re.findall(r"\w+", header[0].lower())) or "table") if header else "table"
    button = f'<button class="lab-csv" type="button" data-file="{name}" title="Download this table as CSV">CSV</button>'
    return f'<div class="lab-table"><div class="scroll">{table}</div>{button}</div>'


def _cell(kind: str, text: str) -> str:
    """A cell with a sentence gets a minimum width, so that its column is not one word wide."""
    kind = kind or (' class="prose"' if len(text) > PROSE_CHARACTERS else "")
    return f"<td{kind}>{html.escape(text)}</td>"


STYLE = """<style>
.lab-table {margin-bottom: .25rem;}
.lab-table .scroll {overflow-x: auto;}
.lab-csv {font: inherit; font-size: .75rem; color: inherit; opacity: .75; background: none; cursor: pointer;
  border: 1px solid rgba(128,128,128,.4); border-radius: .3rem; padding: 0 .4rem; margin-top: .3rem;}
.lab-csv:hover, .lab-csv:focus-visible {opacity: 1;}
.lab-table table {border-collapse: collapse; line-height: 1.35; font-size: .95rem;}
.lab-table th {text-align: left; font-weight: 600; vertical-align: bottom;}
.lab-table th, .lab-table td {padding: .35rem .8rem .35rem 0; border-bottom: 1px solid rgba(128,128,128,.25);
  vertical-align: top; overflow-wrap: break-word;}
.lab-table .figure {text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: normal;}
.lab-table td.figure {padding-left: .6rem;}
.lab-table td.prose {min-width: 11rem;}
@media (max-width: 640px) {
  .lab-table table {font-size: .85rem;}
  .lab-table th, .lab-table td {padding-right: .45rem;}
}
</style>"""
