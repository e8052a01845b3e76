"""Imports a file of runs into a store, completely or not at all.

The file is checked before it is unpacked into a hidden folder beside the runs, and each run log is read to its end.
Then the runs are moved into the runs folder and ingested; if one fails, all of them are removed again.

Refused: files that are no zip; names that a bundle does not have (absolute, with `..` or a backslash, unknown) or has
twice; links, folders and anything but plain files; encrypted entries and other compression methods; entries that share
bytes; and more unpacked data than a run log of that size can have, because a small zip can unpack to a huge size.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import first_line
from engine.core.format import size as size_text
from engine.core.regular_files import is_regular
from engine.core.run_id import new_run_id
from engine.runlog.experiment_log import is_experiment_folder
from engine.runlog.foreign import check_run_log
from engine.runlog.reader import RunLogReader
from store.annotations import Annotation, annotate
from store.database import in_transaction
from store.folders import STAGING
from store.ingest.experiments import forget_experiment, read_experiment
from store.ingest.run_rows import delete_rows
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
from store.transfer.exporter import COPY_BYTES, file_hash, files_of

MAX_DIRECTORY_BYTES = 16 << 20  # a few hundred thousand files
MAX_MANIFEST_BYTES = 32 << 20
MAX_JSON_BYTES = 64 << 20
MAX_RATIO = 100  # run logs compress to about a tenth
FREE_RATIO = 64 << 20  # unpacked bytes allowed for a file of any size
SPARE_BYTES = 256 << 20

DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, UnicodeError)

Progress = Callable[[float, str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result of an import: the `new` runs, and the `known` ones, already in the store with identical files."""

    new: tuple[str, ...]
    known: tuple[str, ...]


