"""Takes a file of runs into a store: all of it, or nothing of it.

The file is checked before it is unpacked, unpacked in a hidden folder beside the runs, and each run log is read to its
end. Only then are the runs moved to where runs lie, and taken in; if one cannot be, all of them go again.

Refused are: what is no zip; names outside the bundle's own (absolute, with `..`, with a backslash, unknown); names
twice; links, folders and other things that are no plain files; encrypted entries and unusual compression; entries that
share their bytes; and more data than a run log of that size can hold, since few bytes can unpack to very many.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.core.format import size as size_text
from engine.core.run_id import new_run_id
from engine.runlog.experiment_log import is_experiment_folder
from engine.runlog.foreign import check_run_log
from engine.runlog.reader import RunLogReader
from store.annotations import Annotation, annotate
from store.database import first_row, in_transaction
from store.folders import STAGING
from store.ingest.experiments import forget_experiment, read_experiment
from store.ingest.run_rows import delete_rows
from store.predictions.predictions import delete_predictions
from store.store import Store
from store.transfer.bundle import (
    MANIFEST,
    BundledExperiment,
    BundledFile,
    BundledRun,
    Manifest,
    is_place,
    parse_manifest,
)
from store.transfer.bundled_predictions import take_predictions
from store.transfer.exporter import COPY_BYTES, file_hash, files_of

MAX_DIRECTORY_BYTES = 16 << 20  # some hundred thousand files
MAX_MANIFEST_BYTES = 32 << 20
MAX_JSON_BYTES = 64 << 20
MAX_RATIO = 100  # run logs shrink to a tenth or so
FREE_RATIO = 64 << 20  # so much may come of any file, however small
SPARE_BYTES = 256 << 20

DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, UnicodeError)

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
        with _open_bundle(path) as archive:
            manifest = _manifest(archive)
            _check_room(archive, store.home)
            staging.mkdir(parents=True)
            _unpack(archive, manifest, staging, on_progress)
        for run in manifest.runs:
            _check(staging / run.run_id, run)
        for one in manifest.experiments:
            _check_experiment(staging / one.experiment_id, one)
        return _take_in(store, manifest, staging)
    except DAMAGE as error:
        raise ValueError(f"{shown}: it is damaged: {_first_line(error)}") from error
    except ValueError as error:
        told = str(error).replace(f"{staging}/", "").replace(f"{store.runs_folder.resolve()}/", "")
        raise ValueError(f"{shown}: not imported: {told}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


class _BoundedFile(io.BufferedReader):
    """A file that gives at most MAX_DIRECTORY_BYTES in one read, and refuses more.

    zipfile reads a zip's list of files in one read, and makes many times as much of it in memory.
    """

    is_bounded = True

    def read(self, size: int | None = -1) -> bytes:
        if not self.is_bounded:
            return super().read(size)
        asked = MAX_DIRECTORY_BYTES + 1 if size is None or size < 0 else min(size, MAX_DIRECTORY_BYTES + 1)
        found = super().read(asked)
        if len(found) > MAX_DIRECTORY_BYTES:
            raise _TooManyFiles("it lists more files than a bundle of runs can hold")
        return found


class _TooManyFiles(ValueError):
    """The zip's list of files is too long to be read."""


@contextmanager
def _open_bundle(path: Path) -> Iterator[zipfile.ZipFile]:
    """The zip, every entry of it checked. ValueError in one line, without the file's name, for what is refused."""
    with _BoundedFile(io.FileIO(path)) as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no zip file, or its end is missing")
        try:
            archive = zipfile.ZipFile(file)
        except _TooManyFiles:
            raise
        except (*DAMAGE, ValueError) as error:
            raise ValueError("it is damaged: its list of files cannot be read") from error
        file.is_bounded = False
        with archive:
            _check_entries(archive, path.stat().st_size)
            yield archive


def _check_room(archive: zipfile.ZipFile, folder: Path) -> None:
    """Whether a disk has room for the run logs and for as much again in the store."""
    needed = 2 * sum(entry.file_size for entry in archive.infolist()) + SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(f"it needs {size_text(needed)} of disk space, and {size_text(free)} are free")


