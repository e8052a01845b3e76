"""Measuring overhead: the two arms in turn, ratio and spread with hand-computed values, and the error on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.cli import main
from engine.commands.experiments import run_experiment
from engine.commands.overhead import overhead_text
from engine.core.config import RunConfig, WorkloadConfig
from engine.experiments.experiment import Plan, PointRecord, point_rows
from engine.experiments.overhead_plan import overhead_rows, parse_configs, plan_overhead
from engine.runlog.experiment_log import ExperimentLog


def a_plan(configs: str, repeats: int = 1, model: str = "tiny-random") -> Plan:
    base = RunConfig(engine="static", model=model, device="cpu", slots=1, workload=WorkloadConfig(budget="4"))
    return plan_overhead(base, experiment_id="over", created_at="now", configs=configs, repeats=repeats)


def row(timing: str, repeat: int, duration_s: float | None, **more: Any) -> dict[str, Any]:
    return {
        "config": "p256:8", "timing": timing, "repeat": repeat, "prompt_tokens": 256, "batch_size": 8,
        "status": "completed", "error": None, "duration_s": duration_s, **more,
    }  # fmt: skip


def test_the_arms_alternate() -> None:
    points = a_plan("p256:8,p16:2", repeats=2).points
    assert [point.key for point in points] == 2 * [
        "static/p256:8/sync", "static/p256:8/async", "static/p16:2/sync", "static/p16:2/async",
    ]  # fmt: skip
    assert [point.repeat for point in points] == [0] * 4 + [1] * 4
    for point in points:
        workload = point.config.workload
        assert point.config.timing == point.values["timing"]
        assert (point.config.slots, workload.requests) == (point.values["batch_size"], point.values["batch_size"])
        assert (workload.prompts, workload.budget) == (point.values["prompts"], "4")
    assert points[2].values == {
        "engine": "static", "prompts": "p16", "prompt_tokens": 16, "batch_size": 2, "config": "p16:2", "timing": "sync",
    }  # fmt: skip


def test_ratio_of_medians_and_its_range_over_neighbors() -> None:
    """Sync 1.05, 1.02, 1.20 s, async 1.00, 1.00, 1.25 s: medians 1.05 / 1.00; ratios of neighbors 0.96 to 1.05."""
    pairs = [(1.05, 1.00), (1.02, 1.00), (1.20, 1.25)]
    rows = [row(t, i, s) for i, pair in enumerate(pairs) for t, s in zip(("sync", "async"), pair, strict=True)]
    found = overhead_rows(rows)[0]
    assert (found.sync_s, found.async_s, found.repeats, found.status) == (1.05, 1.00, 3, "completed")
    assert found.ratio == pytest.approx(1.05)
    assert (found.ratio_low, found.ratio_high) == (pytest.approx(0.96), pytest.approx(1.05))
    assert found.sync_spread == pytest.approx(0.18 / 1.05)
    assert found.async_spread == pytest.approx(0.25)
    text = overhead_text({"experiment_id": "over", "status": "completed", "points": [found.to_dict()]})
    assert [line.split() for line in text.splitlines()[1:]] == [
        ["config", "sync,", "s", "async,", "s", "async", "vs", "sync", "range", "over", "repeats"],
        ["p256:8", "1.050", "1.000", "+5.00", "%", "-4.00", "%", "to", "+5.00", "%"],
    ]


def test_a_repeat_without_a_neighbor_has_no_ratio() -> None:
    rows = [row("sync", 0, 2.0), row("async", 0, None, status="oom", error="no memory")]
    found = overhead_rows(rows)[0]
    assert (found.sync_s, found.async_s, found.ratio, found.ratio_low) == (2.0, None, None, None)
    assert (found.status, found.error) == ("oom", "no memory")
    report = {"experiment_id": "over", "status": "oom", "points": [found.to_dict()]}
    assert overhead_text(report).splitlines()[-1].split() == ["p256:8", "oom:", "no", "memory"]


@pytest.mark.parametrize("text", ["p256", "256:8", "p0:8", "p256:0", "p256:8:2", "", "p256:8,p256:8", "p16:99999"])
def test_invalid_configs_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="slots|configs"):
        a_plan(text)
    assert parse_configs("p256:8, p16:512") == ((256, 8), (16, 512))


@pytest.mark.parametrize(
    "asked",
    [
        "--configs=", "--configs=p256", "--configs=p999999:8", "--configs=p256:99999", "--configs=p256:8,p256:8",
        "--configs=p256:8,", "--configs=p-1:8", "--configs=pnan:8", f"--configs={'x' * 5000}", "--repeats=0",
        "--repeats=-1", "--repeats=1001", "--repeats=nan", "--repeats=1e3", "--budget=", "--budget=0", "--budget=nan",
        "--budget=-5", "--budget=9999999999", "--engine=vllm", "--device=tpu", "--seed=-1", "--seed=nan",
        "--warmups=-1", "--pool-gib=nan", "--capacity-gib=inf", "--capacity-gib=-1", "--gpu-memory-utilization=nan",
        "--temperature=nan", "--top-p=nan", "--form=timeout:nan", "--block-size=3", "--return=whole --engine=paged",
        "--engine=chunked --max-num-batched-tokens=4", "--model=", "--prompts=p16", "--resume=nosuch --out=new/folder",
        "--resume=../x", "--resume=over --repeats=2", f"--repeats=1000 --configs={','.join(['p1:1', 'p2:1', 'p3:1'])}",
    ],
)  # fmt: skip
def test_bad_options_get_one_line_and_create_nothing(
    asked: str, lab_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(lab_home)
    try:
        code: object = main(["overhead", *asked.split()])
    except SystemExit as left:
        code = left.code
    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith("python -m engine")
    assert error.count("\n") == 1
    assert len(error) < 400
    assert "on a CPU" not in error
    assert list(lab_home.iterdir()) == []


def test_it_runs_as_an_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    plan = a_plan("p16:2", repeats=2)
    logged = run_experiment(plan, tmp_path, lambda: False, lambda message: None)
    found = overhead_rows(point_rows(logged.plan, logged.records))[0]
    assert (found.status, found.repeats) == ("completed", 2)
    assert found.ratio is not None
    assert found.ratio_low is not None
    assert found.ratio_high is not None
    assert 0 < found.ratio_low <= found.ratio_high


def test_a_cpu_is_refused(capsys: pytest.CaptureFixture[str], lab_home: Path) -> None:
    assert main(["overhead", "--device", "cpu", "--model", "tiny-random", "--configs", "p16:2"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "on a CPU, sync and async timing are the same" in said[0]
    assert not (lab_home / "runs").exists()


def test_resuming_on_a_cpu_is_refused_while_points_are_left(capsys: pytest.CaptureFixture[str], lab_home: Path) -> None:
    """`--resume` checks the plan's device; a finished experiment can be read anywhere."""
    plan = a_plan("p16:2")
    with ExperimentLog.create(lab_home / "runs", plan) as log:
        pass
    assert main(["overhead", "--resume", "over"]) == 2
    assert "on a CPU, sync and async timing are the same" in capsys.readouterr().err
    with ExperimentLog.open(log.folder) as log:
        for point in plan.points:
            took = {"duration_s": 1.0}
            log.append(PointRecord(key=point.key, repeat=0, run_id=None, status="completed", totals=took))
    assert main(["overhead", "--resume", "over"]) == 0
    assert "0\u00a0%" in capsys.readouterr().out
