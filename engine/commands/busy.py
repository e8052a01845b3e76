"""Whether the machine had more to do than an experiment's runs when they began: one line under its report."""

from __future__ import annotations

from pathlib import Path

from engine.core.busy_machine import busy_words_of, load_of
from engine.core.experiment import newest_records
from engine.runlog.experiment_log import LoggedExperiment


def busy_words(out: Path, logged: LoggedExperiment) -> str:
    """How many runs began on a busy machine, and the highest load; empty where none did."""
    from engine.runlog.reader import RunLogReader

    run_ids = [record.run_id for record in newest_records(logged.records).values() if record.run_id is not None]
    folders = [out / run_id for run_id in run_ids if (out / run_id).is_dir()]
    return busy_words_of(load_of(RunLogReader(folder).run_info()) for folder in folders)
