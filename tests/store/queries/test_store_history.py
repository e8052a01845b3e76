"""The history: search and filters in one query, annotations that outlive rows, and stored checks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.core.config import WorkloadConfig
from engine.runlog.reader import RunLogReader
from engine.runlog.writer import RunLogWriter
from engine.validity.validity import CHECKS
from store import Store
from store.annotations import Annotation
from store.ingest.checks import evidence_of
from store.ingest.run_rows import delete_rows
from store.queries.history import RunFilter
from tests.support.runs.evidence import INFO, RESULT, passes, requests
from tests.support.runs.sample_runs import write_sample_run

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def add(store: Store, run_id: str, *args: Any, **settings: Any) -> str:
    store.ingest.run(write_sample_run(store.runs_folder, *args, run_id=run_id, **settings))
    return run_id


def found(store: Store, **wanted: Any) -> list[str]:
    return store.history.find(RunFilter(**wanted)).rows["run_id"].tolist()


def with_three(store: Store) -> Store:
    """r1: static at noon; r2: continuous an hour later, stopped; r3: serial a day later, another workload."""
    add(store, "r1", "static", created_at=NOON)
    add(store, "r2", "continuous", created_at=NOON + timedelta(hours=1), status="stopped")
    other = WorkloadConfig(prompts="p7", requests=3)
    add(store, "r3", "serial", created_at=NOON + timedelta(days=1), workload=other)
    store.annotations.set("r1", Annotation(note="The warm one, 50% done", tags=("Baseline", "cpu run")))
    store.annotations.set("r2", Annotation(tags=("cpu run",)))
    return store


@pytest.fixture
def three(store: Store) -> Store:
    return with_three(store)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The same store, for tests that only read."""
    with Store(tmp_path_factory.mktemp("home")) as opened:
        yield with_three(opened)


NOON_UTC = NOON.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, ["r3", "r2", "r1"]),
        ({"engine": ("static", "serial")}, ["r3", "r1"]),
        ({"engine": ("paged",)}, []),
        ({"model": ("tiny-random",)}, ["r3", "r2", "r1"]),
        ({"device_name": ("a made-up CPU",), "engine": ("serial",)}, ["r3"]),
        ({"status": ("stopped", "oom")}, ["r2"]),
        ({"tags": ("cpu run",)}, ["r2", "r1"]),
        ({"tags": ("cpu run", "Baseline")}, ["r1"]),
        ({"text": "WARM one"}, ["r1"]),
        ({"text": "one warm static"}, ["r1"]),
        ({"text": "50%"}, ["r1"]),
        ({"text": "r2"}, ["r2"]),
        ({"text": "baseline"}, ["r1"]),
        ({"text": "p7"}, ["r3"]),
        ({"text": "warm continuous"}, []),
        ({"text": "' OR true --"}, []),
        ({"experiment_id": ("' OR true --",)}, []),
        ({"since": NOON_UTC + timedelta(hours=1)}, ["r3", "r2"]),
        ({"until": NOON_UTC + timedelta(hours=1)}, ["r1"]),
        ({"pinned": True}, []),
        ({"lost": ("real_weights",)}, ["r3", "r2", "r1"]),
        ({"lost": ("real_weights", "exact_prompts")}, []),
        ({"lost": ("real_weights",), "earned": ("measured",), "engine": ("static",)}, ["r1"]),
        ({"earned": ("no_preemption", "exact_prompts")}, ["r3", "r2", "r1"]),
        ({"earned": ("real_weights",)}, []),
    ],
)
def test_runs_are_filtered(unchanged: Store, wanted: dict[str, Any], expected: list[str]) -> None:
    assert found(unchanged, **wanted) == expected


def test_pinned_runs_come_first_and_pages_do_not_overlap(three: Store) -> None:
    three.annotations.set("r1", Annotation(pinned=True))
    assert found(three) == ["r1", "r3", "r2"]
    assert found(three, pinned=True) == ["r1"]
    first, second = (three.history.find(RunFilter(), limit=2, offset=offset) for offset in (0, 2))
    assert (first.rows["run_id"].tolist(), second.rows["run_id"].tolist()) == (["r1", "r3"], ["r2"])
    assert first.total == second.total == 3
    behind = three.history.find(RunFilter(), limit=2, offset=40)
    assert (behind.rows["run_id"].tolist(), behind.total) == (["r1", "r3"], 3)
    assert three.history.find(RunFilter(text="nowhere")).total == 0


