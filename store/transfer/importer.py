"""Takes a file of runs into a store: all of it, or nothing of it.

The file is looked at before it is unpacked, unpacked beside the runs where nobody sees it, and each run log is read
to its end. Only then are the runs moved to where runs lie, and taken in; if one cannot be, all of them go again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.run_id import new_run_id
from engine.runlog.foreign import check_run_log
from engine.runlog.reader import RunLogReader
from store.annotations import Annotation, annotate
from store.database import in_transaction
from store.ingest.rows import delete_rows
from store.transfer.bundle import MANIFEST, BundledFile, BundledRun, Manifest, parse_manifest
from store.transfer.exporter import COPY_BYTES, file_hash, files_of
from store.transfer.imported_experiments import ImportedExperiments, check_experiment
from store.transfer.zip_check import DAMAGE, check_room, open_bundle

if TYPE_CHECKING:
    from store.store import Store

STAGING = ".importing-"
UPLOADING = ".upload-"  # a file on its way in from a browser
Progress = Callable[[float, str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import did: `new` runs, and those that were here already, the same to the last byte."""

    new: tuple[str, ...]
    known: tuple[str, ...]


def import_runs(
    store: Store, path: Path, on_progress: Progress = lambda share, what: None, *, name: str = ""
) -> Imported:
    """Take in the runs of a file. ValueError in one line, which begins with its name (or `name`), if it is refused."""
    shown = name or path.name
    staging = store.runs_folder / f"{STAGING}{new_run_id()}"
    try:
        with open_bundle(path) as archive:
            manifest = _manifest(archive)
            check_room(archive, store.home)
            staging.mkdir(parents=True)
            _unpack(archive, manifest, staging, on_progress)
        for run in manifest.runs:
            _check(staging / run.run_id, run)
        for one in manifest.experiments:
            check_experiment(staging / one.experiment_id, one)
        return _take_in(store, manifest, staging)
    except DAMAGE as error:
        raise ValueError(f"{shown}: it is damaged: {_first_line(error)}") from error
    except ValueError as error:
        told = str(error).replace(f"{staging}/", "").replace(f"{store.runs_folder.resolve()}/", "")
        raise ValueError(f"{shown}: not imported: {told}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def sweep_imports(home: Path) -> None:
    """Remove what a process that died in the middle of an import has left."""
    for staging in (home / "runs").glob(f"{STAGING}*"):
        shutil.rmtree(staging, ignore_errors=True)
    for upload in home.glob(f"{UPLOADING}*"):
        upload.unlink(missing_ok=True)


def _manifest(archive: zipfile.ZipFile) -> Manifest:
    """The manifest, which names exactly the files that are there."""
    manifest = parse_manifest(archive.read(MANIFEST))
    told = {place: file.bytes for _, place, file in manifest.files()}
    there = {entry.filename: entry.file_size for entry in archive.infolist() if entry.filename != MANIFEST}
    if told != there:
        place = sorted(told.items() ^ there.items())[0][0]
        raise ValueError(f"its list of files and what is in it differ: {place}")
    return manifest


def _unpack(archive: zipfile.ZipFile, manifest: Manifest, staging: Path, on_progress: Progress) -> None:
    total = max(1, sum(file.bytes for _, _, file in manifest.files()))
    done = 0
    for owner, place, file in manifest.files():
        (staging / owner).mkdir(exist_ok=True)
        _unpack_file(archive, place, file, staging / owner / file.name)
        done += file.bytes
        on_progress(done / total, owner)


def _unpack_file(archive: zipfile.ZipFile, place: str, file: BundledFile, target: Path) -> None:
    hashed, size = hashlib.sha256(), 0
    with archive.open(place) as source, target.open("xb") as sink:
        while piece := source.read(COPY_BYTES):
            size += len(piece)
            if size > file.bytes:
                break
            hashed.update(piece)
            sink.write(piece)
    if size != file.bytes or hashed.hexdigest() != file.sha256:
        raise ValueError(f"it is damaged: {place} is not what its manifest says")


def _check(folder: Path, run: BundledRun) -> None:
    check_run_log(folder)
    run_id = RunLogReader(folder).run_info()["run_id"]
    if run_id != run.run_id:
        raise ValueError(f"{run.run_id}/run.json is of run {run_id}")


def _take_in(store: Store, manifest: Manifest, staging: Path) -> Imported:
    """Move the runs that are new and ingest them; take all of that back if one of them cannot be."""
    begun: list[_Begun] = []
    others = ImportedExperiments(store)
    with store.writing:
        new = [run for run in manifest.runs if not _is_known(store, run, staging / run.run_id)]
        try:
            others.take_in(manifest, staging)  # first: what was predicted is closed before its run is here
            for run in new:
                folder = store.runs_folder / run.run_id
                said = store.annotation(run.run_id)
                begun.append(_Begun(run_id=run.run_id, folder=folder, had_rows=store.has_run(run.run_id), said=said))
                if said == Annotation():  # before the run: should this process die, the next start takes in both
                    _say(store, run.run_id, run.said)
                (staging / run.run_id).rename(folder)
                store.ingest_folder(folder)
        except BaseException:
            for one in begun:
                _take_back(store, one)
            others.take_back()
            raise
    new_ids = tuple(run.run_id for run in new)
    return Imported(new=new_ids, known=tuple(r.run_id for r in manifest.runs if r.run_id not in new_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A run whose log was moved in, and how the store stood before."""

    run_id: str
    folder: Path
    had_rows: bool
    said: Annotation


def _take_back(store: Store, begun: _Begun) -> None:
    _say(store, begun.run_id, begun.said)
    if not begun.had_rows:
        delete_rows(store.cursor(), begun.run_id)
    shutil.rmtree(begun.folder, ignore_errors=True)


def _say(store: Store, run_id: str, said: Annotation) -> None:
    """Notes, tags and pin of a run that the store may not have yet."""
    in_transaction(store.cursor(), lambda: annotate(store.cursor(), run_id, said))


def _is_known(store: Store, run: BundledRun, unpacked: Path) -> bool:
    """Whether the very same run is here. ValueError where another one has its id."""
    other = f"run {run.run_id} is here with other content; delete that one first"
    if not store.has_run(run.run_id):
        if (store.runs_folder / run.run_id).exists():
            raise ValueError(other)
        return False
    row = store.run(run.run_id)
    folder = Path(row["folder"])
    if files_of(folder):
        if {path.name: file_hash(path) for path in files_of(folder)} != run.hashes:
            raise ValueError(other)
        return True
    reader = RunLogReader(unpacked)  # its log is gone here: this one takes its place, if it is of the same run
    if json.dumps(row["info"]) != json.dumps(reader.run_info()) or row["result"] != reader.result():
        raise ValueError(other)
    return False


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
