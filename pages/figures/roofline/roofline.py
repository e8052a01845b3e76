"""The roofline: achieved FLOP/s of forward passes by FLOP/byte, under a machine's ceilings.

Both axes are logarithmic: bandwidth is a slope and compute is flat; they meet at the balance point. The color and shape
of a mark are the kind of pass, its fill is the run, and its size grows with the number of passes. The launch line is
the limit from kernel launches for a pass that reads about as much as the weights. After Williams, Waterman and
Patterson, Roofline (2009). The figure does not know whether bytes were measured or estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import counted, duration, number, plural, quantity
from engine.hardware.roofline import Ceilings
from pages.figures.colors import palette
from pages.figures.frames import records
from pages.figures.layout import axis, label, legend_above, legend_name, literal, new_figure, note_figure, set_layout
from pages.figures.timeline.passes import SYMBOLS

PLOT_PX = 400
TOP_PX = 46  # a heading and a legend line; a longer legend shrinks the plot
FILLS = ("", "-open", "-dot", "-cross")  # of the marks, by run
MARK_PX = (6.0, 18.0)
MAX_MARKS = 4000
GIGA, TERA = 1e9, 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """The ceilings of a machine. `launch_bytes_per_s` is the bytes a pass reads over the time to launch its kernels."""

    name: str
    ceilings: Ceilings
    dtype: str
    launch_bytes_per_s: float | None = None


def roofline(points: pd.DataFrame, roof: Roof | None, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw points (series, kind, rows, width, passes, seconds, intensity, flop_per_s) under an optional roof.

    `seconds` is the median pass time of a mark. No points and no roof give a figure with a note.
    """
    if not points.empty:
        points = points[(points["intensity"] > 0) & (points["flop_per_s"] > 0)]
    if points.empty and roof is None:
        return note_figure("No pass to draw.", dark=dark, title=title)
    x_range, y_range = _ranges(points, roof)
    figure = new_figure(plot_px=PLOT_PX, dark=dark, title=title, top=TOP_PX, left=62, right=14)
    if roof is not None:
        _add_roof(figure, roof, x_range, y_range, dark)
    _add_points(figure, points, dark)
    set_layout(
        figure,
        showlegend=True,
        legend=legend_above(gap_px=24, plot_px=PLOT_PX),
        xaxis=axis(
            dark,
            title="FLOP/byte",
            type="log",
            range=list(np.log10(x_range)),
            fixedrange=True,
            dtick=1,
            tickformat="~g",
        ),
        yaxis=axis(dark, type="log", range=list(np.log10(y_range)), fixedrange=True, **_rate_ticks(y_range)),
    )
    figure.add_annotation(
        label(
            "achieved FLOP/s",
            x=0,
            xref="paper",
            y=1,
            yref="paper",
            xshift=-58,
            yanchor="bottom",
            yshift=6,
            font={"size": 12, "color": palette(dark).faint_text},
        )
    )
    return figure


def rate_text(flop_per_s: float) -> str:
    """`39.4 TFLOP/s`, `58 GFLOP/s`: powers of ten, never of two."""
    for unit, amount in (("TFLOP/s", TERA), ("GFLOP/s", GIGA), ("MFLOP/s", 1e6)):
        if flop_per_s >= amount or unit == "MFLOP/s":
            break
    return quantity(flop_per_s / amount, unit)


def bandwidth_text(bytes_per_s: float) -> str:
    """`2.40 TB/s`, `318 GB/s`: powers of ten."""
    if bytes_per_s >= TERA:
        return quantity(bytes_per_s / TERA, "TB/s")
    return quantity(bytes_per_s / GIGA, "GB/s")


