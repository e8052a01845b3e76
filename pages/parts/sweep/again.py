"""The button that measures a sweep's disturbed smallest batches again, as further repeats in the same sweep."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from engine.core.format import plural
from pages.figures.sweep.throughput import base_rate, is_disturbed
from pages.parts.experiments.progress import state_of
from pages.parts.shared.lab import lab, visitor
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.page_state import note, noted, page_key
from pages.parts.sweep.measured import MeasuredSweep

TIMES = 2  # with the disturbed run, the median of three is one of the new ones
PROBLEM = "measure_again_problem"


def draw_measure_again(data: MeasuredSweep) -> None:
    """Nothing where no smallest batch was disturbed."""
    found = disturbed_batches(data.grid)
    if found.empty:
        return
    sizes = listed([f"B = {size:,}" for size in sorted(found["batch_size"].unique())])
    keys = keys_of(found, data.points)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"Measure {sizes} again",
            icon=":material/replay:",
            key=page_key(f"measure_again_{data.experiment_id}"),
            disabled=state_of(data.experiment_id) == "live",
            on_click=_measure_again,
            args=(data.experiment_id, keys),
        )
        st.caption(
            f"{plural(TIMES * len(keys), 'run')} of {plain(listed(found['series'].tolist()))} join this sweep as "
            "repeats. No run is replaced: the figures then show the median of all."
        )
    if problem := noted(PROBLEM):
        st.error(plain(str(problem)), icon=":material/error:")


def disturbed_batches(grid: pd.DataFrame) -> pd.DataFrame:
    """The smallest measured batch of each series that exceeds linear scaling. `grid` as in MeasuredSweep."""
    found = []
    for _, mine in grid.groupby("series", sort=False):
        base = base_rate(mine)
        if base is not None and is_disturbed(mine):
            found.append(mine[mine["batch_size"] == base[0]])
    return pd.concat(found) if found else grid.head(0)


def keys_of(found: pd.DataFrame, points: pd.DataFrame) -> list[str]:
    """The keys of these rows' points. `points` are the store's, a row per repeat."""
    place = ["engine", "prompts", "batch_size", "role"]
    wanted = set(found[place].itertuples(index=False, name=None))
    mine = [each in wanted for each in points[place].itertuples(index=False, name=None)]
    return list(dict.fromkeys(points.loc[mine, "key"].astype(str)))


def _measure_again(experiment_id: str, keys: Sequence[str]) -> None:
    """Queue the repeats; the page shows an error if that fails."""
    note(PROBLEM, None)
    try:
        lab().queue.repeat_points(experiment_id, keys, TIMES, visitor())
    except (OSError, ValueError) as error:
        note(PROBLEM, str(error))
