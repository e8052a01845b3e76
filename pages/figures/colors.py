"""The lab's colors: the phases of a slot, and the runs drawn over each other.

Two variants, for light and dark pages. Color never carries a meaning by itself: dead is hatched, runs also differ by
dash and have their names. Tests require a WCAG contrast of 4.5 for text on a phase, and colors that differ with red or
green color blindness. The page's theme is not known here: `surface` assumes its background.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.presets import ENGINES

PHASES = ("prefill", "decode", "dead", "empty")

_FIRST = ("continuous", "static")
_ENGINE_ORDER = (*_FIRST, *(engine for engine in ENGINES if engine not in _FIRST))  # other runs take the last style
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "star", "hexagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """Colors as #rrggbb. `on_<phase>` is the text color on that phase.

    `dead_line` is the hatching over dead; `dead_weave` the same where lines are a cell wide and need less contrast.
    `requests` are assigned to requests in turn, to separate neighbors in the KV pool; they have no other meaning.
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
    dead_line: str
    dead_weave: str
    empty: str
    empty_line: str
    waiting: str
    padding: str
    padding_line: str
    mixed: str
    fragment: str
    fragment_line: str
    series: tuple[str, ...]
    requests: tuple[str, ...]

    def phase(self, name: str) -> str:
        """The fill of one of PHASES."""
        assert name in PHASES
        return str(getattr(self, name))

    def pass_kind(self, kind: str) -> str:
        """The color of a prefill, decode or mixed pass. Mixed: decode rows and prompt chunks in one pass."""
        return self.mixed if kind == "mixed" else self.phase(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesStyle:
    """The style of a run: a color that no phase uses, and a dash that no other run in the figure has."""

    color: str
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
    dead_line="#ffd9d5",
    dead_weave="#ee968a",
    empty="#f3f5f7",
    empty_line="#dfe4e9",
    waiting="#e0982a",
    padding="#d7c9e8",
    padding_line="#8f74b8",
    mixed="#2691d9",
    fragment="#b7dccd",
    fragment_line="#1b7e60",
    series=("#1f5fbf", "#b02a83", "#7a5a2e", "#6d28d9", "#0e7490", "#2b2a28"),
    requests=(
        *("#2d69d2", "#c0a57c", "#8a426b", "#a8a824", "#292673"),
        *("#cd98ab", "#674732", "#7c87c0", "#7e6a1b", "#322dd2"),
    ),
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
    dead_line="#5a120c",
    dead_weave="#9c352c",
    empty="#1b212a",
    empty_line="#2d3540",
    waiting="#f0b04a",
    padding="#57486f",
    padding_line="#a58fd0",
    mixed="#3b8fd6",
    fragment="#244a3c",
    fragment_line="#3fb57f",
    series=("#6ea8ff", "#f083c6", "#cfae7a", "#9d6bff", "#8ff0ff", "#f4f4f2"),
    requests=(
        *("#8999e6", "#d4d435", "#a16036", "#abd0ed", "#3a35d4"),
        *("#d0deba", "#467091", "#cfbb6e", "#2559b1", "#36a18f"),
    ),
)


def palette(dark: bool) -> Palette:
    """The colors for a dark or a light page."""
    return DARK if dark else LIGHT


def translucent(color: str, opacity: float) -> str:
    """A color of the form #rrggbb with an opacity from 0 to 1, as Plotly takes it."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def engine_symbol(engine: str) -> str:
    """The engine's Plotly marker; a circle for a name that is no engine."""
    return _SYMBOLS[_ENGINE_ORDER.index(engine) % len(_SYMBOLS)] if engine in _ENGINE_ORDER else "circle"


def series_styles(names: Sequence[str], dark: bool = False) -> dict[str, SeriesStyle]:
    """A style for each name: the engine's style for the first name that begins with the engine, else a free one.

    A single name is drawn solid.
    """
    colors = palette(dark).series
    unique = list(dict.fromkeys(names))
    taken: dict[str, int] = {}
    for index, engine in enumerate(_ENGINE_ORDER):
        namesake = next((name for name in unique if name.startswith(engine)), None)
        if namesake is not None:
            taken[namesake] = index
    for name in unique:
        free = [index for index in range(len(colors)) if index not in taken.values()]
        taken.setdefault(name, free[-1] if free else len(taken))
    dashes = DASHES if len(unique) > 1 else ("solid",)
    return {
        name: SeriesStyle(color=colors[taken[name] % len(colors)], dash=dashes[taken[name] % len(dashes)])
        for name in unique
    }
