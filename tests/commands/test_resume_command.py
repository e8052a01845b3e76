"""`--resume` of every experiment command: repeats resume, options of the plan are rejected, damage is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.cli import main
from engine.experiments.experiment import ExperimentKind
from engine.runlog.experiment_log import ExperimentLog
from tests.support.runs.experiments import plan_of
from tests.support.runs.sweeps import a_sweep, good_records


@pytest.fixture
def home(lab_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A LAB_HOME, and a LAB_CACHE with its own device lock."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    return lab_home


def test_repeats_of_a_run_write_the_same_files_and_go_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--model", "tiny-random", "--budget", "2", "--repeats", "3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    folder = next((home / "runs").glob("*/experiment.json")).parent
    logged = ExperimentLog.read(folder)
    assert (logged.plan.kind, [r.status for r in logged.records]) == ("repeats", ["completed"] * 3)
    assert [r.run_id for r in logged.records] == [r["run_id"] for r in report["runs"]]
    assert [(p.key, p.repeat) for p in logged.plan.points] == [("continuous", repeat) for repeat in range(3)]
    lines = (folder / "points.jsonl").read_text().splitlines(keepends=True)
    (folder / "points.jsonl").write_text("".join(lines[:3]))  # killed in the second run, which had come to its end
    assert main(["run", "--resume", folder.name, "--json"]) == 0
    message = capsys.readouterr()
    again = json.loads(message.out)
    assert "1 of 3 points left" in message.err
    assert [r["run_id"] for r in again["runs"]][:2] == [r["run_id"] for r in report["runs"]][:2]
    assert (again["status"], len(again["runs"])) == ("completed", 3)
    assert again["runs"][2]["run_id"] not in {r["run_id"] for r in report["runs"]}
    assert set(good_records(folder).values()) == {1}


@pytest.mark.parametrize(
    ("asked", "kind", "way_on"),
    [
        ("sweep", "repeats", "engine run --resume exp1"),
        ("run", "load", "engine arrivals --resume exp1"),
        ("arrivals", "overhead", "engine overhead --resume exp1"),
        ("overhead", "sweep", "engine sweep --resume exp1"),
    ],
)
def test_an_experiment_of_another_kind_is_rejected_with_the_right_command(
    asked: str, kind: ExperimentKind, way_on: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExperimentLog.create(home / "runs", plan_of(kind, (), "exp1")):
        pass
    assert main([asked, "--resume", "exp1"]) == 2
    message = capsys.readouterr().err
    assert message == (f"python -m engine {asked}: resume 'exp1': it is a {kind} experiment; resume it with {way_on}\n")


@pytest.mark.parametrize(
    ("command", "options", "named"),
    [
        ("sweep", ("--engine", "serial", "--repeats", "3"), "--engine, --repeats"),
        ("sweep", ("--seed", "0", "--timing", "sync"), "--seed, --timing"),  # their defaults: asked for all the same
        ("sweep", ("--model", "x", "--mix", "p16:1", "--return", "whole"), "--model, --mix, --return"),
        ("arrivals", ("--no-confirm", "--slots", "2"), "--no-confirm, --slots"),
        ("run", ("--repeats", "2", "--warmups=0"), "--repeats, --warmups"),
        ("overhead", ("--configs", "p16:2", "--temperature", "1"), "--configs, --temperature"),
    ],
)
def test_resume_rejects_options_of_the_plan(
    command: str, options: tuple[str, ...], named: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--resume", "exp1", *options, "--out", str(home), "--json"]) == 2
    message = capsys.readouterr().err
    assert message == (f"python -m engine {command}: resume 'exp1': its plan is fixed; leave out {named}\n")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("experiment.json", '{"experiment_id": "exp1" "kind"', "Expecting ',' delimiter"),
        ("points.jsonl", '{"started": {"x": 1}}\n', "an attempt needs a key, a repeat and a run_id"),
    ],
)
def test_a_damaged_experiment_is_one_line_that_names_its_folder(
    name: str, content: str, message: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExperimentLog.create(home / "runs", a_sweep()) as log:
        pass
    (log.folder / name).write_text(content)
    assert main(["sweep", "--resume", log.folder.name]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"python -m engine sweep: {log.folder}: {name}")
    assert message in line
    assert line.count("\n") == 1