def _ranges(points: pd.DataFrame, roof: Roof | None) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ranges of both axes: all points, and the roof with its corner well inside."""
    x, y = list(points.get("intensity", ())), list(points.get("flop_per_s", ()))
    if roof is not None:
        x += [roof.ceilings.balance_flop_per_byte * 8, 0.5]
        y += [roof.ceilings.flop_per_s]
        y += [roof.ceilings.read_bytes_per_s * min(x)] if not points.empty else [roof.ceilings.read_bytes_per_s * 0.5]
    low_x, high_x, low_y, high_y = min(x), max(x), min(y), max(y)
    return (low_x / 1.6, high_x * 1.6), (low_y / 2.5, high_y * 2.5)


def _rate_ticks(y_range: tuple[float, float]) -> dict[str, list[object]]:
    powers = range(int(np.ceil(np.log10(y_range[0]))), int(np.floor(np.log10(y_range[1]))) + 1)
    step = max(1, len(powers) // 6)
    ticks = [10.0**power for power in powers[::step]]
    return {"tickvals": list(ticks), "ticktext": [rate_text(tick).replace("FLOP/s", "") for tick in ticks]}


def _add_roof(
    figure: go.Figure, roof: Roof, x_range: tuple[float, float], y_range: tuple[float, float], dark: bool
) -> None:
    colors = palette(dark)
    ceilings = roof.ceilings
    balance, slope, flat = ceilings.balance_flop_per_byte, ceilings.read_bytes_per_s, ceilings.flop_per_s
    corner = min(max(balance, x_range[0]), x_range[1])
    figure.add_scatter(
        x=[x_range[0], corner, x_range[1]],
        y=[slope * x_range[0], slope * corner, flat],
        mode="lines",
        line={"color": colors.text, "width": 2},
        showlegend=False,
        name="roof",
        hoverinfo="skip",
    )
    figure.add_shape(
        type="line",
        x0=balance,
        x1=balance,
        y0=y_range[0],
        y1=flat,
        line={"color": colors.faint_text, "width": 1, "dash": "dot"},
        layer="below",
    )
    compute = f"{roof.dtype} compute {rate_text(flat)}"
    _write(figure, compute, x_range[1], flat, dark, xanchor="right", yshift=11)
    _write(figure, f"balance point {number(balance)}", balance, y_range[0], dark, xanchor="left", xshift=4, yshift=10)
    bandwidth, place = f"bandwidth {bandwidth_text(slope)}", float(np.sqrt(x_range[0] * corner))
    _write(figure, bandwidth, place, slope * place, dark, xanchor="right", xshift=-10, yshift=8)
    if roof.launch_bytes_per_s is not None:
        _add_launches(figure, roof, x_range, dark)


def _add_launches(figure: go.Figure, roof: Roof, x_range: tuple[float, float], dark: bool) -> None:
    """The slope of a launch-bound pass; left out above the roof."""
    slope = roof.launch_bytes_per_s
    assert slope is not None
    if slope >= roof.ceilings.read_bytes_per_s:
        return
    end = min(roof.ceilings.flop_per_s / slope, x_range[1])
    figure.add_scatter(
        x=[x_range[0], end],
        y=[slope * x_range[0], slope * end],
        mode="lines",
        line={"color": palette(dark).waiting, "width": 1.6, "dash": "dash"},
        name=legend_name("launch-bound"),
        legendrank=2000,
        hoverinfo="skip",
    )


def _write(figure: go.Figure, text: str, x: float, y: float, dark: bool, **place: object) -> None:
    colors = palette(dark)
    figure.add_annotation(
        label(
            text,
            x=float(np.log10(x)),
            y=float(np.log10(y)),
            font={"size": 12, "color": colors.faint_text},
            bgcolor=f"{colors.surface}b0",
            borderpad=1,
            **place,
        )
    )


def _add_points(figure: go.Figure, points: pd.DataFrame, dark: bool) -> None:
    """A trace per kind and run; of very many marks, those with the most passes."""
    if points.empty:
        return
    series = list(dict.fromkeys(points["series"]))
    points = points.nlargest(MAX_MARKS, "passes", keep="first")
    most = float(np.sqrt(points["passes"].max()))
    for kind, symbol in SYMBOLS.items():
        for place, name in enumerate(series):
            mine = points[(points["kind"] == kind) & (points["series"] == name)]
            if mine.empty:
                continue
            figure.add_scatter(
                x=mine["intensity"].to_numpy(dtype=float),
                y=mine["flop_per_s"].to_numpy(dtype=float),
                mode="markers",
                name=legend_name(f"{name} {kind}" if len(series) > 1 else f"{kind} pass"),
                marker=_marker(mine, symbol + FILLS[place % len(FILLS)], kind, most, dark),
                hovertext=_hover(mine, name, kind, len(series) > 1),
                hovertemplate="%{hovertext}<extra></extra>",
            )


def _marker(mine: pd.DataFrame, symbol: str, kind: str, most: float, dark: bool) -> dict[str, object]:
    colors = palette(dark)
    low, high = MARK_PX
    sizes = low + (high - low) * np.sqrt(mine["passes"].to_numpy(dtype=float)) / most
    is_open = symbol.endswith("-open")
    return {
        "symbol": symbol,
        "size": np.round(sizes, 1),
        "color": colors.pass_kind(kind),
        "opacity": 0.75,
        "line": {"width": 1.6 if is_open else 0.8, "color": colors.pass_kind(kind) if is_open else colors.surface},
    }


def _hover(mine: pd.DataFrame, name: str, kind: str, is_named: bool) -> list[str]:
    """The text of each mark: run and kind, number and shape of the passes, median time, and both rates."""
    lines = []
    for row in records(mine):
        title = f"{name}, {kind}" if is_named else kind
        lines.append(
            f"<b>{literal(title)}</b>, {plural(row['passes'], 'pass', 'passes')}<br>"
            f"{counted(row['rows'])} rows, {counted(row['width'])} columns wide<br>"
            f"median {duration(row['seconds'])}<br>"
            f"{quantity(row['intensity'], 'FLOP/byte')}, {rate_text(row['flop_per_s'])}<br>"
            f"{bandwidth_text(row['flop_per_s'] / row['intensity'])}"
        )
    return lines


def sample_points(names: Sequence[str] = ("static", "continuous")) -> pd.DataFrame:
    """Made-up passes of a small model for the demo and the tests."""
    rows = []
    for place, name in enumerate(names):
        for size in (1, 2, 4, 8, 16):
            seconds = (0.03 + 0.002 * size) * (1 + 0.15 * place)
            rows.append((name, "decode", size, 90, 40 // size, seconds, 0.5 * size, 0.27e9 * size / seconds))
        rows.append((name, "prefill", 4, 60, 3, 0.21, 60.0, 0.27e9 * 240 / 0.21))
    columns = ["series", "kind", "rows", "width", "passes", "seconds", "intensity", "flop_per_s"]
    return pd.DataFrame(rows, columns=columns)


if __name__ == "__main__":
    from pages.figures.demo import show

    roof = Roof(
        name="sample",
        ceilings=Ceilings(read_bytes_per_s=20e9, flop_per_s=0.4e12, launch_s=1e-4, kernels_per_pass=450),
        dtype="fp32",
        launch_bytes_per_s=0.54e9 / 0.045,
    )
    show([roofline(sample_points(), roof), roofline(sample_points(("static",)), roof, dark=True)])
