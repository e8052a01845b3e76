"""Damaged experiment folders: one line in the store, the command line and the pages, and everything else works."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from engine.cli import main
from engine.experiments.experiment import PointRecord
from engine.runlog.experiment_log import ExperimentLog
from pages.parts.shared.lab import lab
from store import Recorder, Store
from store.cli.main import main as store_main
from store.transfer.exporter import export_runs
from store.transfer.importer import import_runs
from tests.support.page_app import open_page, words
from tests.support.processes import wait_for
from tests.support.runs.experiments import run_point, sweep_plan
from tests.support.runs.sweeps import a_sweep

DEEP = "[" * 100_000
BAD_VALUES = {"batch_size": "two", "prompt_tokens": None, "engine": ["a"]}
BAD_TOTALS = ("fast", [1], {"median": 1}, True, float("inf"), float("nan"), 10**400)
POINT = {"key": "static/p16/b1", "repeat": 0, "status": "completed"}
ENDED = {**POINT, "run_id": None, "error": None, "oom": None, "ended_at": "", "totals": {}}
DAMAGE: dict[str, Any] = {
    "settings": lambda data: {**data, "settings": [1]},
    "no values": lambda data: with_point(data, values={}),
    "bad values": lambda data: with_point(data, values=BAD_VALUES),
    "label": lambda data: {**data, "label": ["a"]},
    "bad settings": lambda data: {**data, "settings": {"batch_sizes": "x", "prompts": [1], "repeats": None}},
    "points": lambda data: {**data, "points": None},
    "key": lambda data: with_point(data, key=None),
    "repeat": lambda data: with_point(data, repeat="a"),
    "position": lambda data: with_point(data, position=2**40),
    "twice": lambda data: {**data, "points": [*data["points"], data["points"][0]]},
    "deep": None,
}


def with_point(data: dict[str, Any], **changes: Any) -> dict[str, Any]:
    first, *others = data["points"]
    return {**data, "points": [{**first, **changes}, *others]}


def damage(file: Path, how: str) -> None:
    change = DAMAGE[how]
    file.write_text(DEEP if change is None else json.dumps(change(json.loads(file.read_text()))))


@pytest.fixture
def home(lab_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    (lab_home / "runs").mkdir(exist_ok=True)
    return lab_home


@pytest.fixture
def pages() -> Iterator[None]:
    yield
    lab().close()
    st.cache_resource.clear()
    st.cache_data.clear()


def test_store_commands_work_beside_a_damaged_plan(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, how in enumerate(DAMAGE):
        with ExperimentLog.create(home / "runs", sweep_plan(experiment_id=f"bad{number}")) as log:
            pass
        damage(log.folder / "experiment.json", how)
    with ExperimentLog.create(home / "runs", sweep_plan(experiment_id="good")) as log:
        run_point(log, log.plan.points[0])
    assert store_main(["list"]) == 0
    assert store_main(["ingest", str(home / "runs")]) == 1
    output = capsys.readouterr()
    assert "good  sweep" in output.out
    for number in range(len(DAMAGE)):
        assert any(f"bad{number}: " in line for line in output.out.splitlines()), number
    assert "Traceback" not in output.err
    with Store(home) as store:
        recorder = Recorder(store, home / "runs")
        recorder.look()
        assert {folder.name for folder in recorder.problems} == {f"bad{number}" for number in range(len(DAMAGE))}
        assert all("\n" not in line for line in recorder.problems.values())


@pytest.mark.parametrize("how", ["bad values", "deep"])
def test_a_bundle_with_a_damaged_plan_is_refused_in_one_line(how: str, home: Path, tmp_path: Path) -> None:
    with Store(home) as store:
        with ExperimentLog.create(home / "runs", sweep_plan()) as log:
            run_point(log, log.plan.points[0])
        Recorder(store, home / "runs").look()
        export_runs(store, store.runs.list()["run_id"].tolist(), tmp_path / "good.zip")
    file = log.folder / "experiment.json"
    before = sha256(file.read_bytes()).hexdigest()
    damage(file, how)
    after = sha256(file.read_bytes()).hexdigest()
    with zipfile.ZipFile(tmp_path / "good.zip") as good, zipfile.ZipFile(tmp_path / "bad.zip", "w") as bad:
        for name in good.namelist():
            data = file.read_bytes() if name.endswith("/experiment.json") else good.read(name)
            bad.writestr(name, data.replace(before.encode(), after.encode()))
    with Store(tmp_path / "other") as other, pytest.raises(ValueError, match=r"^[^\n]*experiment[^\n]*$"):
        import_runs(other, tmp_path / "bad.zip")


@pytest.mark.parametrize("how", DAMAGE)
def test_resume_refuses_a_damaged_plan_before_it_runs(how: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ExperimentLog.create(home / "runs", a_sweep()) as log:
        pass
    damage(log.folder / "experiment.json", how)
    refused(log.folder, "experiment.json", capsys)


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"started": {**POINT, "run_id": None}}),
        json.dumps({"started": {**POINT, "key": ["a"], "run_id": "run1"}}),
        json.dumps({"started": {**POINT, "key": "b", "run_id": "run1"}}),  # a point that the plan lacks
        json.dumps({**ENDED, "key": None}),
        json.dumps({**ENDED, "repeat": 7}),
        json.dumps({**ENDED, "status": "splendid"}),
        json.dumps({**ENDED, "status": "running"}),
        json.dumps({**ENDED, "run_id": "../../x"}),
        json.dumps({**ENDED, "repeat": "a"}),
        json.dumps({**ENDED, "run_id": ["a"]}),
        json.dumps({**ENDED, "oom": {"asked_bytes": "many"}}),
        *(json.dumps({**ENDED, "totals": {"ttft_p50_s": total}}) for total in BAD_TOTALS),
        json.dumps({**ENDED, "totals": [0.5]}),
        json.dumps({"added": {"key": "b", "position": 9, "repeat": 0, "values": {}, "config": {}}}),
        "7",
        DEEP,
    ],
)
def test_resume_refuses_damaged_points_before_it_runs(
    line: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExperimentLog.create(home / "runs", a_sweep()) as log:
        pass
    (log.folder / "points.jsonl").write_text(f"{line}\n")
    refused(log.folder, "points.jsonl", capsys)


def test_a_record_needs_a_point_in_the_plan_or_an_added_one(home: Path) -> None:
    with ExperimentLog.create(home / "runs", a_sweep()) as log:
        log.append(PointRecord.from_dict(ENDED))
        more = replace(log.plan.points[0], key="more", position=9)
        log.add([more])
        log.append(PointRecord.from_dict({**ENDED, "key": "more"}))
    assert [record.key for record in ExperimentLog.read(log.folder).records] == [POINT["key"], "more"]


def test_resume_refuses_a_copy_under_another_name(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ExperimentLog.create(home / "runs", a_sweep()) as log:
        pass
    copy = log.folder.rename(log.folder.with_name("copy"))
    refused(copy, "experiment.json", capsys)


def test_an_unwritable_cache_is_reported_before_the_experiment_is_created(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAB_CACHE", "/dev/null/c")
    assert main(["sweep", "--model", "tiny-random", "--prompts", "p16", "--batch-size", "1"]) == 2
    output = capsys.readouterr().err
    assert output == (
        "python -m engine sweep: /dev/null/c/locks: Not a directory; set LAB_CACHE to a writable folder\n"
    )
    assert list((home / "runs").iterdir()) == []


def test_two_concurrent_resumes_report_each_other(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ExperimentLog.create(home / "runs", a_sweep()) as log:
        assert main(["sweep", "--resume", log.folder.name]) == 2
    output = capsys.readouterr().err
    assert "is in use" in output
    assert "LAB_HOME" not in output
    assert output.count("\n") == 1


def test_an_invalid_model_name_is_one_short_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("x" * 3000, "~no-such-user/model"):
        assert main(["run", "--model", name]) == 2
        output = capsys.readouterr().err.splitlines()
        assert "no such name or folder" in output[-1]
        assert "x" * 81 not in output[-1]


def refused(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(path.name for path in folder.parent.iterdir())
    assert main(["sweep", "--resume", folder.name]) == 2
    output = capsys.readouterr().err
    assert output.startswith(f"python -m engine sweep: {folder}: {name}")
    assert output.count("\n") == 1
    assert len(output) < 400
    assert sorted(path.name for path in folder.parent.iterdir()) == before


@pytest.mark.parametrize(("page", "kind"), [("sweep", "sweep"), ("load", "load")])
def test_a_damaged_plan_in_the_store_is_a_message_on_the_page(page: str, kind: str, home: Path, pages: None) -> None:
    plan = sweep_plan()
    with ExperimentLog.create(home / "runs", plan) as log:
        pass
    store = lab().store
    store.ingest.experiment(log.folder)
    settings = {"batch_sizes": "x", "prompts": [1], "engines": 7, "repeats": None}
    damaged = json.dumps({**plan.to_dict(), "kind": kind, "settings": settings})
    (log.folder / "experiment.json").write_text(DEEP)  # the recorder cannot repair the store's row …
    wait_for(lambda: log.folder in lab().recorder.problems, 30)  # … and does not check the folder again
    store.cursor().execute("UPDATE experiments SET plan = ?, kind = ?", [damaged, kind])
    app = open_page(page, experiment="sweep1")
    assert not app.exception
    assert "The plan of this experiment is damaged" in words(app)


def test_damaged_totals_in_the_store_are_missing_values(home: Path, pages: None) -> None:
    plan = sweep_plan()
    with ExperimentLog.create(home / "runs", plan) as log:
        for point in plan.points:
            log.append(PointRecord(key=point.key, repeat=0, run_id=None, status="completed", totals={"tpot_p50_s": 1}))
    store = lab().store
    store.ingest.experiment(log.folder)
    (log.folder / "points.jsonl").write_text(DEEP + "\n")
    wait_for(lambda: log.folder in lab().recorder.problems, 30)
    store.cursor().execute("UPDATE experiment_points SET totals = ?", [json.dumps({"tpot_p50_s": ["a"]})])
    assert store.experiments.points("sweep1")["tpot_p50_s"].isna().all()
    assert not open_page("sweep", experiment="sweep1").exception


def test_a_result_that_no_record_can_hold_is_named_in_one_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ExperimentLog.create(home / "runs", a_sweep()) as log:
        log.start(log.plan.points[0], "run1")
    (home / "runs/run1").mkdir()
    (home / "runs/run1/result.json").write_text(json.dumps({"status": "completed", "totals": {"ttft_p50_s": "fast"}}))
    assert main(["sweep", "--resume", log.folder.name]) == 2
    output = capsys.readouterr().err
    assert output.startswith(f"python -m engine sweep: {home / 'runs/run1'}: result.json cannot be read: record: ")
    assert output.count("\n") == 1
    assert "fast" not in (log.folder / "points.jsonl").read_text()


def test_a_copied_folder_is_named_as_a_copy(home: Path, pages: None) -> None:
    with ExperimentLog.create(home / "runs", sweep_plan()) as log:
        pass
    log.folder.rename(log.folder.with_name("copy"))
    lab().store.ingest.all_in(home / "runs")
    assert "The folder copy is a copy of experiment sweep1" in words(open_page("sweep", experiment="copy"))
