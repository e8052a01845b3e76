"""Where a pass's time goes: the host's part of issuing it beside the device's part, and the least that reading needs.

A group of bars a kind and number of rows. The device's time is from its first kernel to its last, pauses included in
which it waits for the next one: where issuing takes nearly as long, the host is what the pass waits for. On a CPU
issuing and computing are one, and there is one bar. The mark is the time that the pass's bytes need at the bandwidth
that was measured, and says nothing about caches.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.format import duration, plural
from pages.figures.colors import palette
from pages.figures.layout import axis, label, legend_above, legend_name, new_figure, note_figure, set_layout

BAR_PX = 12
GROUP_PX = 62
LEGEND_PX = 20
MAX_GROUPS = 16


def step_time_bars(parts: pd.DataFrame, *, title: str = "", dark: bool = False) -> go.Figure:
    """Draw parts (series, kind, rows_from, rows_to, passes, seconds, issue_s, device_s, floor_s), in the order given.

    All times are medians of a pass. `issue_s` is NaN where it is no part of its own; `floor_s` where nothing was
    calibrated. More than MAX_GROUPS rows: those with the most passes.
    """
    if parts.empty:
        return note_figure("No pass has run yet.", dark=dark, title=title)
    parts = _most(parts)
    plot_px = GROUP_PX * len(parts)
    places = np.arange(len(parts)) * GROUP_PX + 46.0
    is_split, has_floor = bool(parts["issue_s"].notna().any()), bool(parts["floor_s"].notna().any())
    top = 8 + LEGEND_PX * (1 + is_split + has_floor)  # on a phone each name takes a line, and there may be one group
    figure = new_figure(plot_px=plot_px, dark=dark, title=title, top=top, left=14, right=24)
    _add_bars(figure, parts, places, is_split, dark)
    _add_floor(figure, parts, places, dark)
    for place, row in zip(places, parts.to_dict("records"), strict=True):
        words = label(group_text(row), x=0, xref="paper", y=place - 2.6 * BAR_PX, font={"size": 12})
        figure.add_annotation(words)
    end_ms = 1e3 * float(np.nanmax(parts[["seconds", "issue_s", "device_s", "floor_s"]].to_numpy(dtype=float)))
    set_layout(
        figure,
        barmode="overlay",
        showlegend=True,
        legend=legend_above(gap_px=6, plot_px=plot_px),
        xaxis=axis(
            dark,
            title="milliseconds a pass, median",
            nticks=6,
            range=[0, end_ms * 1.04 or 1.0],
            fixedrange=True,
            tickformat=",~r",
        ),
        yaxis=axis(dark, range=[plot_px, 0], visible=False, fixedrange=True),
    )
    return figure


def group_text(row: dict[str, object] | dict[object, object]) -> str:
    """`decode, 5 to 8 rows (412 passes)`, with the run before it where there are several."""
    low, high = int(float(str(row["rows_from"]))), int(float(str(row["rows_to"])))
    rows = plural(high, "row") if low == high else f"{low:,} to {high:,} rows"
    who = f"{row['series']}, " if row.get("series") else ""
    return f"{who}{row['kind']}, {rows} ({plural(float(str(row['passes'])), 'pass', 'passes')})"


def _most(parts: pd.DataFrame) -> pd.DataFrame:
    if len(parts) <= MAX_GROUPS:
        return parts.reset_index(drop=True)
    return parts.loc[parts["passes"].nlargest(MAX_GROUPS).index.sort_values()].reset_index(drop=True)


def _add_bars(figure: go.Figure, parts: pd.DataFrame, places: np.ndarray, is_split: bool, dark: bool) -> None:
    """Issuing above the device's part, or one bar where they are one; in the color of the pass's kind."""
    colors = palette(dark)
    bars = [("the device, first kernel to last" if is_split else "the pass, issued and computed in one", "device_s")]
    bars = [("issued by the host", "issue_s"), *bars] if is_split else bars
    for name, column in bars:
        is_issue = column == "issue_s"
        seconds = parts[column].astype(float).fillna(parts["seconds"] if not is_issue else np.nan)
        marker: dict[str, object] = {"color": [colors.pass_kind(kind) for kind in parts["kind"]], "line": {"width": 0}}
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


def _add_floor(figure: go.Figure, parts: pd.DataFrame, places: np.ndarray, dark: bool) -> None:
    floor_s = parts["floor_s"].astype(float)
    if floor_s.isna().all():
        return
    figure.add_scatter(
        x=floor_s * 1e3,
        y=places,
        mode="markers",
        name=legend_name("its bytes at the bandwidth measured"),
        marker={"symbol": "line-ns", "size": BAR_PX + 6, "line": {"width": 2.5, "color": palette(dark).text}},
        hovertext=[f"its bytes alone: {duration(value)}" for value in floor_s],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def sample_step_time(is_split: bool = True) -> pd.DataFrame:
    """Made-up passes for the demo and the tests. Nothing here is a measurement."""
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

    show([step_time_bars(sample_step_time()), step_time_bars(sample_step_time(is_split=False), dark=True)])
