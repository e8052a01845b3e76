"""The file that runs travel in: a zip of their run logs, and a manifest that says what is in it.

    manifest.json                          what the file is, and of each run: its files, their sizes and SHA-256
    runs/<run_id>/run.json                 the run log, file by file, as it lies on disk
    runs/<run_id>/requests.arrows …
    runs/<run_id>/result.json              not there for a run that crashed
    experiments/<id>/experiment.json …     an experiment all of whose runs are in it: its plan and its points

What was predicted of them stands in the manifest. A bundle without experiments and predictions is of version 1, which
older labs read too.
Nothing else may be in it. Whatever does not fit is refused with one line: what comes from elsewhere is not trusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from engine.runlog.experiment_log import EXPERIMENT_FILE, POINTS_FILE
from engine.runlog.reader import RUN_ID
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
    """One run: its files, and what people said of it."""

    run_id: str
    status: str
    files: tuple[BundledFile, ...]
    said: Annotation

    @property
    def hashes(self) -> dict[str, str]:
        return {file.name: file.sha256 for file in self.files}


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledExperiment:
    """One experiment that has a plan: its files. Its runs are in the bundle as runs."""

    experiment_id: str
    files: tuple[BundledFile, ...]

    @property
    def hashes(self) -> dict[str, str]:
        return {file.name: file.sha256 for file in self.files}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is in the file. `schema_version` is the run log's, the newest that a run of the file may have.

    `predictions` are columns of the store's table, of its runs and experiments.
    """

    created_at: str
    schema_version: int
    runs: tuple[BundledRun, ...]
    experiments: tuple[BundledExperiment, ...] = ()
    predictions: tuple[Mapping[str, Any], ...] = ()

    def files(self) -> Iterator[tuple[str, str, BundledFile]]:
        """Every file: the id of what it belongs to, its place, and what it should be."""
        for run in self.runs:
            yield from ((run.run_id, place_of(run.run_id, file.name), file) for file in run.files)
        for one in self.experiments:
            yield from ((one.experiment_id, experiment_place(one.experiment_id, f.name), f) for f in one.files)

    def to_json(self) -> str:
        runs = [
            {
                "run_id": run.run_id,
                "status": run.status,
                "note": run.said.note,
                "tags": list(run.said.tags),
                "pinned": run.said.pinned,
                "files": [asdict(file) for file in run.files],
            }
            for run in self.runs
        ]
        head = {"format": FORMAT, "format_version": FORMAT_VERSION if self.experiments or self.predictions else 1}
        told = {**head, "schema_version": self.schema_version, "created_at": self.created_at, "runs": runs}
        if self.experiments or self.predictions:
            told["experiments"] = [asdict(experiment) for experiment in self.experiments]
            told["predictions"] = list(self.predictions)
        return json.dumps(told, indent=1, ensure_ascii=False)


def place_of(run_id: str, name: str) -> str:
    """Where a file of a run lies in the zip."""
    return f"runs/{run_id}/{name}"


def experiment_place(experiment_id: str, name: str) -> str:
    """Where a file of an experiment lies in the zip."""
    return f"experiments/{experiment_id}/{name}"


def is_place(name: str) -> bool:
    """Whether this is a place where a file of a run or an experiment may lie."""
    return _PLACE.fullmatch(name) is not None or _EXPERIMENT_PLACE.fullmatch(name) is not None


def parse_manifest(text: bytes) -> Manifest:
    """The manifest. ValueError in one line where it is none, or one of a newer lab."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its {MANIFEST} is not readable") from error
    if not isinstance(told, Mapping) or told.get("format") != FORMAT:
        raise ValueError(f"its {MANIFEST} does not say that it holds runs of the lab")
    for name, known in (("format_version", FORMAT_VERSION), ("schema_version", SCHEMA_VERSION)):
        version = _typed(told, name, int)
        if not 1 <= version <= known:
            raise ValueError(f"{name} {version}: made by a newer version of the lab; this one reads up to {known}")
    runs = tuple(_run(run) for run in _typed(told, "runs", list))
    if not runs:
        raise ValueError("it holds no runs")
    if len({run.run_id.casefold() for run in runs}) < len(runs):
        raise ValueError("it names a run twice")
    experiments = tuple(_experiment(one) for one in _listed(told, "experiments"))
    ids = [run.run_id.casefold() for run in runs] + [one.experiment_id.casefold() for one in experiments]
    if len(set(ids)) < len(ids):
        raise ValueError("it names an experiment twice, or one by the id of a run")
    return Manifest(
        created_at=_typed(told, "created_at", str),
        schema_version=_typed(told, "schema_version", int),
        runs=runs,
        experiments=experiments,
        predictions=tuple(checked_prediction(one) for one in _listed(told, "predictions")),
    )


def _listed(told: Mapping[str, Any], name: str) -> list[Any]:
    """A list that version 1 does not have."""
    found: list[Any] = _typed(told, name, list) if name in told else []
    return found


def _experiment(told: Any) -> BundledExperiment:
    if not isinstance(told, Mapping):
        raise ValueError(f"its {MANIFEST} is not readable")
    experiment_id = _id(_typed(told, "experiment_id", str), "experiment")
    shown = f"experiment {experiment_id}"
    files = tuple(_file(file, shown, EXPERIMENT_FILES) for file in _typed(told, "files", list))
    names = [file.name for file in files]
    if EXPERIMENT_FILE not in names or len(set(names)) < len(names):
        raise ValueError(f"{shown}: it has no {EXPERIMENT_FILE}, or a file twice")
    return BundledExperiment(experiment_id=experiment_id, files=files)


def _id(name: str, what: str) -> str:
    if not RUN_ID.fullmatch(name):
        raise ValueError(f"{what} id {name[:80]!r}: it has to be 1 to 64 letters, digits, _ or -")
    return name


def _run(told: Any) -> BundledRun:
    if not isinstance(told, Mapping):
        raise ValueError(f"its {MANIFEST} is not readable")
    run_id, tags = _id(_typed(told, "run_id", str), "run"), _typed(told, "tags", list)
    if not all(isinstance(tag, str) for tag in tags):
        raise ValueError(f"run {run_id}: its tags are no texts")
    files = tuple(_file(file, f"run {run_id}", RUN_FILES) for file in _typed(told, "files", list))
    names = [file.name for file in files]
    if RUN_FILE not in names or len(set(names)) < len(names):
        raise ValueError(f"run {run_id}: it has no {RUN_FILE}, or a file twice")
    note, pinned = checked_note(_typed(told, "note", str)), _typed(told, "pinned", bool)
    said = Annotation(note=note, tags=checked_tags(tags), pinned=pinned)
    return BundledRun(run_id=run_id, status=_typed(told, "status", str), files=files, said=said)


def _file(told: Any, of: str, known: tuple[str, ...]) -> BundledFile:
    if not isinstance(told, Mapping):
        raise ValueError(f"its {MANIFEST} is not readable")
    file = BundledFile(
        name=_typed(told, "name", str), bytes=_typed(told, "bytes", int), sha256=_typed(told, "sha256", str)
    )
    if file.name not in known or file.bytes < 0 or not _SHA256.fullmatch(file.sha256):
        raise ValueError(f"{of}: a file {file.name[:80]!r} is no part of a run log")
    return file


def _typed(told: Mapping[str, Any], name: str, kind: type) -> Any:
    value = told.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"its {MANIFEST} is not readable: {name} is missing or of the wrong kind")
    return value
