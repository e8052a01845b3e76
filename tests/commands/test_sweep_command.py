"""`engine sweep` with the tiny model: every point a record, memory's end in the middle, kill -9, Ctrl-C, resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.cli import main
from engine.commands.experiments import point_line
from engine.commands.sweep_report import COLUMNS, sweep_text
from engine.core.errors import EngineOutOfMemory
from engine.core.format import percent
from engine.experiments.sweep_table import sweep_rows
from engine.runlog.reader import RunLogReader
from engine.runtime import run as runtime_run
from engine.runtime.kv.kv_cache import KVCache, KVShape
from engine.runtime.model_runner import PaddedRunner
from tests.support.runs.sweeps import good_records, statuses

TINY = ("sweep", "--model", "tiny-random", "--device", "cpu", "--prompts", "p16", "--budget", "4")
POSITION_BYTES = 2 * 2 * 2 * 16 * 4  # keys and values, 2 layers, 2 KV heads, 16 wide, fp32


@pytest.fixture
def home(lab_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A LAB_HOME, and a LAB_CACHE with its own device lock."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    return lab_home


def sweep(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[dict[str, Any], str]:
    """The report of a sweep in this process, and what it wrote to stderr."""
    assert main([*arguments, "--json"]) == code
    message = capsys.readouterr()
    report: dict[str, Any] = json.loads(message.out)
    return report, message.err


def test_memory_ends_in_the_middle_and_the_smaller_point_after_it_runs(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pool of 4 rows x 20 columns: 8 rows need twice that and are recorded as oom, and 2 rows run after them."""
    pool = 4 * 20 * POSITION_BYTES
    report, messages = sweep(capsys, *TINY, "--batch-size", "4,8,2", "--pool-gib", repr(pool / 2**30))
    assert report["status"] == "completed"
    four, eight, two = report["points"]
    assert [(row["batch_size"], row["status"]) for row in report["points"]] == [
        (4, "completed"), (8, "oom"), (2, "completed"),
    ]  # fmt: skip
    assert (eight["asked_bytes"], eight["free_bytes"], eight["oom_where"]) == (2 * pool, pool, "KV pool")
    assert (eight["tpot_s"], eight["decode_tokens_per_s"], eight["speedup"]) == (None, None, None)
    assert four["decode_tokens_per_s"] == pytest.approx(4 / four["tpot_s"])
    assert len(four["run_ids"]) == len(eight["run_ids"]) == 1
    folder = home / "runs" / report["experiment_id"]
    assert statuses(folder) == [
        ("static/p16/b4", "completed"), ("static/p16/b8", "oom"), ("static/p16/b2", "completed"),
    ]  # fmt: skip
    lines = [line for line in messages.splitlines() if line.startswith("[")]
    assert len(lines) == 3
    assert lines[1].startswith("[2/3] static/p16/b8: oom, out of memory: KV pool asked for")
    assert RunLogReader(home / "runs" / two["run_ids"][0]).run_info()["experiment"] == {
        "id": report["experiment_id"], "kind": "sweep", "label": "static, p16", "key": "static/p16/b2", "repeat": 0,
    }  # fmt: skip


