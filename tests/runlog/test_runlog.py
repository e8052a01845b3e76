"""The run log: rows are read as written, while it grows, after its end, and after a crash."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.runlog.locks import is_held
from engine.runlog.reader import RunLogReader, newest
from engine.runlog.schema import SPANS, STREAMS, TOKENS
from engine.runlog.writer import RunLogWriter

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


def test_a_run_log_is_read_as_written(tmp_path: Path) -> None:
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
    assert RESULT.items() <= (reader.result() or {}).items()
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


def test_missing_values_in_a_record_are_nan_minus_one_or_none(tmp_path: Path) -> None:
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


def test_rows_are_flushed_at_intervals(tmp_path: Path) -> None:
    with RunLogWriter(tmp_path / "r1", INFO) as log:
        reader = RunLogReader(tmp_path / "r1")
        assert reader.tail("tokens", 0) == ([], 0)
        seen, offset = [], 0
        for start in (0, 4):
            log.extend("tokens", token_columns(start, 4))
            deadline = time.monotonic() + 60  # 0.25 s on an idle machine
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


def test_a_logged_list_may_change_afterward(tmp_path: Path) -> None:
    ids = [1, 2]
    with RunLogWriter(tmp_path / "r1", INFO) as log:
        log.extend("tokens", {"token_id": ids})
        ids.append(3)
        log.finish(RESULT)
    assert RunLogReader(tmp_path / "r1").table("tokens")["token_id"].to_pylist() == [1, 2]


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


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    folder = write(tmp_path / "r1")
    before = (folder / "tokens.arrows").read_bytes()
    with pytest.raises(FileExistsError, match="already holds a run"):
        RunLogWriter(folder, INFO)
    assert (folder / "tokens.arrows").read_bytes() == before
    assert not is_held(folder / "lock")


def test_run_json_is_written_atomically(tmp_path: Path) -> None:
    with RunLogWriter(tmp_path / "r1", INFO):
        names = sorted(path.name for path in (tmp_path / "r1").iterdir())
        assert names == [".result.json.partial", "lock", "run.json"]  # the first is the room for result.json
        assert json.loads((tmp_path / "r1/run.json").read_text()) == INFO


def test_a_second_writer_is_refused_at_once(tmp_path: Path) -> None:
    with RunLogWriter(tmp_path / "r1", INFO):
        refused: list[BaseException] = []

        def write_too() -> None:
            try:
                RunLogWriter(tmp_path / "r1", INFO)
            except BaseException as error:
                refused.append(error)

        second = threading.Thread(target=write_too, daemon=True)
        second.start()
        second.join(5)
        assert [type(error) for error in refused] == [FileExistsError]
        assert f"r1 is being written by process {os.getpid()}, run r1" in str(refused[0])
        assert RunLogReader(tmp_path / "r1").status() == "running"
