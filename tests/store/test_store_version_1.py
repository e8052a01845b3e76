"""Runs and stores of schema 1, before paged KV memory: read, ingested and migrated with the same metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from engine.metrics.metrics import run_metrics
from engine.runlog.reader import RunLogReader
from store import Store
from store.database import MIGRATIONS

INFO = {
    "run_id": "old",
    "schema_version": 1,
    "created_at": "2026-01-02T03:04:05.000+00:00",
    "engine": "continuous",
    "policy": "continuous",
    "kv_layout": "slots",
    "config": {"engine": "continuous", "slots": 2},
    "workload": {"requests": 1},
}
# A request with 3 prompt tokens and 2 output tokens; the other row of the second pass is dead.
REQUESTS = pa.table({
    "request_id": pa.array([0], pa.int32()), "state": ["finished"], "prompt_tokens": pa.array([3], pa.int32()),
    "arrival_s": [0.0], "admitted_s": [0.5], "lane": pa.array([0], pa.int32()), "prompt_text": ["Why?"],
})  # fmt: skip
PASSES = pa.table({
    "pass_index": pa.array([0, 1], pa.int32()), "step": pa.array([0, 0], pa.int32()), "kind": ["prefill", "decode"],
    "start_s": [0.5, 1.0], "end_s": [1.0, 1.25], "rows": pa.array([1, 2], pa.int32()),
    "live_rows": pa.array([1, 1], pa.int32()), "prompt_tokens": pa.array([3, 0], pa.int32()),
    "computed_positions": pa.array([3, 8], pa.int64()), "padding_positions": pa.array([0, 0], pa.int64()),
    "dead_positions": pa.array([0, 4], pa.int64()), "kv_reserved_positions": pa.array([16, 16], pa.int64()),
    "kv_used_positions": pa.array([3, 4], pa.int64()),
})  # fmt: skip
TOKENS = pa.table({
    "request_id": pa.array([0, 0], pa.int32()), "token_index": pa.array([0, 1], pa.int32()),
    "token_id": pa.array([5, 6], pa.int32()), "pass_index": pa.array([0, 1], pa.int32()), "delivered_s": [1.0, 1.25],
})  # fmt: skip
SPANS = pa.table({
    "span_id": pa.array([0, 1], pa.int32()), "lane": pa.array([0, 0], pa.int32()),
    "request_id": pa.array([0, 0], pa.int32()), "phase": ["prefill", "decode"],
    "start_pass": pa.array([0, 1], pa.int32()), "end_pass": pa.array([1, 2], pa.int32()),
    "start_s": [0.5, 1.0], "end_s": [1.0, 1.25],
})  # fmt: skip
STREAMS = {"requests": REQUESTS, "passes": PASSES, "tokens": TOKENS, "spans": SPANS}

# Hand-computed: 2 tokens from 0 to 1.25 s; 8 of the 11 positions live; 16 reserved for 0.75 s, used 3 x 0.5 + 4 x 0.25.
FIGURES = {
    "output_tokens": 2,
    "duration_s": 1.25,
    "output_tokens_per_s": 1.6,
    "ttft_p50_s": 1.0,
    "itl_p50_s": 0.25,
    "slot_steps": 3,
    "useful_slot_steps": 2,
    "dead_positions": 4,
    "dead_s": 0.125,
    "kv_reserved_position_s": 12.0,
    "kv_unused_position_s": 9.5,
}
NOT_LOGGED = {
    "bucket_padding_fraction": None,
    "preemptions": None,
    "recomputed_tokens": None,
    "kv_padding_position_s": None,
    "kv_dead_position_s": None,
    "kv_fragment_position_s": None,
    "kv_room_position_s": None,
    "mixed_passes": 0,
    "captured_passes": 0,
}
UNKNOWN = {
    "requests": ("preemptions",),
    "passes": ("chunk_rows", "tokens", "bucket_tokens", "kv_padding_positions", "kv_dead_positions"),
    "spans": ("chunk",),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder as written by the first version of the lab."""
    folder = tmp_path / "elsewhere" / "old"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(INFO))
    for name, table in STREAMS.items():
        with pa.OSFile(str(folder / f"{name}.arrows"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
    (folder / "result.json").write_text(json.dumps({"status": "completed", "error": None, "totals": FIGURES}))
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def figures(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: metrics[name] for name in FIGURES}


def test_an_old_run_is_read_with_the_new_columns_null(folder: Path) -> None:
    reader = RunLogReader(folder)
    assert reader.status() == "completed"
    metrics = run_metrics(reader.record())
    assert figures(metrics) == pytest.approx(FIGURES)
    assert {name: metrics[name] for name in NOT_LOGGED} == NOT_LOGGED
    for stream, names in UNKNOWN.items():
        table = reader.table(stream)
        assert {name: set(table[name].to_pylist()) for name in names} == {name: {None} for name in names}
    assert reader.table("blocks").num_rows == reader.table("events").num_rows == 0


def test_an_old_run_is_ingested_with_the_new_columns_null(store: Store, folder: Path) -> None:
    report = store.ingest.run(folder)
    assert report.rows == {"requests": 1, "passes": 2, "tokens": 2, "spans": 2, "memory": 0, "blocks": 0, "events": 0}
    metrics = store.runs.metrics("old")
    assert figures(metrics) == pytest.approx(FIGURES)
    assert {name: metrics[name] for name in NOT_LOGGED} == NOT_LOGGED
    positions = store.kv.positions(["old"]).iloc[0]
    assert (positions["reserved_position_s"], positions["used_position_s"]) == (12.0, 2.5)
    assert positions[["padding_position_s", "fragment_position_s", "room_position_s"]].isna().all()
    for table, names in UNKNOWN.items():
        for name in names:
            known = store.cursor().execute(f'SELECT count("{name}") FROM {table}').fetchall()
            assert known == [(0,)], (table, name)
    row = store.cursor().execute("SELECT block_size, max_num_batched_tokens, kv_blocks, damage FROM runs").fetchall()
    assert row == [(None, None, None, None)]
    assert store.ingest.verify("old").outcome == "agrees"


def old_store(home: Path, folder: Path) -> None:
    """A store of version 1 that has ingested the old run."""
    home.mkdir()
    with duckdb.connect(str(home / "lab.duckdb")) as made:
        made.execute((MIGRATIONS / "0001_runs.sql").read_text())
        made.execute("CREATE TABLE schema_migrations (version INTEGER NOT NULL, name VARCHAR, applied_at TIMESTAMP)")
        made.execute("INSERT INTO schema_migrations VALUES (1, '0001_runs', now()::TIMESTAMP)")
        made.execute(
            "INSERT INTO runs (run_id, folder, status, engine, schema_version, run_info, result, simulated, watched) "
            "VALUES ('old', ?, 'completed', 'continuous', 1, ?, ?, false, false)",
            [str(folder), (folder / "run.json").read_text(), (folder / "result.json").read_text()],
        )
        for name, table in STREAMS.items():
            made.register("logged", table)
            made.execute(f"INSERT INTO {name} BY NAME SELECT 'old' AS run_id, * FROM logged")
            _, offset = RunLogReader(folder).tail(name, 0)
            made.execute("INSERT INTO ingest_progress VALUES ('old', ?, ?, ?)", [name, offset, table.num_rows])


def test_an_old_store_is_migrated_after_a_backup_and_keeps_every_metric(tmp_path: Path, folder: Path) -> None:
    home = tmp_path / "home"
    old_store(home, folder)
    with Store(home) as store:
        assert figures(store.runs.metrics("old")) == pytest.approx(FIGURES)
        assert store.runs.list()["run_id"].tolist() == ["old"]
        assert store.runs.spans("old")["end_step"].tolist() == [0.5, 1.0]
        assert not store.ingest.run(folder).has_changed
        assert store.ingest.verify("old").outcome == "agrees"
        store.trash.delete_run("old")
    with duckdb.connect(str(home / "lab.duckdb.backup-version-1"), read_only=True) as backup:
        assert backup.execute("SELECT run_id FROM runs").fetchall() == [("old",)]
        assert backup.execute("SELECT count(*) FROM tokens").fetchall() == [(2,)]
