"""Whether a machine had more to do than an experiment's runs when they began, from what each run noted of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.core.format import number
from engine.core.machine_checks import BUSY_LOAD


def load_of(run_info: Mapping[str, Any]) -> tuple[float, int] | None:
    """The load average when a run began and the machine's cores, as its run.json has them; None where it has not."""
    environment = run_info.get("environment")
    if not isinstance(environment, Mapping):
        return None
    load, cores = environment.get("load_average_1min"), environment.get("cpu_count")
    if not isinstance(load, int | float) or not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
        return None
    return float(load), cores


def busy_words_of(loads: Iterable[tuple[float, int] | None]) -> str:
    """How many of the runs whose load is known began on a busy machine, and the highest load; empty where none did."""
    known = [load for load in loads if load is not None]
    busy = [(load, cores) for load, cores in known if load > BUSY_LOAD * cores]
    if not busy:
        return ""
    highest, cores = max(busy)
    return (
        f"The machine was busy when {len(busy)} of {len(known)} runs began "
        f"(load up to {number(highest)} on {cores} cores): their times hold others' work too."
    )
