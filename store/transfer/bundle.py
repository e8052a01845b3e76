"""The bundle, the file format of exported runs: a zip of run logs with a manifest.

    manifest.json                          the format, and each run's files with their sizes and SHA-256
    runs/<run_id>/run.json                 the run log, file by file, as on disk
    runs/<run_id>/requests.arrows …
    runs/<run_id>/result.json              missing for a crashed run
    experiments/<id>/experiment.json …     the plan and points of an experiment whose runs are all in the bundle

Predictions about them are in the manifest. A bundle without experiments and predictions has version 1, which older
versions of the lab read too. A bundle is untrusted input: anything else in it is refused with one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from engine.runlog.experiment_log import EXPERIMENT_FILE, POINTS_FILE
from engine.runlog.reader import RUN_ID, RUN_ID_RULE
from engine.runlog.schema import RESULT_FILE, RUN_FILE, SCHEMA_VERSION, STREAMS, WATCHED_FILE, stream_file
from store.annotations import Annotation, checked_note, checked_tags
from store.transfer.bundled_predictions import checked_prediction

FORMAT = "batching-lab runs"
FORMAT_VERSION = 2  # 2: experiments and predictions
MANIFEST = "manifest.json"
RUN_FILES = (RUN_FILE, RESULT_FILE, WATCHED_FILE, *(stream_file(name) for name in STREAMS))

EXPERIMENT_FILES = (EXPERIMENT_FILE, POINTS_FILE)

_PLACE = re.compile(rf"runs/({RUN_ID.pattern})/({'|'.join(map(re.escape, RUN_FILES))})")
_EXPERIMENT_PLACE = re.compile(rf"experiments/({RUN_ID.pattern})/({'|'.join(map(re.escape, EXPERIMENT_FILES))})")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledFile:
    """One file of a run log. `sha256` in hexadecimal."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledRun:
    """One run: its files and its annotation."""

    run_id: str
    status: str
    files: tuple[BundledFile, ...]
    annotation: Annotation

    @property
    def hashes(self) -> dict[str, str]:
        return {file.name: file.sha256 for file in self.files}


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledExperiment:
    """One experiment with a plan: its files. Its runs are in the bundle as runs."""

    experiment_id: str
    files: tuple[BundledFile, ...]

    @property
    def hashes(self) -> dict[str, str]:
        return {file.name: file.sha256 for file in self.files}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The contents of a bundle. `schema_version` is the newest run log schema that a run of the bundle may have.

    `predictions` about its runs and experiments are rows of the store's table.
    """

    created_at: str
    schema_version: int
    runs: tuple[BundledRun, ...]
    experiments: tuple[BundledExperiment, ...] = ()
    predictions: tuple[Mapping[str, Any], ...] = ()

    def files(self) -> Iterator[tuple[str, str, BundledFile]]:
        """Every file: the id of its run or experiment, its place in the zip, and its entry in the manifest."""
        for run in self.runs:
            yield from ((run.run_id, place_of(run.run_id, file.name), file) for file in run.files)
        for one in self.experiments:
            yield from ((one.experiment_id, experiment_place(one.experiment_id, f.name), f) for f in one.files)

    def to_json(self) -> str:
        runs = [
            {
                "run_id": run.run_id,
                "status": run.status,
                "note": run.annotation.note,
                "tags": list(run.annotation.tags),
                "pinned": run.annotation.pinned,
                "files": [asdict(file) for file in run.files],
            }
            for run in self.runs
        ]
        content: dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION if self.experiments or self.predictions else 1,
            "schema_version": self.schema_version,
            "created_at": self.created_at,
            "runs": runs,
        }
        if self.experiments or self.predictions:
            content["experiments"] = [asdict(experiment) for experiment in self.experiments]
            content["predictions"] = list(self.predictions)
        return json.dumps(content, indent=1, ensure_ascii=False)


def place_of(run_id: str, name: str) -> str:
    """The place of a run's file in the zip."""
    return f"runs/{run_id}/{name}"


def experiment_place(experiment_id: str, name: str) -> str:
    """The place of an experiment's file in the zip."""
    return f"experiments/{experiment_id}/{name}"


