"""The prepared queries: a file of SQL each, that a person can read and change. See store/queries/prepared/.

A file begins with comments: the title, then what it shows, then how its answer is best drawn
(`-- chart: bar x=engine y=dead_fraction`; `-- chart: none` for a table alone).
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
    """How an answer is drawn: its kind (bar, line, points) and the columns that it takes."""

    kind: str
    x: str
    y: str
    color: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuery:
    """`name` is short and stays the same: links use it. `chart` is None for an answer that is best read as a table."""

    name: str
    title: str
    shows: str
    sql: str
    chart: Chart | None


@cache
def prepared_queries() -> tuple[PreparedQuery, ...]:
    """All of them, in the order of their files' numbers."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.sql")))


def _read(path: Path) -> PreparedQuery:
    lines = path.read_text(encoding="utf-8").splitlines()
    head = [line.removeprefix("-- ") for line in lines if line.startswith("-- ")]
    title, *shows, chart = head
    return PreparedQuery(
        name=path.stem.partition("_")[2],
        title=title,
        shows=" ".join(shows),
        sql="\n".join(lines[len(head) :]).strip(),
        chart=_chart(chart, path.name),
    )


def _chart(line: str, file: str) -> Chart | None:
    kind, *parts = line.removeprefix(CHART).split()
    assert line.startswith(CHART), f"{file}: its head does not end with a chart"
    return None if kind == "none" else Chart(kind=kind, **dict(part.split("=") for part in parts))