def test_a_row_has_the_annotation_and_checks_of_a_run(unchanged: Store) -> None:
    rows = unchanged.history.find(RunFilter()).rows.set_index("run_id").to_dict("index")
    assert (rows["r1"]["note"], rows["r1"]["tags"]) == ("The warm one, 50% done", "Baseline, cpu run")
    assert (rows["r3"]["note"], rows["r3"]["tags"], rows["r3"]["pinned"]) == ("", "", False)
    assert "real_weights" in rows["r1"]["lost"].split(",")
    assert rows["r1"]["earned"].split(",")[:1] == ["exact_prompts"]
    plain = unchanged.runs.list()
    assert unchanged.history.find(RunFilter()).rows[list(plain)].equals(plain)
    sizes = {run_id: sum(p.stat().st_size for p in (unchanged.runs_folder / run_id).iterdir()) for run_id in rows}
    assert {run_id: row["log_bytes"] for run_id, row in rows.items()} == pytest.approx(sizes, abs=40)  # of the lock
    assert unchanged.history.find(RunFilter()).log_bytes == pytest.approx(sum(sizes.values()), abs=120)


def test_facets_list_the_filter_values(unchanged: Store) -> None:
    assert unchanged.history.facets() == {
        "engine": ["continuous", "serial", "static"],
        "model": ["tiny-random"],
        "device_name": ["a made-up CPU"],
        "status": ["completed", "stopped"],
        "tags": ["cpu run", "Baseline"],
    }


def test_notes_outlive_the_rows(three: Store) -> None:
    before = three.annotations.of("r1")
    delete_rows(three.cursor(), "r1")
    assert found(three) == ["r3", "r2"]
    three.ingest.all_in(three.runs_folder)
    assert three.annotations.of("r1") == before
    three.annotations.set("r1", Annotation())
    assert three.annotations.of("r1") == Annotation()


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Annotation(note="x" * 4001), "a note of 4,001 characters: use at most 4,000"),
        (Annotation(tags=("",)), "tag ''"),
        (Annotation(tags=("a,b",)), "without a comma"),
        (Annotation(tags=("x" * 41,)), "use 1 to 40 characters"),
        (Annotation(tags=("a\x00b",)), "use 1 to 40 characters"),
        (Annotation(tags=tuple(f"t{i}" for i in range(21))), "21 tags: use at most 20 for a run"),
    ],
)
def test_an_invalid_annotation_is_refused_and_changes_nothing(
    three: Store, annotation: Annotation, message: str
) -> None:
    before = three.annotations.of("r1")
    with pytest.raises(ValueError, match=message):
        three.annotations.set("r1", annotation)
    assert three.annotations.of("r1") == before
    with pytest.raises(KeyError, match="no run unknown"):
        three.annotations.set("unknown", Annotation(note="hello"))


# The checks, from a run log on disk to rows of the store.


def write_hand_made(store: Store, run_id: str, **requested: Any) -> str:
    """The run of tests/support/runs/evidence.py as an ingested run log. Its warm-up had 15 tokens too."""
    whole = {"run_id": run_id, "schema_version": 1, "created_at": NOON.isoformat(), "engine": "continuous"}
    with RunLogWriter(store.runs_folder / run_id, {**whole, **INFO}) as log:
        log.extend("requests", {name: column.tolist() for name, column in requests(**requested).items()})
        columns = {name: column.tolist() for name, column in passes().items() if name != "issue_s"}
        log.extend("passes", columns)
        log.finish({**RESULT, "warm_up": {"prompt_tokens": [15, 16], "rows": 2}, "totals": {}})
    store.ingest.run(log.folder)
    return run_id


def outcomes(store: Store, run_id: str) -> dict[str, str]:
    return {row["check_name"]: row["outcome"] for row in store.runs.checks(run_id)}


def lost(store: Store, run_id: str) -> list[str]:
    return [name for name, outcome in outcomes(store, run_id).items() if outcome == "fail"]


def test_a_run_log_that_earns_every_badge(store: Store) -> None:
    write_hand_made(store, "good")
    assert outcomes(store, "good") == dict.fromkeys((check.name for check in CHECKS), "pass")
    assert store.history.find(RunFilter(earned=tuple(check.name for check in CHECKS))).total == 1


def test_three_logs_lose_exactly_one_badge_each(store: Store) -> None:
    arrival = requests()["arrival_s"]
    late = {"submitted_s": arrival * 1.25, "admitted_s": arrival * 1.25, "finished_s": (arrival + 0.25) * 1.25}
    write_hand_made(store, "slow", **late)
    inexact = requests()["prompt_tokens"].copy()
    inexact[11] = 15
    write_hand_made(store, "inexact", prompt_tokens=inexact, asked_prompt_tokens=requests()["asked_prompt_tokens"])
    preempted = requests()["preemptions"].copy()
    preempted[3] = 2
    write_hand_made(store, "preempted", preemptions=preempted)
    assert lost(store, "slow") == ["offered_rate"]
    assert lost(store, "preempted") == ["no_preemption"]
    assert lost(store, "inexact") == ["exact_prompts"]
    assert store.history.find(RunFilter(lost=("no_preemption",))).rows["run_id"].tolist() == ["preempted"]
    finding = {row["check_name"]: row for row in store.runs.checks("preempted")}["no_preemption"]
    assert (finding["value"], finding["threshold"]) == (2.0, 0.0)
    assert finding["finding"].startswith("1 of 40 requests were preempted, 2 times in total;")


