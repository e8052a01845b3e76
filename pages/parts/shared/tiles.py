"""Key figures as tiles: a label, a value with its unit, and a line below. Tiles wrap and are not cut off."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One figure. `note` is its sample count or its baseline; `hint` is the tooltip."""

    label: str
    value: str
    unit: str = ""
    note: str = ""
    hint: str = ""


def draw_tiles(tiles: Sequence[Tile]) -> None:
    """Draw tiles side by side, as wide as the page; in two columns on a phone."""
    st.html(tiles_html(tiles) + STYLE)


def tiles_html(tiles: Sequence[Tile]) -> str:
    """The tiles without their style."""
    return f'<div class="tiles">{"".join(map(_tile, tiles))}</div>'


def _tile(tile: Tile) -> str:
    label, value, unit, note, hint = map(html.escape, (tile.label, tile.value, tile.unit, tile.note, tile.hint))
    unit = f'\u00a0<span class="unit">{unit}</span>' if unit else ""
    return (
        f'<div class="tile" title="{hint}"><div class="label">{label}</div>'
        f'<div class="value">{value}{unit}</div><div class="note">{note}</div></div>'
    )


STYLE = """<style>
.tiles {display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .5rem;}
@media (min-width: 1200px) {.tiles {grid-auto-flow: column; grid-auto-columns: 1fr; grid-template-columns: none;}}
.tiles .tile {border: 1px solid rgba(128,128,128,.3); border-radius: .5rem; padding: .35rem .75rem; line-height: 1.3;}
.tiles .label {font-size: .875rem; opacity: .8;}
.tiles .value {font-size: 1.5rem; line-height: 1.3; white-space: nowrap;}
.tiles .unit {font-size: 1rem; opacity: .8;}
.tiles .note {font-size: .8rem; opacity: .75;}
</style>"""
