"""Queries of the pages: runs, spans on the step axis, requests, tokens; and deleting a run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from engine.core.config import RunConfig
from engine.runlog.writer import RunLogWriter
from engine.workload.workload import build_workload
from store import Store
from store.database import TABLES
from tests.support.runs.sample_runs import CHUNKED, PREEMPTED, sample_run_info, write_sample_run

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def add(store: Store, *args: Any, **settings: Any) -> str:
    folder = write_sample_run(store.runs_folder, *args, **settings)
    store.ingest.run(folder)
    return folder.name


def test_runs_are_listed_newest_first_a_page_at_a_time(store: Store) -> None:
    ids = [add(store, created_at=NOON + timedelta(hours=hour)) for hour in (1, 0, 2)]
    newest_first = [ids[2], ids[0], ids[1]]
    assert store.runs.list()["run_id"].tolist() == newest_first
    assert store.runs.list(limit=1, offset=1)["run_id"].tolist() == newest_first[1:2]
    assert store.runs.count() == 3
    assert store.runs.list()["created_at"].tolist()[0] == pd.Timestamp("2026-03-04 14:00", tz="UTC")


def test_a_runs_row_has_its_settings_and_its_outcome(store: Store) -> None:
    run_id = add(store, "static", slots=2, created_at=NOON)
    row = store.runs.list().to_dict("records")[0]
    expected = {
        "run_id": run_id,
        "created_at": pd.Timestamp(NOON),
        "status": "completed",
        "error": None,
        "engine": "static",
        "model": "tiny-random",
        "dtype": "fp32",
        "device": "cpu",
        "slots": 2,
        "requests": 8,
        "finished_requests": 8,
        "experiment_id": None,
        "random_weights": True,
        "simulated": False,
        "watched": False,
    }
    assert {name: row[name] for name in expected} == expected
    metrics = store.runs.metrics(run_id)
    for name in ("output_tokens", "output_tokens_per_s", "ttft_p50_s", "dead_fraction", "duration_s"):
        assert row[name] == metrics[name], name
    assert metrics["dead_fraction"] > 0
    assert store.runs.get(run_id)["info"]["config"]["slots"] == 2
    assert store.runs.get(run_id)["result"]["status"] == "completed"


def test_a_running_run_has_its_tokens_so_far_and_no_metrics(store: Store) -> None:
    config = RunConfig()
    info = sample_run_info(config, build_workload(config.workload), "live", None, NOON)
    with RunLogWriter(store.runs_folder / "live", info) as log:
        log.extend("tokens", {"request_id": [0, 1], "token_index": [0, 0]})
        log.flush()
        store.ingest.run(log.folder)
        row = store.runs.list().to_dict("records")[0]
        assert (row["status"], row["output_tokens"]) == ("running", 2)
        assert pd.isna(row["output_tokens_per_s"])
        assert pd.isna(row["finished_requests"])
        assert store.runs.get("live")["result"] is None


def test_a_watched_run_is_marked(store: Store) -> None:
    folder = write_sample_run(store.runs_folder)
    (folder / "watched").touch()
    store.ingest.run(folder)
    assert store.runs.get(folder.name)["watched"] is True


def test_an_experiment_has_its_runs_oldest_first(store: Store) -> None:
    pair = {"id": "exp1", "kind": "pair", "label": "static and continuous"}
    first = add(store, "static", experiment=pair, created_at=NOON)
    second = add(store, "continuous", experiment=pair, created_at=NOON + timedelta(seconds=9))
    add(store, "serial")
    frame = store.experiments.runs("exp1")
    assert frame["run_id"].tolist() == [first, second]
    assert set(frame["experiment_kind"]) == {"pair"}
    assert store.experiments.runs("none").empty


def test_an_unknown_run_has_no_rows(store: Store) -> None:
    add(store)
    runs = store.runs
    for ask in (runs.requests, runs.passes, runs.spans, runs.gaps, runs.tokens, runs.memory):
        frame = ask("unknown")
        assert frame.empty
        assert "request_id" in frame or "pass_index" in frame
    for refuse in (store.runs.get, store.runs.metrics, store.trash.delete_run, store.ingest.verify):
        with pytest.raises(KeyError, match="no run unknown"):
            refuse("unknown")


def hand_made(store: Store, status: str | None) -> RunLogWriter:
    """Two requests in two slots: a prefill of both (step 0), two decodes; request 1 ends, and 2 takes its lane.

    Passes, as (step, kind): 0 (0 P), 1 (0 D), 2 (1 D), 3 (2 P), 4 (2 D).
    """
    config = RunConfig()
    log = RunLogWriter(
        store.runs_folder / "hand", sample_run_info(config, build_workload(config.workload), "hand", None, NOON)
    )
    for index, (step, kind) in enumerate([(0, "prefill"), (0, "decode"), (1, "decode"), (2, "prefill"), (2, "decode")]):
        log.append("passes", pass_index=index, step=step, kind=kind, start_s=1.0 * index, end_s=index + 0.75)
    for request_id, tokens in ((0, [0, 1, 2, 4]), (1, [0, 1, 2]), (2, [3, 4])):
        log.append("requests", request_id=request_id, prompt_tokens=10 + request_id, arrival_s=0.0, state="running")
        for index, at in enumerate(tokens):
            log.append("tokens", request_id=request_id, token_index=index, pass_index=at, delivered_s=at + 0.75)
    spans = [
        (0, 0, 0, "prefill", 0, 1),
        (1, 1, 1, "prefill", 0, 1),
        (2, 0, 0, "decode", 1, None),
        (3, 1, 1, "decode", 1, 3),
        (4, 1, 2, "prefill", 3, 4),
        (5, 1, 2, "decode", 4, None),
    ]
    for span_id, lane, request_id, phase, start_pass, end_pass in spans:
        end_s = None if end_pass is None else end_pass - 0.25
        log.append(
            "spans",
            span_id=span_id,
            lane=lane,
            slot=lane,
            request_id=request_id,
            phase=phase,
            start_pass=start_pass,
            end_pass=end_pass,
            start_s=float(start_pass),
            end_s=end_s,
        )
    if status is not None:
        log.finish({"status": status, "totals": {}})
    else:
        log.flush()
    store.ingest.run(log.folder)
    return log


@pytest.mark.parametrize("status", ["completed", None])
def test_spans_are_placed_on_the_step_axis(store: Store, status: str | None) -> None:
    with hand_made(store, status):
        spans = store.runs.spans("hand").set_index("span_id").sort_index()
    assert spans["start_step"].tolist() == [0.0, 0.0, 0.5, 0.5, 2.0, 2.5]
    assert spans["end_step"].tolist() == [0.5, 0.5, 3.0, 2.0, 2.5, 3.0]
    assert spans["end_s"].tolist() == [0.75, 0.75, 4.75, 2.75, 3.75, 4.75]
    assert spans["tokens_so_far"].tolist() == [1, 1, 4, 3, 1, 2]
    assert spans["prompt_tokens"].tolist() == [10, 11, 10, 11, 12, 12]


def test_passes_divide_a_step_evenly(store: Store) -> None:
    with hand_made(store, "completed"):
        passes = store.runs.passes("hand")
    assert passes["start_step"].tolist() == [0.0, 0.5, 1.0, 2.0, 2.5]
    assert passes["end_step"].tolist() == [0.5, 1.0, 2.0, 2.5, 3.0]
    assert passes["pass_s"].tolist() == [0.75] * 5


def test_a_live_steps_prefill_leaves_space_for_its_decode(store: Store) -> None:
    with hand_made(store, None) as log:
        log.append("passes", pass_index=5, step=3, kind="prefill", start_s=5.0, end_s=5.5)
        log.flush()
        store.ingest.run(log.folder)
        assert store.runs.passes("hand")["end_step"].tolist()[-1] == 3.5
        assert store.runs.spans("hand")["end_step"].max() == 3.5
    store.ingest.run(log.folder)  # crashed: no more rows will come
    assert store.runs.passes("hand")["end_step"].tolist()[-1] == 4.0


def test_a_live_chunked_steps_prefill_fills_the_step(store: Store) -> None:
    config = RunConfig(engine="chunked")
    info = sample_run_info(config, build_workload(config.workload), "live", None, NOON)
    with RunLogWriter(store.runs_folder / "live", info) as log:
        log.append("passes", pass_index=0, step=0, kind="prefill", start_s=0.0, end_s=0.5)
        log.append("spans", span_id=0, lane=0, request_id=0, phase="prefill", chunk=0, start_pass=0, start_s=0.0)
        log.flush()
        store.ingest.run(log.folder)
        assert store.runs.passes("live")["end_step"].tolist() == [1.0]
        assert store.runs.spans("live")[["chunk", "end_step"]].to_numpy().tolist() == [[0, 1.0]]


@pytest.mark.parametrize(
    "settings",
    [{"engine": "static"}, {"engine": "continuous"}, {"engine": "serial"}, PREEMPTED, CHUNKED],
    ids=["static", "continuous", "serial", "preempted", "chunked"],
)
def test_the_spans_of_a_lane_meet_and_count_every_slot_step(store: Store, settings: dict[str, Any]) -> None:
    run_id = add(store, **settings)
    spans, passes = store.runs.spans(run_id), store.runs.passes(run_id)
    for _, lane in spans.groupby("lane"):
        ordered = lane.sort_values("start_step")
        assert (ordered["start_step"].iloc[1:].to_numpy() == ordered["end_step"].iloc[:-1].to_numpy()).all()
        assert ordered["start_step"].iloc[0] == 0.0
        assert ordered["end_step"].iloc[-1] == passes["end_step"].max()
    last = spans[spans["phase"] != "empty"].groupby("request_id")["tokens_so_far"].max()
    requests = store.runs.requests(run_id).set_index("request_id")
    assert last.to_dict() == requests["output_tokens"].to_dict()


def test_requests_have_texts_and_latencies(store: Store) -> None:
    run_id = add(store, "continuous", status=None, stop_after_passes=40)
    requests = store.runs.requests(run_id)
    assert requests["request_id"].tolist() == list(range(8))
    assert requests["prompt_text"].iloc[3] == "What is question 3 about?"
    finished = requests["state"] == "finished"
    assert 0 < finished.sum() < 8
    assert set(requests.loc[~finished, "state"]) == {"stopped"}  # no request is running in a crashed run
    assert requests.loc[finished, "e2e_s"].notna().all()
    assert requests.loc[~finished, "e2e_s"].isna().all()
    assert all(text is None for text in requests.loc[~finished, "output_text"])
    assert requests["output_tokens"].sum() == len(store.runs.tokens(run_id))


def test_tokens_of_one_request_of_some_and_of_all(store: Store) -> None:
    run_id = add(store, "continuous")
    everything = store.runs.tokens(run_id)
    assert len(everything) == store.runs.metrics(run_id)["output_tokens"]
    one = store.runs.tokens(run_id, 3)
    assert set(one["request_id"]) == {3}
    assert one["token_index"].tolist() == list(range(len(one)))
    some = store.runs.tokens(run_id, of=[3, 5])
    assert len(some) == len(one) + len(store.runs.tokens(run_id, 5))
    assert store.runs.tokens(run_id, of=[]).empty


def test_tokens_in_full_response_mode_are_delivered_at_the_end_of_the_batch(store: Store) -> None:
    run_id = add(store, "static", returns="whole")
    tokens, requests = store.runs.tokens(run_id), store.runs.requests(run_id).set_index("request_id")
    assert (tokens["delivered_s"] == tokens["request_id"].map(requests["returned_s"])).all()
    assert store.runs.gaps(run_id).empty


def test_memory_in_order_of_time(store: Store) -> None:
    memory = store.runs.memory(add(store))
    assert memory["time_s"].is_monotonic_increasing
    assert set(memory["free_bytes"]) == {1 << 33}


def test_deleting_a_run_deletes_all_of_its_rows_and_no_others(store: Store) -> None:
    pair = {"id": "exp1", "kind": "pair", "label": ""}
    kept, gone = add(store, experiment=pair, **PREEMPTED), add(store, experiment=pair, **CHUNKED)
    runs = store.runs
    questions = (runs.tokens, runs.spans, runs.passes, runs.requests, runs.memory, runs.events, store.kv.blocks)
    before = [len(question(kept)) for question in questions]
    store.trash.delete_run(gone)
    assert store.runs.list()["run_id"].tolist() == [kept]
    assert [path.name for path in store.runs_folder.iterdir()] == [kept]
    cursor = store.cursor()
    for table in (*TABLES.values(), "ingest_progress", "run_summaries", "runs"):
        assert cursor.execute(f"SELECT DISTINCT run_id FROM {table}").fetchall() == [(kept,)], table
    assert [len(question(kept)) for question in questions] == before
    assert len(store.experiments.runs("exp1")) == 1
    store.trash.delete_run(kept)
    assert cursor.execute("SELECT count(*) FROM experiments").fetchall() == [(0,)]


def test_a_running_run_is_not_deleted(store: Store) -> None:
    with hand_made(store, None) as log:
        with pytest.raises(ValueError, match="run hand is still running"):
            store.trash.delete_run("hand")
        assert log.folder.is_dir()
    assert len(store.runs.spans("hand")) == 6


def test_a_folder_outside_the_runs_folder_is_not_deleted(store: Store, tmp_path: Path) -> None:
    folder = write_sample_run(tmp_path / "elsewhere")
    store.ingest.run(folder)
    store.trash.delete_run(folder.name)
    assert store.runs.list().empty
    assert (folder / "tokens.arrows").exists()


def test_a_run_whose_folder_is_gone_can_be_listed_and_deleted(store: Store) -> None:
    run_id = add(store)
    shutil.rmtree(store.runs_folder / run_id)
    assert len(store.runs.tokens(run_id)) > 0
    assert store.ingest.verify(run_id).outcome == "unchecked"
    store.trash.delete_run(run_id)
    assert store.runs.list().empty
