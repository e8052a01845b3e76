"""A report as data: what its HTML file and its Markdown are made of. All texts are plain, without Markdown or HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from pages.parts.runs.badges import Badge
from pages.parts.shared.tiles import Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure with its finding. `draw` takes whether the page is dark. `is_narrow`: two fit side by side."""

    title: str
    caption: str
    draw: Callable[[bool], go.Figure]
    is_narrow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """A table as texts. `figures` are the indexes of columns with numbers. `is_folded`: closed until it is opened."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: Sequence[int] = ()
    caption: str = ""
    is_folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with figures, sentences and tables below it."""

    heading: str
    pictures: Sequence[Picture] = ()
    sentences: Sequence[str] = ()
    tables: Sequence[ReportTable] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`finding` is the headline, `below` the sentence below it. `about` are lines on what was run. `cautions` say why
    numbers may mislead.

    `commands` repeat it, one a line; `subjects` are the ids of its runs, or of its experiment.
    """

    kind: str
    finding: str
    below: str = ""
    about: Sequence[str]
    badges: Sequence[Badge]
    cautions: Sequence[str]
    tiles: Sequence[Tile]
    tiles_note: str = ""
    sections: Sequence[Section]
    settings: ReportTable
    machine: ReportTable
    metrics: ReportTable | None
    commands: Sequence[str]
    commands_note: str = ""
    subjects: Sequence[str]

    @property
    def source(self) -> str:
        """`Run 01kb…`, `Runs 01kb…, 01kc…`: what its pictures name as their source."""
        noun = self.kind if len(self.subjects) == 1 else "Runs"
        return f"{noun} {', '.join(self.subjects)}"