def test_a_watched_run_loses_its_badge_and_a_running_one_has_none_yet(store: Store) -> None:
    folder = write_sample_run(store.runs_folder, "continuous")
    (folder / "watched").touch()
    store.ingest.run(folder)
    assert outcomes(store, folder.name)["unwatched"] == "fail"
    with RunLogWriter(store.runs_folder / "live", {"run_id": "live", "schema_version": 1, "config": {}}) as log:
        log.append("requests", request_id=0, arrival_s=0.0)
        log.flush()
        store.ingest.run(log.folder)
        assert store.runs.checks("live") == []
    store.ingest.run(log.folder)  # it crashed
    assert len(store.runs.checks("live")) == len(CHECKS)
    assert store.runs.checks("unknown") == []


def test_the_stores_evidence_equals_that_of_the_run_log(store: Store) -> None:
    run_id = add(store, "r1", "static", workload=WorkloadConfig(prompts="p16", arrival="poisson:40"))
    evidence, record = evidence_of(store.cursor(), run_id), RunLogReader(store.runs_folder / run_id).record()
    for table, logged in ((evidence.record.requests, record.requests), (evidence.record.passes, record.passes)):
        for name, column in table.items():
            assert column.tolist() == pytest.approx(logged[name].tolist(), nan_ok=True), name


def test_runs_checked_by_another_version_are_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path) as store:
        run_id = add(store, "r1")
        before = store.runs.checks(run_id)
        store.cursor().execute("UPDATE run_checks SET finding = 'as it was found'").fetchall()
        store.cursor().execute("UPDATE runs SET log_bytes = NULL").fetchall()
    with Store(tmp_path) as store:
        assert {row["finding"] for row in store.runs.checks(run_id)} == {"as it was found"}
        assert store.history.find(RunFilter()).rows["log_bytes"].tolist()[0] > 1000
    monkeypatch.setattr("store.ingest.checks.VALIDITY_VERSION", 999)
    with Store(tmp_path) as store:
        assert store.runs.checks(run_id) == before


def write_strange(store: Store, strange: dict[str, Any], result: dict[str, Any]) -> Path:
    with RunLogWriter(store.runs_folder / "odd", {"run_id": "odd", "schema_version": 1, **strange}) as log:
        log.append("requests", request_id=0)
        log.append("passes", pass_index=0)
        log.finish({"status": "completed", **result})
    return log.folder


@pytest.mark.parametrize(
    "strange",
    [
        {"config": {}, "workload": {}, "environment": {"load_average_1min": -1.0, "cpu_count": 0}},
        {"config": {"warmups": 0}, "workload": {"arrival": "a camel", "requests": 1}, "device": None},
        {"config": {"warmups": 9}, "model": None, "workload": {"arrival": "poisson:-3"}, "environment": {}},
    ],
)
def test_a_strange_run_log_is_checked_without_an_error(store: Store, strange: dict[str, Any]) -> None:
    result = {"warm_up": {"prompt_tokens": [], "rows": None}, "clocks": {"clocks.sm": "?"}}
    store.ingest.run(write_strange(store, strange, result))
    assert len(store.runs.checks("odd")) == len(CHECKS)


@pytest.mark.parametrize(
    ("strange", "result", "line"),
    [
        ({"config": []}, {}, r"run\.json: refused: config is \[\]; it must be an object"),
        ({}, {}, r"run\.json: refused: config is missing; it must be there"),
        ({"workload": "none"}, {}, r"run\.json: refused: workload is 'none'"),
        ({"config": {"warmups": "two"}}, {}, r"config\.warmups is 'two'; it must be a whole number"),
        ({"workload": {"arrival": ["poisson"]}}, {}, r"workload\.arrival is \['poisson'\]; it must be text"),
        ({"environment": {"load_average_1min": "high"}}, {}, r"environment\.load_average_1min is 'high'"),
        ({}, {"warm_up": {"prompt_tokens": "all"}}, r"warm_up\.prompt_tokens is 'all'; it must be a list"),
        ({}, {"warm_up": {"rows": "some"}}, r"warm_up\.rows is 'some'; it must be a whole number"),
    ],
)
def test_a_run_log_with_values_of_other_types_is_refused(
    store: Store, strange: dict[str, Any], result: dict[str, Any], line: str
) -> None:
    whole = {} if "missing" in line else {"config": {}}
    folder = write_strange(store, {**whole, **strange}, result)
    with pytest.raises(ValueError, match=line) as refused:
        store.ingest.run(folder)
    assert "\n" not in str(refused.value)
    assert not store.runs.has("odd")