def import_runs(
    store: Store, path: Path, on_progress: Progress = lambda share, what: None, *, name: str = ""
) -> Imported:
    """Import the runs of a file. ValueError in one line that starts with the file's name (or `name`) if it is
    refused."""
    shown = name or path.name
    staging = store.runs_folder / f"{STAGING}{new_run_id()}"
    try:
        with _open_bundle(path) as archive:
            manifest = _manifest(archive)
            _check_disk_space(archive, store.home)
            staging.mkdir(parents=True)
            _unpack(archive, manifest, staging, on_progress)
        for run in manifest.runs:
            _check(staging / run.run_id, run)
        for one in manifest.experiments:
            _check_experiment(staging / one.experiment_id, one)
        return _ingest_bundle(store, manifest, staging)
    except DAMAGE as error:
        raise ValueError(f"{shown}: the file is damaged: {first_line(error)}") from error
    except ValueError as error:
        message = str(error).replace(f"{staging}/", "").replace(f"{store.runs_folder.resolve()}/", "")
        raise ValueError(f"{shown}: not imported: {message}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


class _BoundedFile(io.BufferedReader):
    """A file that refuses to read more than MAX_DIRECTORY_BYTES at once.

    zipfile reads a zip's directory in one read, and its objects take many times that size in memory.
    """

    is_bounded = True

    def read(self, size: int | None = -1) -> bytes:
        if not self.is_bounded:
            return super().read(size)
        limit = MAX_DIRECTORY_BYTES + 1 if size is None or size < 0 else min(size, MAX_DIRECTORY_BYTES + 1)
        data = super().read(limit)
        if len(data) > MAX_DIRECTORY_BYTES:
            raise _TooManyFiles("the file lists more entries than a bundle of runs can have")
        return data


class _TooManyFiles(ValueError):
    """The zip's directory is too large to be read."""


@contextmanager
def _open_bundle(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open the zip and check every entry. ValueError in one line, without the file's name, if it is refused."""
    with _BoundedFile(io.FileIO(path)) as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("the file is not a zip, or its end is missing")
        try:
            archive = zipfile.ZipFile(file)
        except _TooManyFiles:
            raise
        except (*DAMAGE, ValueError) as error:
            raise ValueError("the file is damaged: its directory cannot be read") from error
        file.is_bounded = False
        with archive:
            _check_entries(archive, path.stat().st_size)
            yield archive


def _check_disk_space(archive: zipfile.ZipFile, folder: Path) -> None:
    """Check the disk space for the run logs and the same amount in the store. ValueError if there is too little."""
    needed = 2 * sum(entry.file_size for entry in archive.infolist()) + SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(f"the import needs {size_text(needed)} of disk space; {size_text(free)} are free")


def _check_entries(archive: zipfile.ZipFile, size: int) -> None:
    seen: set[str] = set()
    for entry in archive.infolist():
        shown = repr(entry.orig_filename[:80])
        if entry.filename != entry.orig_filename or not (entry.filename == MANIFEST or is_place(entry.filename)):
            raise ValueError(f"{shown} is not a file of a run log")
        if entry.filename.casefold() in seen:
            raise ValueError(f"{shown} occurs twice")
        seen.add(entry.filename.casefold())
        mode = entry.external_attr >> 16
        if (stat.S_IFMT(mode) and not stat.S_ISREG(mode)) or entry.is_dir():
            raise ValueError(f"{shown} is a link, a folder or a device, not a plain file")
        if entry.flag_bits & 0x1:
            raise ValueError(f"{shown} is encrypted")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{shown} uses a compression method that the lab does not use")
        limit = MAX_MANIFEST_BYTES if entry.filename == MANIFEST else MAX_JSON_BYTES
        if entry.filename.endswith((".json", ".jsonl")) and entry.file_size > limit:
            raise ValueError(f"{shown} has {size_text(entry.file_size)}; at most {size_text(limit)} are allowed")
    if MANIFEST not in seen:
        raise ValueError(f"the file has no {MANIFEST}, so it is not an export of the lab")
    unpacked, packed = (sum(getattr(e, name) for e in archive.infolist()) for name in ("file_size", "compress_size"))
    if packed > size or unpacked > FREE_RATIO + MAX_RATIO * size:
        raise ValueError(f"{size:,} bytes would unpack to {unpacked:,}; run logs do not compress that much")


def _manifest(archive: zipfile.ZipFile) -> Manifest:
    """The manifest. ValueError unless it lists exactly the files of the zip."""
    manifest = parse_manifest(archive.read(MANIFEST))
    listed = {place: file.bytes for _, place, file in manifest.files()}
    present = {entry.filename: entry.file_size for entry in archive.infolist() if entry.filename != MANIFEST}
    if listed != present:
        place = sorted(listed.items() ^ present.items())[0][0]
        raise ValueError(f"{MANIFEST} does not match the files in the zip: {place}")
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
        raise ValueError(f"the file is damaged: {place} does not match {MANIFEST}")


def _check(folder: Path, run: BundledRun) -> None:
    check_run_log(folder)
    run_id = RunLogReader(folder).run_info()["run_id"]
    if run_id != run.run_id:
        raise ValueError(f"{run.run_id}/run.json belongs to run {run_id}")


def _ingest_bundle(store: Store, manifest: Manifest, staging: Path) -> Imported:
    """Move the new runs into the runs folder and ingest them; if one fails, undo all of it."""
    moved: list[_MovedRun] = []
    experiments = _ImportedExperiments(store)
    with store.writing:
        new = [run for run in manifest.runs if not _is_known(store, run, staging / run.run_id)]
        try:
            experiments.ingest(manifest, staging)  # first: predictions must be closed before their run is ingested
            for run in new:
                folder = store.runs_folder / run.run_id
                before = store.annotations.of(run.run_id)
                had_rows = store.runs.has(run.run_id)
                moved.append(_MovedRun(run_id=run.run_id, folder=folder, had_rows=had_rows, annotation=before))
                if before == Annotation():  # before the run is moved: if this process dies, the next start has both
                    _annotate(store, run.run_id, run.annotation)
                (staging / run.run_id).rename(folder)
                store.ingest.run(folder)
        except BaseException:
            for one in moved:
                _undo(store, one)
            experiments.undo()
            raise
    new_ids = tuple(run.run_id for run in new)
    return Imported(new=new_ids, known=tuple(r.run_id for r in manifest.runs if r.run_id not in new_ids))


def _check_experiment(folder: Path, bundled: BundledExperiment) -> None:
    """Check that an unpacked experiment can be read and has the expected id. ValueError in one line."""
    experiment_id = read_experiment(folder).plan.experiment_id
    if experiment_id != bundled.experiment_id:
        raise ValueError(f"{bundled.experiment_id}/experiment.json belongs to experiment {experiment_id}")


class _ImportedExperiments:
    """The experiments and predictions of one import."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._moved: list[tuple[str, Path]] = []
        self._prediction_ids: Sequence[str] = ()

    def ingest(self, manifest: Manifest, staging: Path) -> None:
        """Ingest the new ones. ValueError if another experiment has an id of the bundle."""
        store = self._store
        for bundled in manifest.experiments:
            if self._is_known(bundled):
                continue
            folder = store.runs_folder / bundled.experiment_id
            (staging / bundled.experiment_id).rename(folder)
            self._moved.append((bundled.experiment_id, folder))
            store.ingest.experiment(folder)
        self._prediction_ids = store.predictions.insert_new(manifest.predictions)

    def undo(self) -> None:
        """Remove the imported experiments and predictions."""
        cursor = self._store.cursor()
        self._store.predictions.remove(self._prediction_ids)
        for experiment_id, folder in self._moved:
            in_transaction(cursor, lambda gone=experiment_id: forget_experiment(cursor, gone))  # type: ignore[misc]
            shutil.rmtree(folder, ignore_errors=True)

    def _is_known(self, bundled: BundledExperiment) -> bool:
        """Whether the store has the identical experiment. ValueError if it has another one with this id."""
        experiment_id = bundled.experiment_id
        folder = self._store.experiments.folder(experiment_id) or self._store.runs_folder / experiment_id
        if not folder.exists():
            return False
        hashes = {name: file_hash(folder / name) for name in bundled.hashes if is_regular(folder / name)}
        if not is_experiment_folder(folder) or hashes != bundled.hashes:
            raise ValueError(f"experiment {experiment_id} is in the store with other content; delete that one first")
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _MovedRun:
    """A run whose log was moved in, and the store's state before: whether it had the run, and its annotation."""

    run_id: str
    folder: Path
    had_rows: bool
    annotation: Annotation


def _undo(store: Store, moved: _MovedRun) -> None:
    _annotate(store, moved.run_id, moved.annotation)
    if not moved.had_rows:
        delete_rows(store.cursor(), moved.run_id)
    shutil.rmtree(moved.folder, ignore_errors=True)


def _annotate(store: Store, run_id: str, annotation: Annotation) -> None:
    """Write the annotation of a run that the store may not have yet."""
    in_transaction(store.cursor(), lambda: annotate(store.cursor(), run_id, annotation))


def _is_known(store: Store, run: BundledRun, unpacked: Path) -> bool:
    """Whether the store has the identical run. ValueError if it has another one with this id."""
    other = f"run {run.run_id} is in the store with other content; delete that one first"
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
    reader = RunLogReader(unpacked)  # the store's log of this run is gone: the import replaces it if it is the same run
    if json.dumps(row["info"]) != json.dumps(reader.run_info()) or row["result"] != reader.result():
        raise ValueError(other)
    return False