def test_memory_grows_by_the_keys_and_values(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each row holds 16 + 4 positions at any batch size: a run holds exactly B times that."""
    report, _ = sweep(capsys, *TINY, "--batch-size", "1,2,8")
    for row in report["points"]:
        memory = RunLogReader(home / "runs" / row["run_ids"][0]).table("memory")
        held = max(memory["kv_bytes"].to_pylist())
        assert held == row["batch_size"] * 20 * POSITION_BYTES


def test_a_pool_of_2_gib_holds_128_rows_of_512_positions_and_not_256() -> None:
    """Prompts of 256 and 256 output tokens, 28 KiB per position: 1.75 GiB fit, 3.5 GiB do not."""
    shape = KVShape(layers=28, kv_heads=2, head_dim=128, dtype=torch.float16, device=torch.device("meta"))
    assert KVCache(shape, 128, 512, pool_bytes=2 * 2**30).num_bytes == int(1.75 * 2**30)
    with pytest.raises(EngineOutOfMemory, match=r"KV pool asked for 3\.50 GiB \(256 rows x 512 columns\), 2\.00 GiB"):
        KVCache(shape, 256, 512, pool_bytes=2 * 2**30)


def test_a_cap_of_everything_is_a_row_that_says_which_term(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, _ = sweep(capsys, *TINY, "--batch-size", "64", "--capacity-gib", "0.0005")
    row = report["points"][0]
    assert (report["status"], row["status"]) == ("oom", "oom")
    assert "by estimate" in row["oom_where"]
    assert row["asked_bytes"] > row["free_bytes"] >= 0


def test_an_allocation_that_fails_in_the_warm_up_says_in_which_pass(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU's warm-up runs the whole batch, and fails at the same allocation as the run would."""

    def prefill(runner: PaddedRunner, planned: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.38 GiB. GPU 0 has a total capacity of")

    monkeypatch.setattr(PaddedRunner, "_prefill", prefill)
    report, _ = sweep(capsys, *TINY, "--batch-size", "2")
    row = report["points"][0]
    assert (row["status"], row["oom_where"]) == ("oom", "prefill pass in the warm-up")
    assert row["asked_bytes"] == round(4.38 * 2**30)
    assert "(1 rows x 16 columns)" in row["error"]


@pytest.mark.parametrize(
    ("engine", "shape", "positions"),
    [("continuous", "2 rows x 20 columns", 40), ("paged", "5 blocks x 16 positions", 80)],
)
def test_a_kv_pool_that_the_device_refuses_is_named_with_its_shape(
    engine: str, shape: str, positions: int, home: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Keys fit and values do not: the error names both together, and neither stays allocated."""
    zeros, held = torch.zeros, []

    def refuse(*size: Any, **named: Any) -> torch.Tensor:
        is_kv = isinstance(size[0], tuple) and len(size[0]) > 3
        if is_kv and held:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity")
        made = zeros(*size, **named)
        if is_kv:
            held.append(weakref.ref(made))
        return made

    monkeypatch.setattr(torch, "zeros", refuse)
    report, _ = sweep(capsys, *TINY, "--engine", engine, "--batch-size", "2")
    row = report["points"][0]
    assert (row["status"], row["oom_where"], row["asked_bytes"]) == ("oom", "KV pool", positions * POSITION_BYTES)
    assert f"({shape})" in row["error"]
    assert row["free_bytes"] > 0
    assert [tensor() for tensor in held] == [None]


def test_repeats_ragged_batches_and_given_ceilings(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ragged = (*TINY[:5], "--mix", "p16,p64", "--budget", "2-6", "--batch-size", "4", "--repeats", "2")
    report, _ = sweep(capsys, *ragged, "--flop-per-s", "1e12", "--bytes-per-s", "1e10")
    mixed, control = report["points"]
    assert (mixed["role"], control["role"], mixed["repeats"], mixed["completed"]) == ("ragged", "control", 2, 2)
    assert mixed["of_control"] == pytest.approx(mixed["output_tokens_per_s"] / control["output_tokens_per_s"])
    assert mixed["kv_unused_fraction"] > control["kv_unused_fraction"]
    assert (control["prompts"], len(control["run_ids"])) == ("p64", 2)
    assert 0 < control["compute_fraction"] < control["bandwidth_fraction"]
    assert report["ceilings"] == "given"
    assert main(["sweep", "--resume", report["experiment_id"]]) == 0
    text = capsys.readouterr().out
    assert "static, p16,p64, ragged" in text
    assert f"B = 4: {percent(mixed['of_control'])} of its control's throughput" in text
    assert "1.00\u00a0TFLOP/s and 10.0\u00a0GB/s (given)" in text


def test_a_point_that_fails_is_a_record_and_the_next_one_runs(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    execute_run = runtime_run.execute_run

    def fail_with_two_rows(prepared: Any, *arguments: Any, **named: Any) -> dict[str, Any]:
        if prepared.config.slots == 2:
            raise RuntimeError("the device caught fire\nand more")
        return execute_run(prepared, *arguments, **named)

    monkeypatch.setattr(runtime_run, "execute_run", fail_with_two_rows)
    report, messages = sweep(capsys, *TINY, "--batch-size", "2,1", code=1)
    failed, good = report["points"]
    assert (report["status"], failed["status"], good["status"]) == ("failed", "failed", "completed")
    assert (failed["error"], failed["run_ids"]) == ("the device caught fire", [])
    assert "[1/2] static/p16/b2: failed, the device caught fire" in messages


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--batch-size", "0"), "batch size '0': use rows from 1 to 4,096, for example 1,2,4,8"),
        (("--flop-per-s", "1e12"), "set both, or neither"),
        (("--resume", "nowhere"), "its plan is fixed; leave out --model, --device, --prompts, --budget"),
        (("--model", "no-such-model"), "no-such-model"),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[str, ...], complaint: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TINY, *arguments]) == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]
    assert not list((home / "runs").glob("*/experiment.json"))


def test_resume_names_a_missing_experiment(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--resume", "nowhere"]) == 2
    assert "no experiment in" in capsys.readouterr().err
    assert main(["run", "--model", "tiny-random", "--budget", "2", "--repeats", "2", "--json"]) == 0
    repeats = next((home / "runs").glob("*/experiment.json")).parent
    assert main(["sweep", "--resume", repeats.name]) == 2
    assert "it is a repeats experiment" in capsys.readouterr().err


def started_sweep(home: Path, *arguments: str) -> subprocess.Popen[str]:
    """A sweep in its own process, during its second point."""
    command = [sys.executable, "-m", "engine", *TINY, "--budget", "1200", "--batch-size", "1,2,3", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "LAB_HOME": str(home)}
    )
    deadline_s = time.monotonic() + 120
    while len(list((home / "runs").glob("*/passes.arrows"))) < 2:
        assert time.monotonic() < deadline_s
        assert process.poll() is None
        time.sleep(0.02)
    return process


def experiment_in(home: Path) -> Path:
    return next((home / "runs").glob("*/experiment.json")).parent


def shortened(folder: Path) -> None:
    """Let what is left of a sweep generate 4 tokens instead of 1,200: the test is about which points run."""
    path = folder / "experiment.json"
    path.write_text(path.read_text().replace('"budget": "1200"', '"budget": "4"'))


def test_kill_9_loses_no_point_and_doubles_none(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = started_sweep(home)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    folder = experiment_in(home)
    assert statuses(folder) == [("static/p16/b1", "completed")]
    before = good_records(folder)
    shortened(folder)
    report, messages = sweep(capsys, "sweep", "--resume", folder.name)
    assert report["status"] == "completed"
    assert "2 of 3 points left" in messages
    assert statuses(folder) == [
        ("static/p16/b1", "completed"), ("static/p16/b2", "crashed"), ("static/p16/b2", "completed"),
        ("static/p16/b3", "completed"),
    ]  # fmt: skip
    assert good_records(folder) == {**before, ("static/p16/b2", 0): 1, ("static/p16/b3", 0): 1}
    assert all(len(row["run_ids"]) == 1 for row in report["points"])


def test_ctrl_c_ends_the_current_point_and_prints_how_to_resume(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = started_sweep(home)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=300)
    assert process.returncode == 1
    folder = experiment_in(home)
    assert f"stopped with 2 of 3 points left; to resume: python -m engine sweep --resume {folder.name}" in messages
    assert statuses(folder) == [("static/p16/b1", "completed"), ("static/p16/b2", "stopped")]
    shortened(folder)
    report, _ = sweep(capsys, "sweep", "--resume", folder.name)
    assert report["status"] == "completed"
    assert set(good_records(folder).values()) == {1}
    assert len(good_records(folder)) == 3


def test_the_table_says_that_one_row_was_disturbed_and_the_machine_busy() -> None:
    point = {"engine": "static", "prompts": "p16", "prompt_tokens": 16, "role": "point", "repeat": 0}
    done = {"status": "completed", "duration_s": 1.0, "ttft_p50_s": 0.1}
    two = [{**point, **done, "batch_size": size, "tpot_p50_s": tpot_s} for size, tpot_s in ((1, 0.012), (4, 0.010))]
    rows = [row.to_dict() for row in sweep_rows(two)]
    report = {"experiment_id": "x", "status": "completed", "model": None, "points": rows, "busy": "It was busy."}
    text = sweep_text(report)
    header, one, four = (line.split() for line in text.splitlines()[3:6])
    assert header == [word for name, *_ in COLUMNS for word in name.split()]
    assert (one[:3], four[:3]) == (["1", "0.100", "12.0"], ["4", "0.100", "10.0"])
    assert "B = 4 decodes 120\u00a0% of 4 times the rate at B = 1, so B = 1 was probably disturbed." in text
    assert text.endswith("It was busy.")
    rows[1]["linear_tokens_per_s"] = 400.0
    assert "disturbed" not in sweep_text(report)


def test_a_busy_machine_is_reported(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (400.0, 1.0, 1.0))
    assert main([*TINY, "--batch-size", "2"]) == 0
    assert "The machine was busy when 1 of 1 runs began (load up to 400 on" in capsys.readouterr().out


def test_the_progress_line_prints_rates_without_a_power_of_ten() -> None:
    log: Any = SimpleNamespace(plan=SimpleNamespace(points=()), records=())
    point: Any = SimpleNamespace(key="static/p16/b4", repeat=0)
    record: Any = SimpleNamespace(status="completed", error=None, totals={"output_tokens_per_s": 1236.4})
    assert point_line(log, point, record) == "[0/0] static/p16/b4: completed, 1,240\u00a0tokens/s"
