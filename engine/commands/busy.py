"""Whether the machine had more to do than an experiment's runs when they began: one line under its report."""

from __future__ import annotations

from pathlib import Path

from engine.core.experiment import newest_records
from engine.core.machine_checks import BUSY_LOAD
from engine.runlog.experiment_log import LoggedExperiment


def busy_words(out: Path, logged: LoggedExperiment) -> str:
    """How many runs began on a busy machine, and the highest load; empty where none did."""
    from engine.runlog.reader import RunLogReader

    loads, known, cores = [], 0, 0
    for record in newest_records(logged.records).values():
        if record.run_id is None or not (out / record.run_id).is_dir():
            continue
        environment = RunLogReader(out / record.run_id).run_info().get("environment") or {}
        load, cpu_count = environment.get("load_average_1min"), environment.get("cpu_count")
        if not isinstance(load, int | float) or not isinstance(cpu_count, int) or cpu_count < 1:
            continue
        known += 1
        if load > BUSY_LOAD * cpu_count:
            loads.append(float(load))
            cores = cpu_count
    if not loads:
        return ""
    return (
        f"The machine was busy when {len(loads)} of {known} runs began (load up to {max(loads):.1f} on {cores} cores): "
        f"their times hold others' work too."
    )
