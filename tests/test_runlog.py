"""The run log: what is written is what is read, while it grows, after its end, and after a crash at any moment."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.runlog.locks import hold, is_held
from engine.runlog.reader import RunLogReader, newest
from engine.runlog.schema import SPANS, STREAMS, TOKENS
from engine.runlog.writer import RunLogWriter
from tests.app_server import ROOT

INFO = {"run_id": "r1", "schema_version": 1, "engine": "static"}
RESULT = {"status": "completed", "error": None, "oom": None, "totals": {}, "ended_at": "2026-01-01T00:00:00+00:00"}


def token_columns(start: int, count: int) -> dict[str, list[Any]]:
    numbers = list(range(start, start + count))
    return {
        "request_id": [0] * count,
        "token_index": numbers,
        "token_id": [7 * n % 1000 for n in numbers],
        "pass_index": numbers,
        "produced_s": [n / 100 for n in numbers],
        "delivered_s": [None] * count,
    }


def write(folder: Path, tokens: int = 10) -> Path:
    with RunLogWriter(folder, INFO) as log:
        log.extend("tokens", token_columns(0, tokens))
        log.finish(RESULT)
    return folder


def test_what_was_written_is_read(tmp_path: Path) -> None:
    with RunLogWriter(tmp_path / "r1", INFO) as log:
        log.append("requests", request_id=0, state="waiting", arrival_s=0.5, prompt_text="Hëllo\n")
        log.append("requests", request_id=1, state="waiting", arrival_s=0.75)
        log.append("passes", pass_index=0, step=0, kind="prefill", start_s=1.0, end_s=1.5, masked=True)
        log.extend("tokens", token_columns(0, 3))
        log.flush()
        log.append("requests", request_id=0, state="finished", finished_s=1.5, output_text="")
        log.finish(RESULT)
    reader = RunLogReader(tmp_path / "r1")
    assert reader.run_info() == INFO
    assert reader.result() == RESULT
    assert reader.status() == "completed"
    requests = reader.table("requests").to_pylist()
    assert [r["request_id"] for r in requests] == [0, 1]
    assert {k: v for k, v in requests[0].items() if v is not None} == {
        "request_id": 0,
        "state": "finished",
        "arrival_s": 0.5,
        "finished_s": 1.5,
        "prompt_text": "Hëllo\n",
        "output_text": "",
    }
    assert reader.table("tokens").to_pydict() == token_columns(0, 3)
    assert reader.table("memory").num_rows == 0
    assert reader.table("memory").schema == STREAMS["memory"]


def test_a_record_has_the_missing_values_that_metrics_know(tmp_path: Path) -> None:
    with RunLogWriter(tmp_path / "r1", INFO) as log:
        log.append("requests", request_id=3, arrival_s=0.5)
        log.extend("tokens", token_columns(0, 2))
        log.finish(RESULT)
    record = RunLogReader(tmp_path / "r1").record()
    assert record.requests["prompt_tokens"].tolist() == [-1]
    assert record.requests["state"].tolist() == [None]
    assert np.isnan(record.requests["admitted_s"]).tolist() == [True]
    assert record.tokens["token_index"].tolist() == [0, 1]
    assert record.tokens["token_index"].dtype == np.int32
    assert np.isnan(record.tokens["delivered_s"]).all()
    assert record.passes["start_s"].shape == (0,)


def test_any_arrow_reader_can_read_a_stream(tmp_path: Path) -> None:
    folder = write(tmp_path / "r1", tokens=5)
    with pa.OSFile(str(folder / "tokens.arrows")) as file:
        assert pa.ipc.open_stream(file).read_all().to_pydict() == token_columns(0, 5)


def test_rows_reach_a_reader_by_themselves_and_in_steps(tmp_path: Path) -> None:
    with RunLogWriter(tmp_path / "r1", INFO) as log:
        reader = RunLogReader(tmp_path / "r1")
        assert reader.tail("tokens", 0) == ([], 0)
        seen, offset = [], 0
        for start in (0, 4):
            log.extend("tokens", token_columns(start, 4))
            deadline = (
                time.monotonic() + 0.25 + 2.0
            )  # 0.25 s is what a reader is promised; the rest is a busy machine's
            while len(seen) < start + 4 and time.monotonic() < deadline:
                batches, offset = reader.tail("tokens", offset)
                seen += [index for batch in batches for index in batch.column("token_index").to_pylist()]
                time.sleep(0.01)
            assert seen == list(range(start + 4))
        assert reader.status() == "running"
        log.finish(RESULT)
    assert reader.tail("tokens", offset) == ([], offset)


def test_a_stream_is_read_in_bounded_pieces(tmp_path: Path) -> None:
    from engine.runlog.batches import read_batches

    with RunLogWriter(tmp_path / "r1", INFO) as log:
        for start in range(0, 600, 20):
            log.extend("tokens", token_columns(start, 20))
            log.flush()
        log.finish(RESULT)
    offset, pieces, seen = 0, 0, []
    # 700 bytes hold the schema's message but not one batch: a piece is then one batch.
    while (found := read_batches(tmp_path / "r1/tokens.arrows", TOKENS, offset, chunk_bytes=700))[1] != offset:
        batches, offset = found
        pieces += 1
        seen += [index for batch in batches for index in batch.column("token_index").to_pylist()]
    assert seen == list(range(600))
    assert pieces == 30


def test_many_threads_may_log(tmp_path: Path) -> None:
    with RunLogWriter(tmp_path / "r1", INFO) as log:

        def work(start: int) -> None:
            for number in range(start, start + 500):
                log.extend("tokens", token_columns(number, 1))

        threads = [threading.Thread(target=work, args=(500 * k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        log.finish(RESULT)
    indices = RunLogReader(tmp_path / "r1").table("tokens")["token_index"].to_pylist()
    assert sorted(indices) == list(range(2000))


def test_the_log_keeps_what_a_list_held_when_it_was_logged(tmp_path: Path) -> None:
    ids = [1, 2]
    with RunLogWriter(tmp_path / "r1", INFO) as log:
        log.extend("tokens", {"token_id": ids})
        ids.append(3)
        log.finish(RESULT)
    assert RunLogReader(tmp_path / "r1").table("tokens")["token_id"].to_pylist() == [1, 2]


def test_a_torn_tail_is_dropped_wherever_it_is_torn(tmp_path: Path) -> None:
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


def test_damage_is_told_in_one_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "r1")
    file = folder / "tokens.arrows"
    data = bytearray(file.read_bytes())
    data[-8:] = b"rubbish!"
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"tokens\.arrows: damaged behind byte \d+") as told:
        RunLogReader(folder).table("tokens")
    assert "\n" not in str(told.value)


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
    ("run_json", "told"),
    [
        (None, "it has no run.json"),
        ("{", "not readable as JSON"),
        ("[]", "not a JSON object"),
        ('{"schema_version": 1}', "run_id is None"),
        ('{"run_id": "../up", "schema_version": 1}', "run_id is '../up'"),
        ('{"run_id": "r1"}', "schema_version is None"),
        ('{"run_id": "r1", "schema_version": 99}', "a newer version of the lab"),
    ],
)
def test_a_folder_that_is_no_run_is_told_in_one_line(tmp_path: Path, run_json: str | None, told: str) -> None:
    if run_json is not None:
        (tmp_path / "run.json").write_text(run_json)
    with pytest.raises(ValueError, match=told) as error:
        RunLogReader(tmp_path).run_info()
    assert "\n" not in str(error.value)


def test_an_older_log_has_null_for_what_it_did_not_know(tmp_path: Path) -> None:
    folder = write(tmp_path / "r1")
    old = pa.record_batch({"request_id": pa.array([4], pa.int64()), "mood": ["fine"]})
    with pa.OSFile(str(folder / "tokens.arrows"), "wb") as file, pa.ipc.new_stream(file, old.schema) as stream:
        stream.write_batch(old)
    assert RunLogReader(folder).table("tokens").to_pylist() == [
        {"request_id": 4, **dict.fromkeys(("token_index", "token_id", "pass_index", "produced_s", "delivered_s"))}
    ]


def test_a_run_without_a_result_is_crashed_once_its_lock_is_free(tmp_path: Path) -> None:
    log = RunLogWriter(tmp_path / "r1", INFO)
    assert RunLogReader(tmp_path / "r1").status() == "running"
    log.close()
    assert RunLogReader(tmp_path / "r1").status() == "crashed"


def test_open_spans_of_a_dead_run_close_at_its_last_pass(tmp_path: Path) -> None:
    log = RunLogWriter(tmp_path / "r1", INFO)
    log.append("passes", pass_index=4, start_s=1.0, end_s=1.25)
    log.append("spans", span_id=0, lane=0, phase="prefill", start_pass=0, start_s=0.0)
    log.append("spans", span_id=0, end_pass=1, end_s=0.5)
    log.append("spans", span_id=1, lane=0, phase="decode", start_pass=1, start_s=0.5)
    log.append("spans", span_id=2, lane=1, phase="decode", start_pass=6, start_s=1.5)  # its pass was not logged
    log.flush()
    reader = RunLogReader(tmp_path / "r1")
    assert reader.spans()["end_pass"].to_pylist() == [1, None, None]
    log.close()
    assert reader.spans()["end_pass"].to_pylist() == [1, 5, 6]
    assert reader.spans()["end_s"].to_pylist() == [0.5, 1.25, 1.5]
    assert reader.spans().schema == SPANS


def test_the_newest_value_wins_and_null_does_not_erase() -> None:
    table = pa.table({"k": [1, 2, 1, 1], "a": ["x", None, "y", None], "b": [None, 1.5, 2.5, None]})
    assert newest(table, "k").to_pydict() == {"k": [1, 2], "a": ["y", None], "b": [2.5, 1.5]}


def test_a_run_is_never_written_over(tmp_path: Path) -> None:
    folder = write(tmp_path / "r1")
    before = (folder / "tokens.arrows").read_bytes()
    with pytest.raises(FileExistsError, match="already holds a run"):
        RunLogWriter(folder, INFO)
    assert (folder / "tokens.arrows").read_bytes() == before
    assert not is_held(folder / "lock")


def log_for(seconds: float, log: RunLogWriter) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        log.extend("tokens", token_columns(1, 1))
        time.sleep(0.02)


def test_a_disk_that_fails_fails_the_run_at_its_next_row(tmp_path: Path) -> None:
    log = RunLogWriter(tmp_path / "r1", INFO)
    log.extend("tokens", token_columns(0, 1))
    log.flush()
    log._files["tokens"].close()
    log._files["tokens"] = Path("/dev/full").open("ab", buffering=0)  # noqa: SIM115
    with pytest.raises(OSError, match="could not be written: .*No space left"):
        log_for(10, log)
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
def test_a_killed_writer_leaves_every_row_that_it_flushed(tmp_path: Path, seed: int) -> None:
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


def test_a_lock_is_waited_for_and_freed(tmp_path: Path) -> None:
    path = tmp_path / "locks/device"
    heard: list[str] = []
    with hold(path, purpose="run abc"):
        assert is_held(path)
        stop_at = time.monotonic() + 0.3
        waiting = hold(path, purpose="me", on_wait=heard.append, should_stop=lambda: time.monotonic() > stop_at)
        with pytest.raises(InterruptedError), waiting:
            pytest.fail("two hold the lock")
    assert heard == [f"process {os.getpid()}, run abc"]
    assert not is_held(path)
    with hold(path, purpose="me", on_wait=heard.append):
        pass
    assert len(heard) == 1


def test_a_lock_is_freed_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "device"
    code = (
        "import sys, time; from pathlib import Path; from engine.runlog.locks import hold\n"
        "with hold(Path(sys.argv[1]), purpose='measure'): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert is_held(path)
        process.kill()
    assert not is_held(path)


def test_run_json_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with RunLogWriter(tmp_path / "r1", INFO):
        assert sorted(path.name for path in (tmp_path / "r1").iterdir()) == ["lock", "run.json"]
        assert json.loads((tmp_path / "r1/run.json").read_text()) == INFO
