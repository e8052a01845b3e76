"""A report as Markdown, to paste into a chat or an issue: finding, key figures, settings, metrics, command, run ids."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.format import MISSING, breakable
from pages.report.report import Report, ReportTable


def report_markdown(report: Report) -> str:
    """Values that are missing are left out."""
    lines = [f"**{_text(report.finding)}**", _text(report.below), *(f"- {_text(line)}" for line in report.about)]
    blocks = [line for line in lines if line]
    blocks += [f"> {_text(caution)}" for caution in report.cautions]
    parts = ["\n".join(blocks)]
    if report.tiles:
        rows = [[tile.label, f"{tile.value} {tile.unit}".strip(), tile.note] for tile in report.tiles]
        parts.append(_table(("key figure", "value", ""), rows))
    parts += [_titled(table) for table in (report.settings, report.metrics) if table is not None]
    parts.append("```\n" + "\n".join(report.commands) + "\n```")
    parts += [_text(report.commands_note)] if report.commands_note else []
    return breakable("\n\n".join([*parts, f"{_text(report.source)}, from the batching lab"]) + "\n")


def _titled(table: ReportTable) -> str:
    known = [row for row in table.rows if any(cell != MISSING for cell in row[1:])]
    return f"**{_text(table.title)}**\n\n{_table(table.header, known)}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_text, line))} |" for line in lines)


def _text(text: str) -> str:
    """A text on one line, without what would end a cell or begin a tag."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")
