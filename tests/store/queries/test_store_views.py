"""The SQL views equal engine.metrics.metrics, for every kind of run and at every moment of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.form_rule import FormRule
from engine.metrics.latency import latencies
from engine.metrics.metrics import RUN_METRICS, run_metrics
from engine.runlog.reader import RunLogReader
from engine.runlog.writer import RunLogWriter
from engine.workload.workload import build_workload
from store import Store
from tests.store.ingest.test_store_ingest import time_of_day
from tests.support.runs.sample_runs import CHUNKED, PEAK_BYTES, PREEMPTED, play, sample_run_info, write_sample_run

CLOSE = {"rel": 1e-12, "abs": 1e-12, "nan_ok": True}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def view(store: Store, name: str, run_id: str) -> list[dict[str, Any]]:
    cursor = store.cursor()
    cursor.execute(f"FROM {name} WHERE run_id = ? ORDER BY ALL", [run_id])
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def assert_metrics(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        assert (found[name] is None) == (value is None), name
        assert found[name] == (value if value is None else pytest.approx(value, **CLOSE)), name
        assert isinstance(found[name], int) == isinstance(value, int), name


def assert_equal(store: Store, run_id: str, folder: Path, peak_memory_bytes: int | None = PEAK_BYTES) -> dict[str, Any]:
    """Compare all three views with the functions. Returns the run's metrics."""
    record = RunLogReader(folder).record()
    expected = run_metrics(record, peak_memory_bytes=peak_memory_bytes)
    (found,) = view(store, "run_metrics", run_id)
    assert list(found) == ["run_id", *expected]
    assert_metrics(found, expected)
    by_python = latencies(record)
    by_request = {name: values for name, values in by_python.requests.items() if name != "itl_s"}
    rows = view(store, "request_metrics", run_id)
    assert len(rows) == len(by_request["request_id"])
    for name, column in by_request.items():
        values = [math.nan if row[name] is None else row[name] for row in rows]
        assert values == pytest.approx(column.tolist(), **CLOSE), name
    request_ids, gaps = by_python.gap_request_id, by_python.gap_s
    rows = view(store, "token_gaps", run_id)
    assert [row["request_id"] for row in rows] == request_ids.tolist()
    assert [row["gap_s"] for row in rows] == pytest.approx(gaps.tolist(), **CLOSE)
    return expected


STAGGERED = WorkloadConfig(prompts="p16,p5,p40", requests=30, budget="1-20", arrival="poisson:20", seed=3)
RUNS: dict[str, dict[str, Any]] = {
    "serial": {"engine": "serial"},
    "static": {"engine": "static"},
    "continuous": {"engine": "continuous"},
    "static, whole": {"engine": "static", "returns": "whole"},
    "static, arrivals": {"engine": "static", "workload": STAGGERED, "form": FormRule.parse("timeout:0.2")},
    "static, whole, arrivals": {"engine": "static", "workload": STAGGERED, "returns": "whole"},
    "continuous, arrivals": {"engine": "continuous", "workload": STAGGERED},
    "many": {"workload": WorkloadConfig(prompts="p3", requests=150, budget="1-4")},
    "one request": {"workload": WorkloadConfig(prompts="p9", requests=1, budget="7")},
    "one token": {"workload": WorkloadConfig(prompts="p9", requests=1, budget="1")},
    "no request": {"workload": WorkloadConfig(prompts="p9", requests=0)},
    "crashed": {"status": None, "stop_after_passes": 30},
    "crashed, whole": {"engine": "static", "returns": "whole", "status": None, "stop_after_passes": 70},
    "crashed at once": {"status": None, "stop_after_passes": 0},
    "preempted": PREEMPTED,
    "chunked": CHUNKED,
    "paged, arrivals": {"engine": "paged", "workload": STAGGERED, "block_size": 8},
    "chunked, crashed": {**CHUNKED, "status": None, "stop_after_passes": 40},
    "graphs": {**PREEMPTED, "bucket_tokens": 8},
    "graphs, chunked": {**CHUNKED, "bucket_tokens": 16},
    "stopped": {"engine": "static", "status": "stopped", "stop_after_passes": 33, "workload": STAGGERED},
}


@pytest.mark.parametrize("name", RUNS)
def test_the_views_equal_the_definitions(store: Store, tmp_path: Path, name: str) -> None:
    folder = write_sample_run(tmp_path, **RUNS[name])
    store.ingest.run(folder)
    has_memory = RunLogReader(folder).table("memory").num_rows > 0
    expected = assert_equal(store, folder.name, folder, PEAK_BYTES if has_memory else None)
    assert list(expected) == [metric.name for metric in RUN_METRICS]
    kept = store.runs.metrics(folder.name)
    assert list(kept) == list(expected)
    assert_metrics(kept, expected)


def test_a_pass_on_a_gpu_has_an_issue_time(store: Store, tmp_path: Path) -> None:
    config = RunConfig()
    info = sample_run_info(config, build_workload(config.workload), "gpu", None, time_of_day())
    with RunLogWriter(tmp_path / "gpu", info) as log:
        for index in range(3):
            log.append(
                "passes",
                pass_index=index,
                step=index,
                kind="decode",
                start_s=index * 0.5,
                end_s=index * 0.5 + 0.25,
                issue_s=0.125,
                device_s=0.0625,
                rows=2,
                live_rows=1,
                prompt_tokens=0,
                computed_positions=10,
                padding_positions=1,
                dead_positions=5,
                kv_reserved_positions=40,
                kv_used_positions=10,
            )
        log.finish({"status": "completed", "totals": {}})
    store.ingest.run(tmp_path / "gpu")
    found = assert_equal(store, "gpu", tmp_path / "gpu", None)
    assert (found["issue_s"], found["device_s"], found["between_passes_s"]) == (0.375, 0.1875, 0.5)