def is_place(name: str) -> bool:
    """Whether a file of a run or an experiment may have this name in the zip."""
    return _PLACE.fullmatch(name) is not None or _EXPERIMENT_PLACE.fullmatch(name) is not None


def parse_manifest(text: bytes) -> Manifest:
    """Parse a manifest. ValueError in one line if it is invalid, or of a newer version of the lab."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{MANIFEST} cannot be read") from error
    if not isinstance(content, Mapping) or content.get("format") != FORMAT:
        raise ValueError(f"{MANIFEST} is not the manifest of an export of the lab")
    for name, known in (("format_version", FORMAT_VERSION), ("schema_version", SCHEMA_VERSION)):
        version = _typed(content, name, int)
        if not 1 <= version <= known:
            raise ValueError(f"{name} {version}: made by a newer version of the lab; this one reads up to {known}")
    runs = tuple(_run(run) for run in _typed(content, "runs", list))
    if not runs:
        raise ValueError("the file has no runs")
    if len({run.run_id.casefold() for run in runs}) < len(runs):
        raise ValueError(f"{MANIFEST} lists a run twice")
    experiments = tuple(_experiment(one) for one in _optional_list(content, "experiments"))
    ids = [run.run_id.casefold() for run in runs] + [one.experiment_id.casefold() for one in experiments]
    if len(set(ids)) < len(ids):
        raise ValueError(f"{MANIFEST} lists an experiment twice, or an experiment with the id of a run")
    return Manifest(
        created_at=_typed(content, "created_at", str),
        schema_version=_typed(content, "schema_version", int),
        runs=runs,
        experiments=experiments,
        predictions=tuple(checked_prediction(one) for one in _optional_list(content, "predictions")),
    )


def _optional_list(content: Mapping[str, Any], name: str) -> list[Any]:
    """A list that version 1 does not have."""
    values: list[Any] = _typed(content, name, list) if name in content else []
    return values


def _experiment(entry: Any) -> BundledExperiment:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{MANIFEST} cannot be read")
    experiment_id = _id(_typed(entry, "experiment_id", str), "experiment")
    shown = f"experiment {experiment_id}"
    files = tuple(_file(file, shown, EXPERIMENT_FILES) for file in _typed(entry, "files", list))
    names = [file.name for file in files]
    if EXPERIMENT_FILE not in names or len(set(names)) < len(names):
        raise ValueError(f"{shown}: {EXPERIMENT_FILE} is missing, or a file is listed twice")
    return BundledExperiment(experiment_id=experiment_id, files=files)


def _id(name: str, what: str) -> str:
    if not RUN_ID.fullmatch(name):
        raise ValueError(f"{what} id {name[:80]!r}: {RUN_ID_RULE}")
    return name


def _run(entry: Any) -> BundledRun:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{MANIFEST} cannot be read")
    run_id, tags = _id(_typed(entry, "run_id", str), "run"), _typed(entry, "tags", list)
    if not all(isinstance(tag, str) for tag in tags):
        raise ValueError(f"run {run_id}: a tag is not text")
    files = tuple(_file(file, f"run {run_id}", RUN_FILES) for file in _typed(entry, "files", list))
    names = [file.name for file in files]
    if RUN_FILE not in names or len(set(names)) < len(names):
        raise ValueError(f"run {run_id}: {RUN_FILE} is missing, or a file is listed twice")
    note, pinned = checked_note(_typed(entry, "note", str)), _typed(entry, "pinned", bool)
    annotation = Annotation(note=note, tags=checked_tags(tags), pinned=pinned)
    return BundledRun(run_id=run_id, status=_typed(entry, "status", str), files=files, annotation=annotation)


def _file(entry: Any, owner: str, known: tuple[str, ...]) -> BundledFile:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{MANIFEST} cannot be read")
    file = BundledFile(
        name=_typed(entry, "name", str), bytes=_typed(entry, "bytes", int), sha256=_typed(entry, "sha256", str)
    )
    if file.name not in known or file.bytes < 0 or not _SHA256.fullmatch(file.sha256):
        raise ValueError(f"{owner}: {file.name[:80]!r} is not a file of a run log")
    return file


def _typed(content: Mapping[str, Any], name: str, kind: type) -> Any:
    value = content.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{MANIFEST} cannot be read: {name} is missing or has the wrong type")
    return value
