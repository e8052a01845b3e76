"""Speed of a large store: summaries computed a few runs at a time, and run logs that are not read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.runlog.schema import stream_file
from store import Recorder, Store
from store.database import SUMMARIES, fit_summaries
from store.queries.runs import SPANS
from tests.support.runs.sample_runs import write_sample_run


@pytest.mark.parametrize("tokens_at_once", [1, 400, 10**9])
def test_summaries_computed_a_few_runs_at_a_time_are_the_same(tmp_path: Path, tokens_at_once: int) -> None:
    with Store(tmp_path) as store:
        for engine in ("static", "continuous", "serial"):
            store.ingest.run(write_sample_run(store.runs_folder, engine))
        store.ingest.run(write_sample_run(store.runs_folder, status=None, stop_after_passes=5))
        cursor = store.cursor()
        query = f"FROM {SUMMARIES} ORDER BY run_id"
        before = cursor.execute(query).fetchall()
        cursor.execute(f"COMMENT ON TABLE {SUMMARIES} IS 'other formulas'").fetchall()
        cursor.execute(f"UPDATE {SUMMARIES} SET requests = 7").fetchall()
        fit_summaries(cursor, tokens_at_once)
        assert cursor.execute(query).fetchall() == before
        assert len(before) == 4


class Counting(Recorder):
    """A recorder that records which folders it reads."""

    def __init__(self, store: Store, runs_folder: Path) -> None:
        super().__init__(store, runs_folder)
        self.read: list[str] = []
        take_in = store.ingest.run

        def ingest_folder(folder: Path) -> Any:
            self.read.append(folder.name)
            return take_in(folder)

        store.ingest.run = ingest_folder  # type: ignore[method-assign]


def looked_at(home: Path) -> list[str]:
    """The folders that a recorder reads in its first check after the store is opened."""
    with Store(home) as store:
        recorder = Counting(store, store.runs_folder)
        recorder.look()
        recorder.look()
        return recorder.read


def test_fully_ingested_runs_are_not_read_again_at_start(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        ended = [write_sample_run(store.runs_folder, engine) for engine in ("static", "continuous")]
    assert sorted(looked_at(tmp_path)[:2]) == sorted(folder.name for folder in ended)
    assert looked_at(tmp_path) == []
    new = write_sample_run(tmp_path / "runs", "serial")
    assert new.name in looked_at(tmp_path)
    assert looked_at(tmp_path) == []


def test_a_crashed_or_incomplete_run_is_read_again_when_its_files_change(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        crashed = write_sample_run(store.runs_folder, status=None, stop_after_passes=9)
        grown = write_sample_run(store.runs_folder, "static")
        whole = write_sample_run(store.runs_folder, "continuous")
        tokens = grown / stream_file("tokens")
        complete = tokens.read_bytes()
        tokens.write_bytes(complete[: len(complete) // 2])  # like an incomplete copy
    assert {crashed.name, grown.name, whole.name} <= set(looked_at(tmp_path))
    again = looked_at(tmp_path)
    assert whole.name not in again
    assert crashed.name not in again, "its process is dead: it is as settled as a whole one"
    assert grown.name in again, "it was refused"
    with (crashed / stream_file("tokens")).open("ab") as file:
        file.write(b"\xff")  # more of it is copied
    assert crashed.name in looked_at(tmp_path)
    assert crashed.name not in looked_at(tmp_path)
    tokens.write_bytes(complete)
    assert grown.name in looked_at(tmp_path)
    assert grown.name not in looked_at(tmp_path)
    with Store(tmp_path) as store:
        assert store.ingest.verify(grown.name).outcome == "agrees"


def test_spans_are_never_joined_to_tokens_row_by_row(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        folder = write_sample_run(store.runs_folder)
        store.ingest.run(folder)
        rows = store.cursor().execute(f"EXPLAIN {SPANS}", {"run_id": folder.name}).fetchall()
        plan = rows[0][1].upper().replace("_", " ")
    assert "ASOF JOIN" in plan
    assert "NESTED LOOP" not in plan
