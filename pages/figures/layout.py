"""The style of all figures: transparent background, the page's font, plain axes, and zoom kept on updates."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from pages.figures.colors import palette

FONT_FAMILY = '"Source Sans", "Source Sans 3", "Source Sans Pro", system-ui, -apple-system, "Segoe UI", sans-serif'
NO_BUTTONS = ("select", "lasso", "autoscale", "sendChartToCloud")  # nothing to select; no data leaves the page
TITLE_PX = 30
AXIS_PX = 46


def new_figure(*, plot_px: int, dark: bool, title: str = "", top: int = 8, left: int = 44, right: int = 8) -> go.Figure:
    """An empty figure in the lab's style around a plot of `plot_px` pixels height.

    `top`, `left` and `right` are margins in pixels; space for the title and the x axis is added.
    """
    colors = palette(dark)
    title_px = TITLE_PX if title else 0
    layout: dict[str, Any] = {
        "height": plot_px + top + title_px + AXIS_PX,
        "margin": {"l": left, "r": right, "t": top + title_px, "b": AXIS_PX, "pad": 0},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT_FAMILY, "size": 13, "color": colors.text},
        "hoverlabel": {"align": "left", "font": {"family": FONT_FAMILY, "size": 13}},
        "template": "none",
        "uirevision": "kept",
        "dragmode": False,
        "showlegend": False,
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": colors.faint_text,
            "activecolor": colors.text,
            "remove": list(NO_BUTTONS),
        },
    }
    if title:
        layout["title"] = {
            "text": f"<b>{literal(title)}</b>",
            "font": {"size": 15, "color": colors.text},
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 6},
        }
    return go.Figure(layout=layout)  # one call: update_layout takes ten times as long


def set_layout(figure: go.Figure, **parts: Any) -> None:
    """Replace whole parts of a figure's layout (xaxis, legend …). Much faster than `update_layout`, which merges."""
    for name, value in parts.items():
        figure.layout[name] = value


def axis(dark: bool, **settings: Any) -> dict[str, Any]:
    """The settings of a plain axis; `settings` extend or replace them."""
    colors = palette(dark)
    plain: dict[str, Any] = {
        "showgrid": True,
        "gridcolor": colors.grid,
        "gridwidth": 1,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "tickfont": {"size": 12, "color": colors.faint_text},
        "automargin": False,
    }
    title = settings.pop("title", None)
    if title is not None:
        plain["title"] = {"text": title, "font": {"size": 12, "color": colors.faint_text}, "standoff": 6}
    return plain | settings


def label(text: str, **place: Any) -> dict[str, Any]:
    """An annotation without an arrow; `place` has Plotly's position attributes."""
    return {"text": text, "showarrow": False, "xanchor": "left", "yanchor": "middle"} | place


def legend_above(*, gap_px: int, plot_px: int, indent_px: int = -15) -> dict[str, Any]:
    """A legend in one line, `gap_px` above a plot of `plot_px` height; four short names fit a narrow phone.

    `indent_px` is the space before a swatch, relative to Plotly's default. Line swatches need more than squares.
    """
    return {
        "orientation": "h",
        "traceorder": "normal",
        "x": 0,
        "xanchor": "left",
        "y": 1 + gap_px / plot_px,
        "yanchor": "bottom",
        "itemwidth": 30,
        "indentation": indent_px,
        "font": {"size": 12},
        "bgcolor": "rgba(0,0,0,0)",
        "itemclick": False,
        "itemdoubleclick": False,
    }


def literal(text: str) -> str:
    """Foreign text (a model, a device, a value of an answer) as Plotly shows it unchanged: no tags, no templates."""
    return html.escape(text, quote=False).replace("{", "&#123;")


def legend_name(text: str) -> str:
    """The text, literally, with space after it, so each swatch is closer to its own name than to the one before."""
    return literal(text) + "\u00a0" * 3


def note_figure(note: str, *, dark: bool, title: str = "", height: int = 140) -> go.Figure:
    """A figure without data: the note in its middle."""
    figure = new_figure(plot_px=height - AXIS_PX, dark=dark, title=title)
    figure.update_xaxes(visible=False, range=[0, 1])
    figure.update_yaxes(visible=False, range=[0, 1])
    faint = palette(dark).faint_text
    figure.add_annotation(
        label(note, x=0.5, y=0.5, xref="paper", yref="paper", xanchor="center", font={"size": 14, "color": faint})
    )
    return figure


def hatch(dark: bool) -> Mapping[str, Any]:
    """The diagonal lines that mark dead rows, on bars and on filled areas."""
    colors = palette(dark)
    return {
        "shape": "/",
        "fillmode": "overlay",
        "bgcolor": colors.dead,
        "fgcolor": colors.dead_line,
        "fgopacity": 1,
        "size": 7,
        "solidity": 0.22,
    }
