"""Exports runs to one file from the run logs on disk; `store.transfer.bundle` describes the format."""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from engine.core.regular_files import is_regular, open_regular
from engine.core.run_id import current_time
from engine.runlog.experiment_log import ExperimentLog, is_experiment_folder
from engine.runlog.locks import is_held
from engine.runlog.schema import LOCK_FILE, SCHEMA_VERSION
from store.store import Store
from store.transfer.bundle import (
    EXPERIMENT_FILES,
    MANIFEST,
    RUN_FILES,
    BundledExperiment,
    BundledFile,
    BundledRun,
    Manifest,
    experiment_place,
    place_of,
)
from store.transfer.bundled_predictions import bundled_predictions

COPY_BYTES = 1 << 20
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time in a zip: file times are not part of a run
Progress = Callable[[float, str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The written file: its runs in order, and its size."""

    path: Path
    run_ids: tuple[str, ...]
    bytes: int


def default_name(names: list[str]) -> str:
    """`01hz….zip`, or `01hz…-and-2-more.zip`."""
    more = f"-and-{len(names) - 1}-more" if len(names) > 1 else ""
    return f"{names[0].replace('/', '_')}{more}.zip"


def runs_named(store: Store, names: Sequence[str]) -> list[str]:
    """The ids of the named runs and of the named experiments' runs, each once, in order. ValueError for an unknown
    name."""
    run_ids: dict[str, None] = {}
    for name in names:
        of_experiment = [str(run_id) for run_id in store.experiments.runs(name)["run_id"]]
        if not of_experiment and not store.runs.has(name):
            raise ValueError(f"the store has no run or experiment {name}")
        run_ids |= dict.fromkeys(of_experiment or [name])
    return list(run_ids)


def export_runs(
    store: Store, run_ids: Sequence[str], out: Path, on_progress: Progress = lambda share, what: None
) -> Exported:
    """Write runs to a new file `out`, completely or not at all.

    ValueError in one line for a run that is still running or whose log is gone, and if the file exists.
    """
    if out.exists():
        raise ValueError(f"{out} already exists; name another file")
    if not out.parent.is_dir():
        raise ValueError(f"{out.parent}: no such folder")
    partial = out.with_name(f".{out.name}.partial-{os.getpid()}")
    try:
        with partial.open("wb") as file:
            write_bundle(store, run_ids, file, on_progress)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return Exported(path=out, run_ids=tuple(run_ids), bytes=out.stat().st_size)


def write_bundle(
    store: Store, run_ids: Sequence[str], file: IO[bytes], on_progress: Progress = lambda share, what: None
) -> None:
    """Write the zip to an open file."""
    rows = {run_id: store.runs.get(run_id) for run_id in run_ids}
    folders = {run_id: _folder(run_id, Path(row["folder"])) for run_id, row in rows.items()}
    experiments = whole_experiments(store, run_ids)
    total = max(1, sum(path.stat().st_size for folder in folders.values() for path in files_of(folder)))
    written = 0
    bundled = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive:
        for run_id, folder in folders.items():
            files = []
            for path in files_of(folder):
                files.append(_add(archive, path, place_of(run_id, path.name)))
                written += files[-1].bytes
                on_progress(min(1.0, written / total), run_id)
            annotation, status = store.annotations.of(run_id), str(rows[run_id]["status"])
            bundled.append(BundledRun(run_id=run_id, status=status, files=tuple(files), annotation=annotation))
        manifest = Manifest(
            created_at=current_time().isoformat(timespec="seconds"),
            schema_version=SCHEMA_VERSION,
            runs=tuple(bundled),
            experiments=tuple(
                _add_experiment(archive, name, folder) for name, folder in experiments.items() if folder is not None
            ),
            predictions=tuple(bundled_predictions(store, run_ids, list(experiments))),
        )
        archive.writestr(_entry(MANIFEST), manifest.to_json().encode())


def whole_experiments(store: Store, run_ids: Sequence[str]) -> dict[str, Path | None]:
    """The experiments whose runs are all among these, with the folder of the plan; None for an experiment without a
    plan.

    A running experiment is left out, because it is not complete.
    """
    return {
        experiment_id: folder
        for experiment_id, folder in store.experiments.within(run_ids).items()
        if folder is None or (is_experiment_folder(folder) and not ExperimentLog.is_open(folder))
    }


def _add_experiment(archive: zipfile.ZipFile, experiment_id: str, folder: Path) -> BundledExperiment:
    paths = [folder / name for name in EXPERIMENT_FILES if is_regular(folder / name)]
    files = [_add(archive, path, experiment_place(experiment_id, path.name)) for path in paths]
    return BundledExperiment(experiment_id=experiment_id, files=tuple(files))


def files_of(folder: Path) -> list[Path]:
    """The existing files of a run log."""
    return [folder / name for name in RUN_FILES if is_regular(folder / name)]


def file_hash(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder(run_id: str, folder: Path) -> Path:
    if is_held(folder / LOCK_FILE):
        raise ValueError(f"run {run_id} is still running; export it after it has ended")
    if not files_of(folder):
        raise ValueError(f"run {run_id}: the run log is gone: {folder}")
    return folder


def _add(archive: zipfile.ZipFile, path: Path, place: str) -> BundledFile:
    hashed, size = hashlib.sha256(), 0
    with open_regular(path) as source, archive.open(_entry(place), "w", force_zip64=True) as target:
        while piece := source.read(COPY_BYTES):
            hashed.update(piece)
            size += len(piece)
            target.write(piece)
    return BundledFile(name=path.name, bytes=size, sha256=hashed.hexdigest())


def _entry(place: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(place, EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    return entry
