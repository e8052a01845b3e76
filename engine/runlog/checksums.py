"""The checksums of a run log, in result.json: the rows, bytes and SHA-256 of each stream, and of the two JSON files.

The writer hashes the bytes as it writes them. A stream that does not match is damaged, whatever Arrow makes of its
bytes. Logs of older versions have no checksums.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.core.regular_files import MAX_JSON_BYTES, is_there, open_regular, read_regular
from engine.runlog.schema import RUN_FILE, STREAMS, stream_file

STREAM_SUMS = "streams"  # the keys in result.json
RUN_SUM = "run_sha256"
OWN_SUM = "sha256"
MAX_STREAM_BYTES = 16 << 30  # 400 million tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSum:
    """A stream's file, end marker included: its rows, its size, and its SHA-256 in hexadecimal."""

    rows: int
    bytes: int
    sha256: str


def sealed(result: Mapping[str, Any], streams: Mapping[str, StreamSum], run_json: bytes) -> dict[str, Any]:
    """`result` with the checksums of the streams that have a file, of run.json, and of itself."""
    content = {
        **result,
        STREAM_SUMS: {name: asdict(summed) for name, summed in streams.items()},
        RUN_SUM: hashlib.sha256(run_json).hexdigest(),
    }
    return {**content, OWN_SUM: own_sum(content)}


def own_sum(result: Mapping[str, Any]) -> str:
    """The SHA-256 of a result without the checksum itself, whatever its spacing and the order of its keys."""
    plain = json.loads(json.dumps({name: value for name, value in result.items() if name != OWN_SUM}))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def has_checksums(result: Mapping[str, Any] | None) -> bool:
    """Whether the run's streams have checksums: not if it was logged by an older version, or did not end."""
    return result is not None and STREAM_SUMS in result


def stream_sums(result: Mapping[str, Any]) -> dict[str, StreamSum]:
    """The checksums of the streams. ValueError if they cannot be read."""
    try:
        return {name: StreamSum(**summed) for name, summed in result[STREAM_SUMS].items()}
    except (TypeError, AttributeError, KeyError):
        raise ValueError("result.json: the checksums of the streams cannot be read") from None


def stream_damage(folder: Path, stream: str, summed: StreamSum | None) -> str | None:
    """In what way a stream's file is not the one that was logged, after the file's name; None if it is the same."""
    path = folder / stream_file(stream)
    if summed is None:
        return f"{path.name}: the run wrote no such stream" if is_there(path) else None
    if not is_there(path):
        return f"{path.name}: missing; the run wrote {summed.rows:,} rows"
    with open_regular(path) as file:
        size = file.seek(0, 2)
        if size != summed.bytes:
            change = "cut" if size < summed.bytes else "longer"
            return f"{path.name}: {change}: {size:,} bytes, but the run wrote {summed.bytes:,} ({summed.rows:,} rows)"
        if size > MAX_STREAM_BYTES:
            return f"{path.name}: {size:,} bytes are more than any run writes"
        file.seek(0)
        if hashlib.file_digest(file, "sha256").hexdigest() != summed.sha256:
            return f"{path.name}: damaged: its bytes are not those that the run wrote (checksum)"
    return None


def damaged_streams(folder: Path, result: Mapping[str, Any] | None) -> dict[str, str]:
    """One line for each stream that is not as it was logged, by the stream's name; empty without checksums.

    ValueError if the checksums cannot be read, OSError if a file is no plain file.
    """
    if result is None or not has_checksums(result):
        return {}
    sums = stream_sums(result)
    found = {stream: stream_damage(folder, stream, sums.get(stream)) for stream in STREAMS}
    return {stream: line for stream, line in found.items() if line is not None}


def changed_files(folder: Path, result: Mapping[str, Any] | None) -> list[str]:
    """One line for each of run.json and result.json that was changed after the run."""
    if result is None or not has_checksums(result):
        return []
    lines = []
    if hashlib.sha256(read_regular(folder / RUN_FILE, MAX_JSON_BYTES)).hexdigest() != result.get(RUN_SUM):
        lines.append("run.json was changed after the run (checksum)")
    if own_sum(result) != result.get(OWN_SUM):
        lines.append("result.json was changed after the run (checksum)")
    return lines
