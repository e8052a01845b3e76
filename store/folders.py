"""Folders of runs and experiments on disk: how to find them, whether they changed, their size, and cleanup after an
interrupted import."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from engine.core.regular_files import MAX_JSON_BYTES, is_there, read_regular
from engine.runlog.experiment_log import EXPERIMENT_FILE, POINTS_FILE, is_experiment_folder
from engine.runlog.schema import RESULT_FILE, RUN_FILE, STREAMS, stream_file

STAGING = ".importing-"  # where an import unpacks, in the runs folder
UPLOADING = ".upload-"  # a file that a browser is uploading
OF_A_RUN = (RUN_FILE, RESULT_FILE, *(stream_file(name) for name in STREAMS))
OF_AN_EXPERIMENT = (EXPERIMENT_FILE, POINTS_FILE)


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
    return is_there(folder / RUN_FILE)


def stamp_of(folder: Path, files: tuple[str, ...] = OF_A_RUN) -> str:
    """The size and modification time of each file of a folder as text: it changes when a file does."""
    parts = []
    for name in files:
        try:
            entry = os.lstat(folder / name)
            parts.append(f"{entry.st_size}:{entry.st_mtime_ns}")
        except OSError:
            parts.append("-")
    return " ".join(parts)


def is_copy(folder: Path, other: Path) -> bool:
    """Whether two run folders have the same run.json and result.json, and streams of the same sizes."""
    jsons = (RUN_FILE, RESULT_FILE)
    return all(
        _size(folder / name) == _size(other / name)
        and (name not in jsons or _content(folder / name) == _content(other / name))
        for name in OF_A_RUN
    )


def _size(path: Path) -> int | None:
    try:
        return os.lstat(path).st_size
    except OSError:
        return None


def _content(path: Path) -> bytes | None:
    return read_regular(path, MAX_JSON_BYTES) if is_there(path) else None


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
