"""What each colour means, once for the whole lab: the phases of a slot, and the runs that are laid over each other.

Two variants, for light and dark pages. No meaning rests on colour alone: dead is hatched, runs differ by dash and carry
their names. The tests hold text on a phase to the WCAG contrast of 4.5 and keep every pair of colours apart for eyes
that miss red or green. It does not know the page's own theme: `surface` is a guess at its background.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PHASES = ("prefill", "decode", "dead", "empty")

ENGINE_ORDER = ("continuous", "static", "serial")
DASHES = ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """Colours as #rrggbb. `on_<phase>` is the text colour on that phase.

    `dead_line` is the hatching over dead; `dead_weave` the same where a line is a cell wide and would outshine the red.
    """

    surface: str
    text: str
    faint_text: str
    grid: str
    prefill: str
    on_prefill: str
    decode: str
    on_decode: str
    dead: str
    on_dead: str
    dead_line: str
    dead_weave: str
    empty: str
    empty_line: str
    waiting: str
    padding: str
    padding_line: str
    series: tuple[str, ...]

    def phase(self, name: str) -> str:
        """The fill of one of PHASES."""
        assert name in PHASES
        return str(getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesStyle:
    """How one run is drawn over others: a colour that no phase uses, and a dash that no other run in the figure has."""

    colour: str
    dash: str


LIGHT = Palette(
    surface="#ffffff",
    text="#262b33",
    faint_text="#5d6673",
    grid="#e3e7ec",
    prefill="#56657a",
    on_prefill="#ffffff",
    decode="#1b7e60",
    on_decode="#ffffff",
    dead="#de4c35",
    on_dead="#ffffff",
    dead_line="#ffd9d5",
    dead_weave="#ee968a",
    empty="#f3f5f7",
    empty_line="#dfe4e9",
    waiting="#e0982a",
    padding="#d7c9e8",
    padding_line="#8f74b8",
    series=("#1f5fbf", "#b02a83", "#7a5a2e", "#2b2a28"),
)

DARK = Palette(
    surface="#0e1117",
    text="#e6e9ee",
    faint_text="#9aa5b4",
    grid="#2a313c",
    prefill="#8b9bb1",
    on_prefill="#0d131b",
    decode="#3fb57f",
    on_decode="#04180e",
    dead="#e2574c",
    on_dead="#1c0503",
    dead_line="#5a120c",
    dead_weave="#9c352c",
    empty="#1b212a",
    empty_line="#2d3540",
    waiting="#f0b04a",
    padding="#57486f",
    padding_line="#a58fd0",
    series=("#6ea8ff", "#f083c6", "#cfae7a", "#f4f4f2"),
)


def palette(dark: bool) -> Palette:
    """The colours for a dark or a light page."""
    return DARK if dark else LIGHT


def series_styles(names: Sequence[str], dark: bool = False) -> dict[str, SeriesStyle]:
    """A style for each name: the engine's own for the first name that begins with it, else a free one.

    A name alone is drawn solid.
    """
    colours = palette(dark).series
    unique = list(dict.fromkeys(names))
    taken: dict[str, int] = {}
    for index, engine in enumerate(ENGINE_ORDER):
        namesake = next((name for name in unique if name.startswith(engine)), None)
        if namesake is not None:
            taken[namesake] = index
    for name in unique:
        free = [index for index in range(len(colours)) if index not in taken.values()]
        taken.setdefault(name, free[-1] if free else len(taken))
    dashes = DASHES if len(unique) > 1 else ("solid",)
    return {
        name: SeriesStyle(colour=colours[taken[name] % len(colours)], dash=dashes[taken[name] % len(dashes)])
        for name in unique
    }
