"""The time of a forward pass: host time to launch it, device time, and the time its bytes need at full bandwidth.

A group of bars per kind and number of rows. Device time is from the first kernel to the last and includes idle gaps:
where the host takes nearly as long, the pass is limited by launches. On a CPU host and device are the same, and there
is one bar. The mark is the time for the pass's bytes at the measured bandwidth; caches are not considered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import duration, plural
from pages.figures.colors import palette
from pages.figures.frames import records
from pages.figures.layout import axis, label, legend_above, legend_name, literal, new_figure, note_figure, set_layout

BAR_PX = 12
GROUP_PX = 62
LEGEND_PX = 20
MAX_GROUPS = 16
FLOOR = "bytes at measured bandwidth"


def pass_time_bars(times: pd.DataFrame, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw rows (series, kind, rows_from, rows_to, passes, seconds, issue_s, device_s, floor_s), in the order given.

    All times are medians per pass. `issue_s` is NaN on a CPU, `floor_s` without a calibration. Of more than MAX_GROUPS
    rows, those with the most passes are drawn.
    """
    if times.empty:
        return note_figure("No pass has run yet.", dark=dark, title=title)
    times = _with_most_passes(times)
    plot_px = GROUP_PX * len(times)
    places = np.arange(len(times)) * GROUP_PX + 46.0
    is_split, has_floor = bool(times["issue_s"].notna().any()), bool(times["floor_s"].notna().any())
    top = 8 + LEGEND_PX * (1 + is_split + has_floor)  # on a phone each name takes a line
    figure = new_figure(plot_px=plot_px, dark=dark, title=title, top=top, left=14, right=24)
    _add_bars(figure, times, places, is_split, dark)
    _add_floor(figure, times, places, dark)
    for place, row in zip(places, records(times), strict=True):
        heading = label(literal(group_text(row)), x=0, xref="paper", y=place - 2.6 * BAR_PX, font={"size": 12})
        figure.add_annotation(heading)
    end_ms = 1e3 * float(np.nanmax(times[["seconds", "issue_s", "device_s", "floor_s"]].to_numpy(dtype=float)))
    set_layout(
        figure,
        barmode="overlay",
        showlegend=True,
        legend=legend_above(gap_px=6, plot_px=plot_px),
        xaxis=axis(
            dark,
            title="ms per pass, median",
            nticks=6,
            range=[0, end_ms * 1.04 or 1.0],
            fixedrange=True,
            tickformat=",~r",
        ),
        yaxis=axis(dark, range=[plot_px, 0], visible=False, fixedrange=True),
    )
    return figure


def group_text(row: dict[str, Any]) -> str:
    """`decode, 5 to 8 rows (412 passes)`, after the run's name where there are several."""
    low, high = int(row["rows_from"]), int(row["rows_to"])
    rows = plural(high, "row") if low == high else f"{low:,} to {high:,} rows"
    run = f"{row['series']}, " if row.get("series") else ""
    return f"{run}{row['kind']}, {rows} ({plural(float(row['passes']), 'pass', 'passes')})"


def _with_most_passes(times: pd.DataFrame) -> pd.DataFrame:
    if len(times) <= MAX_GROUPS:
        return times.reset_index(drop=True)
    return times.loc[times["passes"].nlargest(MAX_GROUPS).index.sort_values()].reset_index(drop=True)


def _add_bars(figure: go.Figure, times: pd.DataFrame, places: np.ndarray, is_split: bool, dark: bool) -> None:
    """Host time above device time, or one bar on a CPU; in the color of the pass's kind."""
    colors = palette(dark)
    bars = [("device, first to last kernel" if is_split else "whole pass", "device_s")]
    bars = [("host, launching", "issue_s"), *bars] if is_split else bars
    for name, column in bars:
        is_issue = column == "issue_s"
        seconds = times[column].astype(float).fillna(times["seconds"] if not is_issue else np.nan)
        marker: dict[str, object] = {"color": [colors.pass_kind(kind) for kind in times["kind"]], "line": {"width": 0}}
        if is_issue:
            marker = {"color": colors.waiting, "line": {"width": 0}}
        figure.add_bar(
            name=legend_name(name),
            orientation="h",
            x=seconds * 1e3,
            y=places - (BAR_PX + 1 if is_issue else 0),
            width=BAR_PX,
            marker=marker,
            hovertext=[f"{name}: {duration(value)}" for value in seconds],
            hovertemplate="%{hovertext}<extra></extra>",
        )


def _add_floor(figure: go.Figure, times: pd.DataFrame, places: np.ndarray, dark: bool) -> None:
    floor_s = times["floor_s"].astype(float)
    if floor_s.isna().all():
        return
    figure.add_scatter(
        x=floor_s * 1e3,
        y=places,
        mode="markers",
        name=legend_name(FLOOR),
        marker={"symbol": "line-ns", "size": BAR_PX + 6, "line": {"width": 2.5, "color": palette(dark).text}},
        hovertext=[f"{FLOOR}: {duration(value)}" for value in floor_s],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def sample_pass_time(is_split: bool = True) -> pd.DataFrame:
    """Made-up passes for the demo and the tests."""
    columns = ["series", "kind", "rows_from", "rows_to", "passes", "seconds", "issue_s", "device_s", "floor_s"]
    rows = [
        ("", "prefill", 1, 1, 12, 0.030, 0.021, 0.029, 0.006),
        ("", "decode", 1, 1, 40, 0.022, 0.017, 0.021, 0.0052),
        ("", "decode", 5, 8, 412, 0.0225, 0.0172, 0.0216, 0.0055),
    ]
    frame = pd.DataFrame(rows, columns=columns)
    return frame if is_split else frame.assign(issue_s=np.nan, device_s=frame["seconds"])


if __name__ == "__main__":
    from pages.figures.demo import show

    show([pass_time_bars(sample_pass_time()), pass_time_bars(sample_pass_time(is_split=False), dark=True)])