def _check_entries(archive: zipfile.ZipFile, size: int) -> None:
    seen: set[str] = set()
    for entry in archive.infolist():
        shown = repr(entry.orig_filename[:80])
        if entry.filename != entry.orig_filename or not (entry.filename == MANIFEST or is_place(entry.filename)):
            raise ValueError(f"{shown} is no file of a run log")
        if entry.filename.casefold() in seen:
            raise ValueError(f"{shown} is in it twice")
        seen.add(entry.filename.casefold())
        mode = entry.external_attr >> 16
        if (stat.S_IFMT(mode) and not stat.S_ISREG(mode)) or entry.is_dir():
            raise ValueError(f"{shown} is no plain file but a link, a folder or a device")
        if entry.flag_bits & 0x1:
            raise ValueError(f"{shown} is encrypted")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{shown} is compressed in a way that the lab does not use")
        limit = MAX_MANIFEST_BYTES if entry.filename == MANIFEST else MAX_JSON_BYTES
        if entry.filename.endswith((".json", ".jsonl")) and entry.file_size > limit:
            raise ValueError(f"{shown} would be {size_text(entry.file_size)} large")
    if MANIFEST not in seen:
        raise ValueError(f"it has no {MANIFEST}: it is no export of the lab")
    unpacked, packed = (sum(getattr(e, name) for e in archive.infolist()) for name in ("file_size", "compress_size"))
    if packed > size or unpacked > FREE_RATIO + MAX_RATIO * size:
        raise ValueError(f"{size:,} bytes would unpack to {unpacked:,}: no run log shrinks so far")


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
    others = _ImportedExperiments(store)
    with store.writing:
        new = [run for run in manifest.runs if not _is_known(store, run, staging / run.run_id)]
        try:
            others.take_in(manifest, staging)  # first: what was predicted is closed before its run is here
            for run in new:
                folder = store.runs_folder / run.run_id
                said = store.annotations.of(run.run_id)
                begun.append(_Begun(run_id=run.run_id, folder=folder, had_rows=store.runs.has(run.run_id), said=said))
                if said == Annotation():  # before the run: should this process die, the next start takes in both
                    _say(store, run.run_id, run.said)
                (staging / run.run_id).rename(folder)
                store.ingest.run(folder)
        except BaseException:
            for one in begun:
                _take_back(store, one)
            others.take_back()
            raise
    new_ids = tuple(run.run_id for run in new)
    return Imported(new=new_ids, known=tuple(r.run_id for r in manifest.runs if r.run_id not in new_ids))


def _check_experiment(folder: Path, told: BundledExperiment) -> None:
    """Whether an unpacked experiment can be read, and is the one that it says it is. ValueError in one line."""
    experiment_id = read_experiment(folder).plan.experiment_id
    if experiment_id != told.experiment_id:
        raise ValueError(f"{told.experiment_id}/experiment.json is of experiment {experiment_id}")


class _ImportedExperiments:
    """One import's part in experiments and predictions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._moved: list[tuple[str, Path]] = []
        self._predicted: list[str] = []

    def take_in(self, manifest: Manifest, staging: Path) -> None:
        """All that is new. ValueError where another experiment has an id of the bundle."""
        store, cursor = self._store, self._store.cursor()
        for told in manifest.experiments:
            if self._is_known(told):
                continue
            folder = store.runs_folder / told.experiment_id
            (staging / told.experiment_id).rename(folder)
            self._moved.append((told.experiment_id, folder))
            store.ingest.experiment(folder)
        self._predicted = in_transaction(cursor, lambda: take_predictions(cursor, manifest.predictions))

    def take_back(self) -> None:
        """As it was before."""
        cursor = self._store.cursor()
        in_transaction(cursor, lambda: delete_predictions(cursor, self._predicted))
        for experiment_id, folder in self._moved:
            in_transaction(cursor, lambda gone=experiment_id: forget_experiment(cursor, gone))  # type: ignore[misc]
            shutil.rmtree(folder, ignore_errors=True)

    def _is_known(self, told: BundledExperiment) -> bool:
        """Whether the very same experiment is here. ValueError where another one has its id, or one that went on."""
        experiment_id = told.experiment_id
        row = first_row(self._store.cursor(), "SELECT folder FROM experiments WHERE experiment_id = ?", [experiment_id])
        folder = Path(row[0]) if row and row[0] else self._store.runs_folder / experiment_id
        if not folder.exists():
            return False
        here = {name: file_hash(folder / name) for name in told.hashes if (folder / name).is_file()}
        if not is_experiment_folder(folder) or here != told.hashes:
            raise ValueError(f"experiment {experiment_id} is here with other content; delete that one first")
        return True


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
    if not store.runs.has(run.run_id):
        if (store.runs_folder / run.run_id).exists():
            raise ValueError(other)
        return False
    row = store.runs.get(run.run_id)
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