def test_chunks_preemptions_and_graphs_have_hand_computed_metrics(store: Store, tmp_path: Path) -> None:
    """Passes of half a second; the last pass has only some KV columns, and the second request no preemptions."""
    config = RunConfig(engine="chunked")
    info = sample_run_info(config, build_workload(config.workload), "hand", None, time_of_day())
    columns = ("kind", "tokens", "bucket_tokens", "recomputed_tokens", "kv_used_positions", "kv_padding_positions",
               "kv_dead_positions", "kv_fragment_positions")  # fmt: skip
    with RunLogWriter(tmp_path / "hand", info) as log:
        for index, values in enumerate([
            ("prefill", 6, 8, 0, 6, 0, 0, 2), ("mixed", 5, 8, 3, 11, 0, 0, 5), ("decode", 2, None, 0, 4, None, 1, None)
        ]):  # fmt: skip
            rest = {"rows": 1, "live_rows": 1, "prompt_tokens": 3, "computed_positions": 6, "padding_positions": 0}
            log.append(
                "passes", pass_index=index, step=index, start_s=index * 1.0, end_s=index + 0.5, dead_positions=0,
                kv_reserved_positions=16, **rest, **dict(zip(columns, values, strict=True)),
            )  # fmt: skip
        log.append("requests", request_id=0, state="finished", arrival_s=0.0, prompt_tokens=3, preemptions=2)
        log.append("requests", request_id=1, state="stopped", arrival_s=0.0, prompt_tokens=3)
        for index, delivered_s in enumerate([0.5, 1.0, 1.5, 3.5]):
            log.append("tokens", request_id=0, token_index=index, delivered_s=delivered_s)
        log.finish({"status": "completed", "totals": {}})
    store.ingest.run(tmp_path / "hand")
    found = assert_equal(store, "hand", tmp_path / "hand", None)
    expected = {
        "mixed_passes": 1,
        "captured_passes": 2,
        "bucket_padding_fraction": 1 - 11 / 16,
        "preemptions": 2,
        "recomputed_tokens": 3,
        "mixed_s": 0.5,
        "prefill_share": 2 / 3,
        "prefill_tokens_per_s": 9.0,
        "itl_max_over_p50": 4.0,
        "kv_padding_position_s": 0.0,
        "kv_dead_position_s": 0.5,
        "kv_fragment_position_s": 3.5,
        "kv_room_position_s": 4.0,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_the_view_counts_delivered_tokens(store: Store, tmp_path: Path) -> None:
    config = RunConfig(engine="static", returns="whole")
    info = sample_run_info(config, build_workload(config.workload), "cut", None, time_of_day())
    with RunLogWriter(tmp_path / "cut", info) as log:
        log.append("requests", request_id=0, state="finished", arrival_s=0.0, returned_s=1.0)
        log.append("requests", request_id=1, state="stopped", arrival_s=0.0)
        for request_id, count in ((0, 10), (1, 90)):
            log.extend("tokens", {"request_id": [request_id] * count, "token_index": list(range(count))})
        log.finish({"status": "stopped", "totals": {}})
    store.ingest.run(tmp_path / "cut")
    found = store.runs.metrics("cut")
    assert (found["output_tokens"], found["duration_s"], found["output_tokens_per_s"]) == (100, 1.0, 10.0)
    assert store.runs.list()["output_tokens_per_s"].tolist() == [10.0]


LIVE: dict[str, tuple[dict[str, Any], int | None]] = {
    "stream": ({"engine": "static", "workload": STAGGERED}, None),
    "whole": ({"engine": "static", "returns": "whole", "workload": STAGGERED}, None),
    "chunked": ({name: value for name, value in CHUNKED.items() if name != "num_blocks"}, CHUNKED["num_blocks"]),
}


@pytest.mark.parametrize("name", LIVE)
def test_the_views_hold_at_every_moment_of_a_run(store: Store, tmp_path: Path, name: str) -> None:
    settings, num_blocks = LIVE[name]
    config = RunConfig(**settings)
    plan = build_workload(config.workload)
    passes = 0
    with RunLogWriter(tmp_path / "live", sample_run_info(config, plan, "live", None, time_of_day())) as log:

        def compare() -> None:
            nonlocal passes
            passes += 1
            if passes % 9 == 1:
                log.flush()
                assert store.ingest.run(log.folder).status == "running"
                assert_metrics(store.runs.metrics("live"), assert_equal(store, "live", log.folder))

        play(log, config, plan, num_blocks=num_blocks, on_pass=compare)
    assert passes > 50


def test_views_of_many_runs_keep_them_apart(store: Store, tmp_path: Path) -> None:
    names = ("static", "preempted", "crashed", "static, whole", "graphs, chunked")
    folders = [write_sample_run(tmp_path, **RUNS[name]) for name in names]
    for folder in folders:
        store.ingest.run(folder)
    for folder in folders:
        assert_equal(store, folder.name, folder)
    counted = store.cursor().execute("SELECT count(*) FROM run_metrics").fetchall()
    assert counted == [(len(folders),)]


def test_gaps_have_the_pass_of_the_later_token(store: Store, tmp_path: Path) -> None:
    folder = write_sample_run(tmp_path, "continuous")
    store.ingest.run(folder)
    gaps, tokens = store.runs.gaps(folder.name), store.runs.tokens(folder.name)
    assert len(gaps) == len(tokens) - 8
    merged = gaps.merge(tokens, on=["request_id", "token_index"], suffixes=("", "_of_token"))
    assert np.array_equal(merged["pass_index"], merged["pass_index_of_token"])
