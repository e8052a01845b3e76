"""The engine's command line in a real process: exit codes and one clear line per error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli import main
from engine.commands import calibrate, run
from engine.core.home import device_lock
from engine.runlog.locks import hold

pytestmark = pytest.mark.usefixtures("own_locks")  # a lab that is in use is not waited for

COUNTED = ["--model", "tiny-random", "--prompts", "p16", "--requests", "16", "--slots", "16", "--budget", "8x32+8x256"]


def engine(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "engine", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "LAB_HOME": str(home)},
    )


@pytest.mark.parametrize(
    ("name", "slot_steps", "dead_fraction"),
    [("static", 4096, 0.4375), ("continuous", 2304, 0.0), ("paged", 2304, 0.0), ("chunked", 2304, 0.0)],
)
def test_the_slowest_holds_the_batch(name: str, slot_steps: int, dead_fraction: float, tmp_path: Path) -> None:
    """8 x 32 + 8 x 256 = 2,304 useful of 16 x 256 = 4,096 slot-steps: 43.75 % of them dead; none in continuous."""
    done = engine("run", "--engine", name, *COUNTED, "--json", home=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["status"] == "completed"
    assert report["useful_slot_steps"] == report["output_tokens"] == 2304
    assert report["slot_steps"] == slot_steps
    assert report["dead_fraction"] == dead_fraction
    assert (tmp_path / "runs" / report["run_id"] / "result.json").exists()


def test_repeats_are_one_experiment_with_medians(tmp_path: Path) -> None:
    done = engine("run", "--model", "tiny-random", "--budget", "4", "--repeats", "3", "--json", home=tmp_path)
    report = json.loads(done.stdout)
    rates = sorted(r["output_tokens_per_s"] for r in report["runs"])
    assert report["output_tokens_per_s"] == rates[1]
    infos = [json.loads(p.read_text()) for p in (tmp_path / "runs").glob("*/run.json")]
    assert len(infos) == 3
    assert len({i["experiment"]["id"] for i in infos}) == 1


def test_a_run_without_memory_exits_with_1(tmp_path: Path) -> None:
    done = engine("run", "--model", "tiny-random", "--pool-gib", "0.000001", "--json", home=tmp_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "oom"


BAD = [
    ["--engine", "warp"],
    ["--model", "no-such-model"],
    ["--model", ""],
    ["--device", "tpu"],
    ["--dtype", "int3"],
    ["--execution", "fast"],
    ["--execution", "graph", "--device", "cpu"],
    ["--engine", "paged", "--block-size", "24"],
    ["--engine", "chunked", "--max-num-batched-tokens", "0"],
    ["--engine", "chunked", "--slots", "8", "--max-num-batched-tokens", "7"],
    ["--timing", "never"],
    ["--prompts", "16"],
    ["--prompts", "p0"],
    ["--prompts", ""],
    ["--mix", "p16:-1"],
    ["--mix", "p16:x"],
    ["--prompts", "p16", "--mix", "p16:1"],
    ["--prompt-file", "no/such/file.txt"],
    ["--prompt-file", "."],
    ["--prompt-file", "/dev/zero"],
    ["--prompts", "file"],
    ["--mix", "file"],
    ["--budget", ""],
    ["--arrival", ""],
    ["--out", ""],
    ["--out", __file__],
    ["--out", __file__, "--repeats", "2"],
    ["--requests", "-1"],
    ["--requests", "many"],
    ["--requests", "1000000000"],
    ["--budget", "0"],
    ["--budget", "9-3"],
    ["--budget", "3x4"],
    ["--budget", "eos:0"],
    ["--budget", "lots"],
    ["--slots", "0"],
    ["--max-num-seqs", "1.5"],
    ["--arrival", "poisson"],
    ["--arrival", "poisson:0"],
    ["--arrival", "gamma:1"],
    ["--arrival", "constant:nan"],
    ["--seed", "-1"],
    ["--temperature", "-1"],
    ["--temperature", "nan"],
    ["--top-k", "-2"],
    ["--top-p", "0"],
    ["--engine", "static", "--form", "timeout"],
    ["--engine", "static", "--form", "timeout:-1"],
    ["--form", "full"],
    ["--return", "whole"],
    ["--gpu-memory-utilization", "1.5"],
    ["--pool-gib", "0"],
    ["--capacity-gib", "nan"],
    ["--warmups", "-1"],
    ["--repeats", "0"],
    ["--out", "/dev/null/runs"],
    ["--color", "red"],
    ["--budget", "262144"],
]


@pytest.mark.parametrize("options", BAD, ids=" ".join)
def test_bad_input_gets_one_clear_line(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    arguments = ["run", *(["--model", "tiny-random"] if "--model" not in options else []), *options]
    try:
        code = main(arguments)
    except SystemExit as left:
        code = left.code
    message = capsys.readouterr()
    assert code == 2
    assert len(message.err.strip().splitlines()) == 1, message.err
    assert "Traceback" not in message.err
    assert message.out == ""


def test_a_run_that_is_stopped_before_it_began_is_not_done(tmp_path: Path) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "engine", "run", "--model", "tiny-random", "--budget", "4000", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LAB_HOME": str(tmp_path)},
    )
    assert started.stderr is not None
    started.stderr.readline()  # "creating random weights …": signal handlers are set, nothing has run yet
    started.send_signal(signal.SIGTERM)
    message, _ = started.communicate(timeout=300)
    assert started.returncode == 1
    assert json.loads(message)["status"] == "stopped"


def test_a_command_that_is_interrupted_says_so_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(calibrate, "measure", interrupt)
    assert main(["calibrate"]) == 130
    assert capsys.readouterr().err == "python -m engine calibrate: stopped\n"


def test_no_run_has_no_name_and_no_medians() -> None:
    assert run._table(run._report([], asked=1)) == "no run: stopped (stopped before the first run)"


def test_repeats_that_were_cut_short_are_reported_as_stopped() -> None:
    one = {"run_id": "a", "status": "completed", "error": None, "oom": None, "passes": 3}
    report = run._report([one, {**one, "run_id": "b", "passes": 5}], asked=5)
    assert (report["status"], report["error"], report["passes"]) == ("stopped", "stopped after 2 of 5 runs", 4)
    assert run._report([one, one], asked=2)["status"] == "completed"
    cut = "experiment exp1: 2 runs completed, medians; stopped (stopped after 2 of 5 runs)"
    assert run._table(report, "exp1").splitlines()[0] == cut
    for results, message in (
        ([one, one], "experiment exp1: 2 runs completed, medians"),
        ([one, {**one, "status": "failed", "error": "odd"}], "experiment exp1: 1 run completed; failed (odd)"),
    ):
        assert run._table(run._report(results, asked=2), "exp1").splitlines()[0] == message
    assert run._table(one).splitlines()[0] == "run a: completed"


@pytest.mark.parametrize("name", ["LAB_HOME", "LAB_CACHE"])
def test_folders_that_cannot_be_used_get_one_line(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "engine", "run", "--model", "tiny-random", "--budget", "2"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "LAB_HOME": str(tmp_path), name: "/dev/null/x"},
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "/dev/null/x" in done.stderr.strip().splitlines()[-1]


def test_parity_waits_for_the_device(tmp_path: Path) -> None:
    with hold(device_lock("cpu"), purpose="a test"):
        waiting = subprocess.Popen(
            [sys.executable, "-m", "engine", "parity", "--model", "tiny-random"],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "LAB_HOME": str(tmp_path)},
        )
        assert waiting.stderr is not None
        line = waiting.stderr.readline()
        waiting.kill()
        waiting.wait()
    assert line.startswith("waiting: the device is in use")


def test_every_command_explains_itself(tmp_path: Path) -> None:
    for command in ("run", "parity", "models", "calibrate"):
        done = engine(command, "--help", home=tmp_path)
        assert done.returncode == 0
        assert "--json" in done.stdout


def test_options_have_their_well_known_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    message = capsys.readouterr().out
    for option in ("--max-num-seqs", "--block-size", "--max-num-batched-tokens", "--gpu-memory-utilization"):
        assert option in message


def test_a_run_over_paged_kv_reports_what_it_cost(tmp_path: Path) -> None:
    """Requests of 16 + 16 tokens in blocks of 4, in a pool of 9 blocks: two are admitted, and one is preempted."""
    position_bytes = 2 * 2 * 2 * 16 * 4
    pool = ["--block-size", "4", "--pool-gib", repr(9 * 4 * position_bytes / 2**30)]
    options = ["--engine", "paged", "--prompts", "p16", "--requests", "3", "--budget", "16", *pool]
    done = engine("run", "--model", "tiny-random", *options, "--json", home=tmp_path)
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert report["output_tokens"] == 48
    assert report["preemptions"] > 0
    assert report["recomputed_tokens"] >= 16
    assert report["padding_positions"] == 0
