"""Checksums of a run log: their values, every flipped bit is found, and a run on a full disk says how it ended."""

from __future__ import annotations

import errno
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.runlog.checksums import changed_files, damaged_streams, has_checksums
from engine.runlog.reader import RunLogReader
from engine.runlog.schema import STREAMS, stream_file
from engine.runlog.writer import END_OF_STREAM, RunLogWriter
from tests.support.runs.sample_runs import without_checksums, write_sample_run

INFO = {"run_id": "r1", "schema_version": 2, "config": {"slots": 2}}
RESULT = {"status": "completed", "error": None, "totals": {"output_tokens": 3, "ttft_p50_s": float("nan")}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample_run(tmp_path_factory.mktemp("runs"), "static", run_id="r1")


def result_of(folder: Path) -> dict[str, Any]:
    return RunLogReader(folder).result() or {}


def test_the_checksums_are_those_of_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "r1"
    with RunLogWriter(folder, INFO) as log:
        for index in range(3):
            log.append("tokens", request_id=0, token_index=index)
            log.flush()
        log.append("passes", pass_index=0)
        assert log.finish(RESULT) == RESULT
    result = result_of(folder)
    assert set(result["streams"]) == {"tokens", "passes"}
    for stream, rows in (("tokens", 3), ("passes", 1)):
        data = (folder / stream_file(stream)).read_bytes()
        assert result["streams"][stream] == {
            "rows": rows,
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
    assert result["run_sha256"] == hashlib.sha256((folder / "run.json").read_bytes()).hexdigest()
    assert (damaged_streams(folder, result), changed_files(folder, result)) == ({}, [])
    assert sorted(path.name for path in folder.iterdir()) == [
        "lock", "passes.arrows", "result.json", "run.json", "tokens.arrows",
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_every_flipped_bit_of_a_stream_is_found(whole: Path, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    stream = draw.choice([name for name in STREAMS if (whole / stream_file(name)).exists()])
    folder = copied(whole, tmp_path)
    file = folder / stream_file(stream)
    data = bytearray(file.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)
    assert list(damaged_streams(folder, result_of(folder))) == [stream]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda data: b"", "tokens.arrows: cut: 0 bytes, but the run wrote"),
        (lambda data: data[:-8], "tokens.arrows: cut: "),
        (lambda data: data + b"x", "tokens.arrows: longer: "),
        (lambda data: bytes(len(data)), "tokens.arrows: damaged: its bytes are not those that the run wrote"),
        (None, "tokens.arrows: missing; the run wrote 212 rows"),
    ],
)
def test_an_emptied_cut_or_missing_stream_is_found(whole: Path, tmp_path: Path, change: Any, line: str) -> None:
    folder = copied(whole, tmp_path)
    file = folder / "tokens.arrows"
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))
    assert damaged_streams(folder, result_of(folder))["tokens"].startswith(line)


def test_a_stream_that_the_run_did_not_write_is_found(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, tmp_path)
    (folder / "events.arrows").write_bytes((folder / "spans.arrows").read_bytes())
    assert damaged_streams(folder, result_of(folder)) == {"events": "events.arrows: the run wrote no such stream"}


def test_a_changed_result_or_description_is_found(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, tmp_path)
    for name, before, after in (("run.json", '"cpu"', '"cpv"'), ("result.json", '"error": null', '"error": ""')):
        text = (folder / name).read_text()
        assert before in text
        (folder / name).write_text(text.replace(before, after))
        assert changed_files(folder, result_of(folder)) == [f"{name} was changed after the run (checksum)"]
        (folder / name).write_text(text)
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps(dict(reversed(result.items()))))  # the same content in another form
    assert changed_files(folder, result_of(folder)) == []


def test_an_older_log_has_no_checksums(whole: Path, tmp_path: Path) -> None:
    folder = without_checksums(copied(whole, tmp_path))
    result = result_of(folder)
    assert not has_checksums(result)
    assert (damaged_streams(folder, result), changed_files(folder, result)) == ({}, [])


@pytest.mark.parametrize("streams", [[], 7, {"tokens": None}, {"tokens": {"rows": 1}}])
def test_checksums_that_cannot_be_read_are_one_line(whole: Path, tmp_path: Path, streams: Any) -> None:
    folder = copied(whole, tmp_path)
    with pytest.raises(ValueError, match="the checksums of the streams cannot be read"):
        damaged_streams(folder, result_of(folder) | {"streams": streams})


class FullDisk:
    """A file on a disk that is full after so many bytes; the bytes before are written."""

    def __init__(self, file: Any, room_bytes: int) -> None:
        self.file = file
        self.room_bytes = room_bytes

    def write(self, content: memoryview) -> int:
        if self.room_bytes == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = int(self.file.write(content[: self.room_bytes]))
        self.room_bytes -= written
        return written

    def close(self) -> None:
        self.file.close()


def test_a_run_that_fills_the_disk_is_failed_with_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "r1"
    with RunLogWriter(folder, INFO) as log:
        log.append("tokens", request_id=0, token_index=0)
        log.flush()
        log._files["tokens"].file = FullDisk(log._files["tokens"].file, 100)  # type: ignore[assignment]
        log.append("tokens", request_id=0, token_index=1)
        ended = log.finish(RESULT)
    reader = RunLogReader(folder)
    why = "the run log could not be written: No space left on the disk; free some space and run again"
    assert (ended["status"], ended["error"]) == ("failed", why)
    assert (reader.status(), result_of(folder)["error"]) == ("failed", why)
    assert reader.table("tokens").num_rows == 1
    # The checksum covers what is on the disk, the torn batch included, so that the run is taken in as it is.
    assert result_of(folder)["streams"]["tokens"]["rows"] == 1
    assert damaged_streams(folder, result_of(folder)) == {}


def test_the_room_of_the_result_is_taken_at_the_start(tmp_path: Path) -> None:
    with RunLogWriter(tmp_path / "r1", INFO) as log:
        partial = tmp_path / "r1/.result.json.partial"
        assert partial.stat().st_size == 32 << 10
        before = partial.stat().st_ino
        log.finish(RESULT)
    assert (tmp_path / "r1/result.json").stat().st_ino == before  # written over the reserved bytes
    with RunLogWriter(tmp_path / "r2", INFO):
        pass
    assert not (tmp_path / "r2/.result.json.partial").exists()


def test_a_log_that_is_a_terabyte_of_zeros_ends_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "r1"
    with RunLogWriter(folder, INFO) as log:
        log.append("tokens", request_id=0, token_index=0)
    with (folder / "tokens.arrows").open("r+b") as file:
        file.truncate(file.seek(0, 2) - len(END_OF_STREAM))
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match=r"tokens\.arrows: damaged after byte"):
        RunLogReader(folder).table("tokens")


def test_a_message_of_a_terabyte_is_not_read(tmp_path: Path) -> None:
    batch = pa.record_batch({"request_id": pa.array([1], pa.int32())})
    message = bytearray(batch.serialize().to_pybytes())
    body_bytes = len(message) - 8 - int.from_bytes(message[4:8], "little")
    at = message.index(body_bytes.to_bytes(8, "little"), 8)  # bodyLength, in the message's head
    message[at : at + 8] = (1 << 40).to_bytes(8, "little")
    data = batch.schema.serialize().to_pybytes() + message
    (tmp_path / "tokens.arrows").write_bytes(data)
    with (tmp_path / "tokens.arrows").open("r+b") as file:
        file.truncate(1 << 41)
    with pytest.raises(ValueError, match="damaged after byte"):
        RunLogReader(tmp_path).table("tokens")


def copied(whole: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in whole.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder
