"""Folders of runs and experiments on disk: how to find them, their size, and cleanup after an interrupted import."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from engine.runlog.experiment_log import is_experiment_folder
from engine.runlog.schema import RUN_FILE

STAGING = ".importing-"  # where an import unpacks, in the runs folder
UPLOADING = ".upload-"  # a file that a browser is uploading


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Folders sorted by name. Hidden and other folders are left out, and so is a run that has not started."""

    runs: tuple[Path, ...]
    experiments: tuple[Path, ...]


def folders_in(parent: Path) -> Folders:
    """The run folders and experiment folders in a folder."""
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
    """Whether a run has started in this folder."""
    return (folder / RUN_FILE).is_file()


def log_bytes(folder: Path) -> int | None:
    """The size of a run log on disk; None if the folder is gone."""
    try:
        return sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False))
    except OSError:
        return None


def sweep_imports(home: Path) -> None:
    """Remove the files of an import whose process died."""
    for staging in (home / "runs").glob(f"{STAGING}*"):
        shutil.rmtree(staging, ignore_errors=True)
    for upload in home.glob(f"{UPLOADING}*"):
        upload.unlink(missing_ok=True)
