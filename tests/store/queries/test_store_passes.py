"""Downsampled passes keep every extreme; the totals cover all passes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.runlog.writer import RunLogWriter
from store import Store
from tests.support.runs.page_runs import config_of, run_info
from tests.support.runs.sample_runs import write_sample_run

MANY = 50_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def write_many(folder: Path, **columns: Any) -> None:
    """Two passes per step, a prefill and a decode, 1 ms each; `columns` replaces whole columns."""
    index = np.arange(MANY)
    rows: dict[str, Any] = {
        "pass_index": index,
        "step": index // 2,
        "kind": ["decode" if i % 2 else "prefill" for i in range(MANY)],
        "start_s": index / 1000,
        "end_s": (index + 1) / 1000,
        **{name: np.full(MANY, 4) for name in ("rows", "live_rows", "width", "queue_depth", "kv_reserved_positions")},
    }
    with RunLogWriter(folder, run_info(folder.name, config_of("continuous"))) as log:
        log.extend("passes", {name: np.asarray(column).tolist() for name, column in (rows | columns).items()})
        log.finish({"status": "completed", "totals": {}})


def test_a_short_run_is_not_downsampled(store: Store, tmp_path: Path) -> None:
    folder = write_sample_run(tmp_path, "static")
    store.ingest.run(folder)
    found, every = store.passes.downsampled(folder.name), store.runs.passes(folder.name)
    assert len(every) > 50
    assert found.equals(every)


def test_downsampling_keeps_the_extremes_at_their_positions(store: Store, tmp_path: Path) -> None:
    seconds, queue, width = np.full(MANY, 0.001), np.zeros(MANY, int), np.full(MANY, 64)
    seconds[31_337], seconds[40_000] = 0.5, 1e-6
    queue[12_345], width[49_001] = 99, 1
    write_many(tmp_path / "many", end_s=np.arange(MANY) / 1000 + seconds, queue_depth=queue, width=width)
    store.ingest.run(tmp_path / "many")
    found = store.passes.downsampled("many").set_index("pass_index")
    assert len(found) < 20_000
    assert {0, 12_345, 31_337, 40_000, 49_001, MANY - 1} <= set(found.index)
    assert (found["pass_s"].idxmax(), found["pass_s"].idxmin()) == (31_337, 40_000)
    assert (found["queue_depth"].max(), found["width"].min()) == (99, 1)
    assert found.loc[31_337, ["start_step", "end_step"]].tolist() == [15_668.5, 15_669.0]
    assert found.loc[40_000, ["start_step", "end_step"]].tolist() == [20_000.0, 20_000.5]
    every = store.runs.passes("many").set_index("pass_index").loc[found.index]
    assert list(found) == list(every)
    assert found[["step", "start_step", "end_step", "pass_s"]].equals(
        every[["step", "start_step", "end_step", "pass_s"]]
    )


def test_pass_totals_are_sums_over_all_passes(store: Store, tmp_path: Path) -> None:
    with RunLogWriter(tmp_path / "r1", run_info("r1", config_of("continuous"))) as log:
        shared = {"kv_reserved_positions": 100, "kv_used_positions": 60, "kv_dead_positions": 0, "step": 0}
        one = {"kind": "prefill", "start_s": 0.0, "end_s": 2.0, "kv_padding_positions": 10, "kv_fragment_positions": 5}
        two = {"kind": "decode", "start_s": 2.0, "end_s": 3.0, "kv_padding_positions": 0, "kv_fragment_positions": 20}
        log.append("passes", pass_index=0, tokens=30, recomputed_tokens=7, **one, **shared)
        log.append("passes", pass_index=1, tokens=3, bucket_tokens=4, recomputed_tokens=0, **two, **shared)
        log.finish({"status": "completed", "totals": {}})
    store.ingest.run(tmp_path / "r1")
    assert store.passes.totals("r1") == {
        "passes": 2,
        "recomputed_tokens": 7,
        "captured_passes": 1,
        "bucket_tokens": 4,
        "bucket_padding_tokens": 1,
        "kv_padding_position_s": 20.0,  # 10 x 2 s
        "kv_dead_position_s": 0.0,
        "kv_fragment_position_s": 30.0,  # 5 x 2 s + 20 x 1 s
        "kv_room_position_s": 70.0,  # (100 - 60) x 3 s - 50
    }
    kinds = store.passes.kinds("r1").to_dict("records")
    assert kinds == [
        {"kind": "decode", "passes": 1, "seconds": 1.0, "median_s": 1.0, "longest_s": 1.0},
        {"kind": "prefill", "passes": 1, "seconds": 2.0, "median_s": 2.0, "longest_s": 2.0},
    ]


def test_a_total_is_missing_if_a_pass_did_not_log_it(store: Store, tmp_path: Path) -> None:
    write_many(tmp_path / "old")
    store.ingest.run(tmp_path / "old")
    totals = store.passes.totals("old")
    assert (totals["passes"], totals["captured_passes"]) == (MANY, 0)
    assert totals["kv_room_position_s"] is totals["recomputed_tokens"] is totals["bucket_padding_tokens"] is None
    assert store.passes.totals("nope")["passes"] == 0


def test_request_numbers_have_no_texts_and_texts_are_read_by_id(store: Store, tmp_path: Path) -> None:
    folder = write_sample_run(tmp_path, "static")
    store.ingest.run(folder)
    whole, numbers = store.runs.requests(folder.name), store.runs.request_numbers(folder.name)
    assert numbers.equals(whole.drop(columns=["prompt_text", "output_text"]))
    texts = store.runs.request_texts(folder.name, [5, 2])
    assert texts["request_id"].tolist() == [2, 5]
    assert texts["prompt_text"].tolist() == ["What is question 2 about?", "What is question 5 about?"]
    assert texts["output_text"].tolist() == whole["output_text"].iloc[[2, 5]].tolist()
