"""Which folders in a folder are runs, and which are experiments: a look at the names of the files in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.runlog.experiment_log import is_experiment_folder
from engine.runlog.schema import RUN_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """By name. What is neither, or hidden, is left out: a run that is yet to begin is no run folder yet."""

    runs: tuple[Path, ...]
    experiments: tuple[Path, ...]


def folders_in(parent: Path) -> Folders:
    """The runs' and experiments' folders in a folder."""
    try:
        inside = sorted(path for path in parent.iterdir() if not path.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        inside = []
    runs: list[Path] = []
    others: list[Path] = []
    for folder in inside:
        (runs if is_run_folder(folder) else others).append(folder)
    return Folders(runs=tuple(runs), experiments=tuple(folder for folder in others if is_experiment_folder(folder)))


def is_run_folder(folder: Path) -> bool:
    """Whether a run has begun in it."""
    return (folder / RUN_FILE).is_file()
