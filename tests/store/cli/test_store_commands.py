"""`python -m store`: with the store free, while an app has it open, and with bad input."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.core.config import WorkloadConfig
from store import Recorder, Store
from store.cli.main import SHOWN
from store.cli.owner import ask_owner
from store.cli.transfer import shown_export
from tests.store.test_store_database import HOLDS
from tests.support.app_server import ROOT
from tests.support.no_break import nb
from tests.support.runs.sample_runs import without_checksums, write_sample_run


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def run_store(home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "store", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"LAB_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def answer(home: Path, *arguments: str | Path, exit_status: int = 0) -> Any:
    ran = run_store(home, *arguments, "--json")
    assert ran.returncode == exit_status, ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture
def owner(home: Path) -> Iterator[Recorder]:
    """The store with its recorder, as in the app, in this process."""
    with Store(home) as store:
        recorder = Recorder(store, store.runs_folder)
        recorder.start()
        yield recorder
        recorder.stop()


def test_ingest_then_list_then_verify(home: Path, tmp_path: Path) -> None:
    folders = [write_sample_run(tmp_path / "made", engine) for engine in ("static", "continuous")]
    reply = answer(home, "ingest", tmp_path / "made")
    assert {run["run_id"] for run in reply["runs"]} == {folder.name for folder in folders}
    assert all(run["is_new"] and run["rows"]["tokens"] > 0 for run in reply["runs"])
    assert reply["problems"] == []
    again = answer(home, "ingest", *folders)
    assert not any(run["has_changed"] for run in again["runs"])
    runs = answer(home, "list")
    assert {run["run_id"] for run in runs} == {folder.name for folder in folders}
    for run in runs:
        totals = json.loads((tmp_path / "made" / run["run_id"] / "result.json").read_text())["totals"]
        assert run["status"] == "completed"
        assert (run["model"], run["engine"] in ("static", "continuous")) == ("tiny-random", True)
        assert run["output_tokens"] == totals["output_tokens"]
        assert run["duration_s"] == pytest.approx(totals["duration_s"])
    verified = {"ok": True, "agree": 2, "differ": 0, "unchecked": 0, "without_checksums": [], "runs": []}
    assert answer(home, "verify") == verified


def test_list_ingests_the_runs_of_the_home(home: Path) -> None:
    folder = write_sample_run(home / "runs")
    assert [run["run_id"] for run in answer(home, "list")] == [folder.name]
    shown = run_store(home, "list").stdout.splitlines()
    assert shown[0].split()[:4] == ["run_id", "created_at", "status", "engine"]
    assert shown[1].split()[0] == folder.name


def test_a_simulated_run_is_marked_in_the_list() -> None:
    run = dict.fromkeys(
        ("run_id", "created_at", "status", "engine", "model", "slots", "requests", "output_tokens"), "x"
    )
    shown = SHOWN["list"]([{**run, "simulated": True}, {**run, "simulated": False}, {**run, "simulated": None}])
    assert [line.endswith("  simulated") for line in shown] == [False, True, False, False]


def test_an_empty_store_is_listed(home: Path) -> None:
    assert answer(home, "list") == []
    assert run_store(home, "list").stdout == "No runs yet.\n"


def test_the_owner_answers_while_it_has_the_store(home: Path, tmp_path: Path, owner: Recorder) -> None:
    folder = write_sample_run(tmp_path / "elsewhere")
    version = owner.version
    assert answer(home, "ingest", folder)["runs"][0]["is_new"] is True
    assert owner.version > version
    assert owner.store.runs.get(folder.name)["status"] == "completed"
    assert [run["run_id"] for run in answer(home, "list")] == [folder.name]
    assert answer(home, "verify")["agree"] == 1


def test_bad_input_is_the_same_line_from_the_owner(home: Path, tmp_path: Path, owner: Recorder) -> None:
    ran = run_store(home, "ingest", tmp_path / "nowhere")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"store: {tmp_path / 'nowhere'}: no such folder\n"


def test_an_owner_that_does_not_answer_is_named(home: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(home)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        ran = run_store(home, "list")
        process.kill()
    assert ran.returncode == 1
    assert f"held by process {process.pid}" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_the_socket_of_a_dead_owner_is_replaced(home: Path) -> None:
    home.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(home / "store.sock"))
    assert answer(home, "list") == []
    with Store(home) as store:
        recorder = Recorder(store, store.runs_folder)
        recorder.start()
        assert ask_owner(home, {"command": "list"}) == []
        recorder.stop()
        recorder.stop()
    assert not (home / "store.sock").exists()


def test_the_socket_is_private_and_works_in_a_deep_folder(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    with Store(deep) as store:
        recorder = Recorder(store, store.runs_folder)
        recorder.start()
        assert (deep / "store.sock").stat().st_mode & 0o777 == 0o600
        assert answer(deep, "list") == []
        recorder.stop()


@pytest.mark.parametrize(
    "request_line", [b"\n", b"[]\n", b"{}\n", b'{"command": "drop"}\n', b'{"command": "ingest"}\n', b"\xff\xfe\n"]
)
def test_the_socket_answers_invalid_requests_with_one_line(home: Path, owner: Recorder, request_line: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(home / "store.sock"))
        connection.sendall(request_line)
        reply = json.loads(connection.makefile().readline())
    assert list(reply) == ["error"]
    assert ask_owner(home, {"command": "list"}) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "COMMAND"),
        (("ask",), "invalid choice"),
        (("ingest",), "PATH"),
        (("list", "--limit"), "unrecognized arguments"),
    ],
)
def test_bad_input_is_one_line(home: Path, arguments: tuple[str, ...], message: str) -> None:
    ran = run_store(home, *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_path_without_runs_is_bad_input(home: Path, tmp_path: Path) -> None:
    (tmp_path / "holiday").mkdir()
    ran = run_store(home, "ingest", tmp_path / "holiday")
    assert ran.returncode == 2
    assert "no run.json in this folder or in the folders inside it" in ran.stderr


def test_a_bad_folder_among_good_ones_is_a_line_and_exit_1(home: Path, tmp_path: Path) -> None:
    good = write_sample_run(tmp_path / "made")
    (tmp_path / "made/bad").mkdir()
    (tmp_path / "made/bad/run.json").write_text("{}")
    ran = run_store(home, "ingest", tmp_path / "made")
    assert ran.returncode == 1
    assert f"{good.name}  completed, new, " in ran.stdout
    assert "not ingested: " in ran.stdout
    assert "Traceback" not in ran.stderr


TAMPERED = {
    "a token is missing": (
        "DELETE FROM tokens WHERE request_id = 2 AND token_index = 1",
        "tokens: 212 rows in the run log, 211",
    ),
    "a token is another": (
        "UPDATE tokens SET token_id = token_id + 1 WHERE request_id = 2 AND token_index = 1",
        "tokens:",
    ),
    "a token is there twice": ("INSERT INTO tokens FROM tokens LIMIT 1", "tokens: 212 rows in the run log, 213"),
    "a pass is longer": ("UPDATE passes SET end_s = end_s + 1e-9 WHERE pass_index = 3", "passes:"),
    "another output": ("UPDATE requests SET output_text = 'no' WHERE request_id = 0", "requests:"),
    "a span is missing": ("DELETE FROM spans WHERE span_id = 1", "spans:"),
    "a metric is another": ("UPDATE run_summaries SET dead_fraction = 0.5", "dead_fraction: 0"),
    "the status is another": ("UPDATE runs SET status = 'stopped'", "status: completed in the run log, stopped"),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_verify_finds_changed_rows(home: Path, case: str) -> None:
    sql, message = TAMPERED[case]
    workload = WorkloadConfig(prompts="p5", requests=4, budget="53")
    folder = write_sample_run(home / "runs", "continuous", workload=workload)
    with Store(home) as store:
        store.ingest.run(folder)
        assert store.ingest.verify(folder.name).outcome == "agrees"
        store.cursor().execute(sql).fetchall()
        verdict = store.ingest.verify(folder.name)
    assert verdict.outcome == "differs"
    assert any(message in line for line in verdict.lines), verdict.lines


def test_verify_exits_1_if_a_run_differs(home: Path) -> None:
    folder = write_sample_run(home / "runs", "continuous")
    with Store(home) as store:
        store.ingest.run(folder)
        store.cursor().execute("DELETE FROM tokens WHERE token_index = 0").fetchall()
    reply = answer(home, "verify", exit_status=1)
    assert (reply["ok"], reply["differ"], reply["runs"][0]["run_id"]) == (False, 1, folder.name)


def test_verify_finds_a_truncated_or_damaged_log(home: Path) -> None:
    with Store(home) as store:
        folders = [without_checksums(write_sample_run(home / "runs")) for _ in range(3)]
        store.ingest.all_in(home / "runs")
        tokens = [folder / "tokens.arrows" for folder in folders]
        tokens[0].write_bytes(tokens[0].read_bytes()[:-300])
        tokens[1].write_bytes(tokens[1].read_bytes()[:-8] + b"rubbish.")
        (folders[2] / "result.json").unlink()
        lines = [store.ingest.verify(folder.name).lines for folder in folders]
    assert any(line.startswith("tokens: ") for line in lines[0])
    assert any("damaged after byte" in line for line in lines[1])
    assert any(line.startswith("status: crashed in the run log, completed") for line in lines[2])


def test_a_total_that_is_no_number_differs(home: Path) -> None:
    folder = write_sample_run(home / "runs", "continuous")
    result = json.loads((folder / "result.json").read_text())
    result["totals"]["prefill_s"] = "soon"
    (folder / "result.json").write_text(json.dumps(result))
    reply = answer(home, "verify", exit_status=1)
    assert reply["runs"][0]["lines"][0].endswith(
        "result.json: refused: totals.prefill_s is 'soon'; it must be a number"
    )


def test_an_export_says_how_large_its_file_is() -> None:
    reply = {"file": "r1.zip", "bytes": 12_345, "runs": ["r1"]}
    assert shown_export(reply) == [nb("runs written: 1, 12.1 KiB, to r1.zip")]
