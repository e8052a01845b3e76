"""Figures as one HTML page that needs no network: each figure module shows its demo this way."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as go

from pages.figures.colors import palette


def write_page(figures: Sequence[go.Figure], path: Path) -> Path:
    """Write the figures one below another, each on the background of its own theme."""
    parts = [
        f'<div style="background:{_background(figure)};padding:12px">'
        + figure.to_html(full_html=False, include_plotlyjs=i == 0, default_width="100%", config={"displaylogo": False})
        + "</div>"
        for i, figure in enumerate(figures)
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>body{margin:0}</style>'
    path.write_text(f"<!doctype html>{head}{''.join(parts)}", encoding="utf-8")
    return path


def show(figures: Sequence[go.Figure]) -> None:
    """Write the figures to a new temporary folder and print the page's path."""
    print(write_page(figures, Path(tempfile.mkdtemp(prefix="figures-")) / "figures.html"))


def _background(figure: go.Figure) -> str:
    dark, light = palette(True), palette(False)
    return dark.surface if figure.layout.font.color == dark.text else light.surface
