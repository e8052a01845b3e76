"""The prepared queries of the Query page: one SQL file each in store/queries/prepared/.

A file starts with comments: the title, then what the query shows, then how to draw its result
(`-- chart: bar x=engine y=dead_fraction`; `-- chart: none` for a table only).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "prepared"
CHART = "chart: "
KINDS = ("bar", "line", "points")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """How a result is drawn: the kind of chart (bar, line, points) and its columns."""

    kind: str
    x: str
    y: str
    color: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuery:
    """`name` is used in links and never changes. `chart` is None for a result shown as a table only."""

    name: str
    title: str
    shows: str
    sql: str
    chart: Chart | None


@cache
def prepared_queries() -> tuple[PreparedQuery, ...]:
    """All prepared queries, in the order of their file numbers."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.sql")))


def _read(path: Path) -> PreparedQuery:
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line.removeprefix("-- ") for line in lines if line.startswith("-- ")]
    title, *shows, chart = comments
    return PreparedQuery(
        name=path.stem.partition("_")[2],
        title=title,
        shows=" ".join(shows),
        sql="\n".join(lines[len(comments) :]).strip(),
        chart=_chart(chart, path.name),
    )


def _chart(line: str, file: str) -> Chart | None:
    kind, *parts = line.removeprefix(CHART).split()
    assert line.startswith(CHART), f"{file}: its comments do not end with a chart"
    return None if kind == "none" else Chart(kind=kind, **dict(part.split("=") for part in parts))
