"""Torn, damaged and invalid run logs: complete batches are kept, the rest is one clear line."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from engine.runlog.locks import is_held
from engine.runlog.reader import RunLogReader
from engine.runlog.schema import TOKENS
from engine.runlog.writer import RunLogWriter
from tests.runlog.test_runlog import INFO, token_columns, write
from tests.support.app_server import ROOT


def test_a_tail_torn_at_any_byte_is_dropped(tmp_path: Path) -> None:
    with RunLogWriter(tmp_path / "r1", INFO) as log:
        for start in (0, 10):
            log.extend("tokens", token_columns(start, 10))
            log.flush()
    file = tmp_path / "r1/tokens.arrows"
    whole = file.read_bytes()
    reader = RunLogReader(tmp_path / "r1")
    first_end = reader_offset_after(whole[: len(whole) - 16], file, reader)
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        rows = sum(batch.num_rows for batch in reader.tail("tokens", 0)[0])
        assert rows == (20 if length >= len(whole) - 8 else 10 if length >= first_end else 0), length


def reader_offset_after(data: bytes, file: Path, reader: RunLogReader) -> int:
    file.write_bytes(data)
    batches, offset = reader.tail("tokens", 0)
    assert [batch.num_rows for batch in batches] == [10]
    return offset


def test_damage_is_reported_in_one_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "r1")
    file = folder / "tokens.arrows"
    data = bytearray(file.read_bytes())
    data[-8:] = b"rubbish!"
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"tokens\.arrows: damaged after byte \d+") as error:
        RunLogReader(folder).table("tokens")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("seed", range(3))
def test_no_damage_crashes_the_reader(tmp_path: Path, seed: int) -> None:
    folder = write(tmp_path / "r1")
    file = folder / "tokens.arrows"
    data = file.read_bytes()
    draw = random.Random(seed)
    for _ in range(200):
        damaged = bytearray(data)
        damaged[draw.randrange(len(data))] = draw.randrange(256)
        file.write_bytes(damaged)
        with contextlib.suppress(ValueError):
            assert RunLogReader(folder).table("tokens").schema == TOKENS


@pytest.mark.parametrize(
    ("run_json", "message"),
    [
        (None, "it has no run.json"),
        ("{", "cannot be read as JSON"),
        ("[]", "not a JSON object"),
        ('{"schema_version": 1}', "run_id is None"),
        ('{"run_id": "../up", "schema_version": 1}', "run_id is '../up'"),
        ('{"run_id": "r1"}', "schema_version is None"),
        ('{"run_id": "r1", "schema_version": 99}', "a newer version of the lab"),
    ],
)
def test_a_folder_that_is_no_run_is_reported_in_one_line(tmp_path: Path, run_json: str | None, message: str) -> None:
    if run_json is not None:
        (tmp_path / "run.json").write_text(run_json)
    with pytest.raises(ValueError, match=message) as error:
        RunLogReader(tmp_path).run_info()
    assert "\n" not in str(error.value)


def test_an_older_log_has_null_in_the_new_columns(tmp_path: Path) -> None:
    folder = write(tmp_path / "r1")
    old = pa.record_batch({"request_id": pa.array([4], pa.int64()), "mood": ["fine"]})
    with pa.OSFile(str(folder / "tokens.arrows"), "wb") as file, pa.ipc.new_stream(file, old.schema) as stream:
        stream.write_batch(old)
    assert RunLogReader(folder).table("tokens").to_pylist() == [
        {"request_id": 4, **dict.fromkeys(("token_index", "token_id", "pass_index", "produced_s", "delivered_s"))}
    ]


def log_for(seconds: float, log: RunLogWriter) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        log.extend("tokens", token_columns(1, 1))
        time.sleep(0.02)


def test_a_full_disk_fails_the_run_at_its_next_row(tmp_path: Path) -> None:
    log = RunLogWriter(tmp_path / "r1", INFO)
    log.extend("tokens", token_columns(0, 1))
    log.flush()
    log._files["tokens"].file.close()
    log._files["tokens"].file = Path("/dev/full").open("ab", buffering=0)  # noqa: SIM115
    with pytest.raises(OSError, match="could not be written: .*No space left"):
        log_for(60, log)
    with pytest.raises(OSError, match="could not be written"):
        log.close()
    assert not is_held(tmp_path / "r1/lock")
    assert RunLogReader(tmp_path / "r1").table("tokens").num_rows == 1


WRITES_UNTIL_KILLED = """
import sys, time
from pathlib import Path
from engine.runlog.writer import RunLogWriter
log = RunLogWriter(Path(sys.argv[1]), {"run_id": "r1", "schema_version": 1})
n = 0
while True:
    log.append("passes", pass_index=n, start_s=n / 100, end_s=(n + 1) / 100)
    log.extend("tokens", {"request_id": [0, 1], "token_index": [n, n], "token_id": [n, n + 1], "pass_index": [n, n]})
    n += 1
    if n % 100 == 0:
        log.flush()
        print(n, flush=True)
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_writer_keeps_every_flushed_row(tmp_path: Path, seed: int) -> None:
    command = [sys.executable, "-c", WRITES_UNTIL_KILLED, str(tmp_path / "r1")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(5):
            process.stdout.readline()
        assert RunLogReader(tmp_path / "r1").status() == "running"
        time.sleep(random.Random(seed).random() * 0.1)
        os.kill(process.pid, signal.SIGKILL)
        flushed = max(int(line) for line in ["500", *process.stdout.read().split()])
    reader = RunLogReader(tmp_path / "r1")
    assert reader.status() == "crashed"
    tokens, passes = reader.table("tokens"), reader.table("passes")
    assert passes["pass_index"].to_pylist() == list(range(passes.num_rows))
    assert tokens["token_index"].to_pylist() == [n for n in range(tokens.num_rows // 2) for _ in (0, 1)]
    assert tokens.num_rows >= 2 * flushed
    assert passes.num_rows >= flushed


def two_batches(folder: Path) -> tuple[Path, list[int]]:
    """A stream of two batches of ten tokens without an end marker, and the offset after each."""
    ends = []
    with RunLogWriter(folder, INFO) as log:
        for start in (0, 10):
            log.extend("tokens", token_columns(start, 10))
            log.flush()
            ends.append((folder / "tokens.arrows").stat().st_size)
    file = folder / "tokens.arrows"
    file.write_bytes(file.read_bytes()[: ends[1]])
    return file, ends


def test_batches_before_the_damage_are_read_first(tmp_path: Path) -> None:
    file, ends = two_batches(tmp_path / "r1")
    data = file.read_bytes()
    file.write_bytes(data[: ends[0]] + b"rubbish!" + data[ends[0] + 8 :])
    reader = RunLogReader(tmp_path / "r1")
    batches, offset = reader.tail("tokens", 0)
    assert [batch.num_rows for batch in batches] == [10]
    assert offset == ends[0]
    with pytest.raises(ValueError, match=rf"tokens\.arrows: damaged after byte {offset}: not an Arrow"):
        reader.tail("tokens", offset)


@pytest.mark.parametrize("zeros", [1, 8, 100, 5000])
def test_a_tail_of_zeros_is_torn(tmp_path: Path, zeros: int) -> None:
    file, ends = two_batches(tmp_path / "r1")
    data = file.read_bytes()
    reader = RunLogReader(tmp_path / "r1")
    file.write_bytes(data + bytes(zeros))
    assert reader.table("tokens").num_rows == 20
    # The second message is cut in its marker, its length, and its metadata.
    for kept in (2, 4, 6, 8, 20):
        file.write_bytes(data[: ends[0] + kept] + bytes(zeros + 800))
        assert reader.table("tokens").num_rows == 10, kept
    file.write_bytes(bytes(zeros))
    assert reader.table("tokens").num_rows == 0


def test_zeros_before_other_bytes_are_damage(tmp_path: Path) -> None:
    file, ends = two_batches(tmp_path / "r1")
    data = file.read_bytes()
    for damaged in (data + bytes(64) + b"x", data[: ends[0]] + bytes(16) + data[ends[0] + 16 :]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged after byte"):
            RunLogReader(tmp_path / "r1").table("tokens")


@pytest.mark.parametrize(
    ("stream", "row"), [("tokens", {"token_id": "seven"}), ("requests", {"request_id": 0, "prompt_text": "\ud800"})]
)
def test_an_unwritable_row_fails_the_run_and_keeps_the_other_streams(
    tmp_path: Path, stream: str, row: dict[str, object]
) -> None:
    log = RunLogWriter(tmp_path / "r1", INFO)
    log.append(stream, **row)
    log.append("spans", span_id=3)
    with pytest.raises(OSError, match="the run log could not be written: "):
        log_for(2, log)
    with pytest.raises(OSError, match="could not be written"):
        log.close()
    assert not is_held(tmp_path / "r1/lock")
    assert RunLogReader(tmp_path / "r1").table("spans")["span_id"].to_pylist() == [3]
