"""Experiments' folders: what one says, and which counts where several hold one experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.runlog.experiment_log import ExperimentLog, LoggedExperiment, is_experiment_folder
from engine.runlog.reader import RUN_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What else there is beside a folder: `known`, where the store has the experiment from; `runs_folder`, the store's
    own; `is_deleted`, whether the trash has an experiment of that id from another folder than this one."""

    known: Path | None
    runs_folder: Path
    is_deleted: Callable[[str, Path], bool]


def read_experiment(folder: Path) -> LoggedExperiment:
    """What an experiment's folder says. ValueError in one line where that cannot be read."""
    try:
        logged = ExperimentLog.read(folder)
    except OSError as error:
        raise ValueError(f"{folder}: its experiment is not readable: {error.strerror or error}") from error
    if not RUN_ID.fullmatch(logged.plan.experiment_id):
        raise ValueError(
            f"{folder}: experiment_id is {logged.plan.experiment_id!r}; it has to be 1 to 64 letters, digits, _ or -"
        )
    return logged


def folder_that_counts(folder: Path, logged: LoggedExperiment, around: Surroundings) -> Path:
    """The folder whose points count, of all that hold the experiment of `folder`.

    First comes the one in the store's own runs folder that has the id for a name, then any that has, then the one that
    the store has it from. ValueError where that is not `folder`, whatever `folder` says; but one that has the id for a
    name, too, and says the very same is no fault, and the answer is the one that counts. ValueError also for a folder
    of another name while the experiment is in the trash.
    """
    name = logged.plan.experiment_id
    if folder.name != name and around.is_deleted(name, folder):
        raise ValueError(
            f"{folder}: a copy of experiment {name}, which is in the trash: nothing is taken in of it while that is "
            "there; restore that one, or delete it for good"
        )
    counts = _first(folder, name, around)
    if counts == folder or (folder.name == counts.name == name and _says(counts, logged)):
        return counts
    raise ValueError(
        f"{folder}: a copy of experiment {name}, whose folder is {counts}: that one's points count, and nothing is "
        "taken in of this one; move it away, or delete whichever of the two is not wanted"
    )


def _first(folder: Path, name: str, around: Surroundings) -> Path:
    own, known = around.runs_folder / name, around.known
    if folder == own or is_experiment_folder(own):
        return own
    others = [] if known is None or not is_experiment_folder(known) else [known]
    beside = folder.with_name(name)
    if folder.name != name and is_experiment_folder(beside):
        others.append(beside)
    named = [other for other in (*others, folder) if other.name == name]
    return [*named, *others, folder][0]


def _says(folder: Path, logged: LoggedExperiment) -> bool:
    """Whether a folder holds the very same experiment."""
    try:
        return read_experiment(folder) == logged
    except ValueError:
        return False
