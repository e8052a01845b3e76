"""`python -m pages report`: every kind of report, with the store free and held, and bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pages.report.command import main
from store import Recorder, Store
from tests.support.app_server import ROOT
from tests.support.page_app import take_in
from tests.support.runs.load_experiments import load_plan_of, write_load
from tests.support.runs.page_runs import write_crashed, write_run
from tests.support.runs.page_runs_paged import write_paged_run
from tests.support.runs.sweep_experiments import sweep_plan, write_sweep


def written(home: Path, *names: str) -> str:
    """The report's file, by a command in this process."""
    out = home / "report.html"
    assert main(["report", *names, "--out", str(out)]) == 0
    return out.read_text(encoding="utf-8")


def write_pair(home: Path) -> None:
    write_run(home / "runs", "r1", "static")
    write_run(home / "runs", "r2", "continuous")


def test_a_run(lab_home: Path) -> None:
    write_run(lab_home / "runs", "r1", "static")
    page = written(lab_home, "r1")
    assert "Static batching, 2 slots, batches formed from what has arrived" in page
    assert "2 requests ran in 2 lanes for 3 steps (400\u00a0ms): 33.3\u00a0% of lane-steps" in page
    assert "Real model shape, random weights" in page
    assert "--engine</span> <span>static</span>" in page
    assert page.count('id="plotly"') == 1
    assert "Run r1" in page


def test_a_paged_run_has_its_blocks(lab_home: Path) -> None:
    write_paged_run(lab_home / "runs", "p1")
    assert "KV blocks over time" in written(lab_home, "p1")


def test_a_run_that_ended_badly_says_so(lab_home: Path) -> None:
    write_crashed(lab_home / "runs", "r1")
    assert "The run ended as crashed." in written(lab_home, "r1")


def test_a_comparison(lab_home: Path) -> None:
    write_pair(lab_home)
    page = written(lab_home, "r1", "r2")
    assert "Continuous was 1.33 times as fast as static" in page
    assert "gave the same answers: all 6 tokens" in page
    assert "Each ratio is continuous over static." in page


def test_a_sweep(lab_home: Path) -> None:
    """B / TPOT: 4 / 14 ms = 286 tokens/s."""
    write_sweep(lab_home / "runs", sweep_plan())
    page = written(lab_home, "sweep1")
    assert "with 78.6\u00a0% of linear scaling at B = 4 (286\u00a0tokens/s)" in page
    assert (
        "<span>sweep</span> <span>--engine</span> <span>static</span> <span>--prompts</span> <span>p16,p64</span>"
        in page
    )


def test_a_load_test(lab_home: Path) -> None:
    write_load(lab_home / "runs", load_plan_of())
    page = written(lab_home, "load1")
    assert "Capacity and saturation point" in page
    assert "<span>--engines</span> <span>static,continuous</span> <span>--rates</span>" in page


def test_while_another_process_has_the_store(lab_home: Path) -> None:
    write_pair(lab_home)
    write_sweep(lab_home / "runs", sweep_plan())
    alone: list[str] = []
    with Store(lab_home) as store:
        recorder = Recorder(store, store.runs_folder)
        recorder.start()
        for names in (["r1", "r2"], ["sweep1"]):
            out = lab_home / f"{names[0]}.html"
            report(lab_home, [*names, "--out", str(out)])
            alone.append(out.read_text(encoding="utf-8"))
        recorder.stop()
    assert "Continuous was 1.33 times as fast as static" in alone[0]
    assert "286\u00a0tokens/s" in alone[1]


def report(home: Path, arguments: Sequence[str], *, exit_status: int = 0) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [sys.executable, "-m", "pages", "report", *arguments],
        cwd=ROOT,
        env=os.environ | {"LAB_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == exit_status, ran.stderr
    return ran


def test_json_names_the_file_and_nothing_else_is_printed(lab_home: Path) -> None:
    write_run(lab_home / "runs", "r1")
    out = lab_home / "report.html"
    ran = report(lab_home, ["r1", "--out", str(out), "--json"])
    assert json.loads(ran.stdout) == {"file": str(out), "bytes": out.stat().st_size, "kind": "Run", "subjects": ["r1"]}
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["nowhere"], "the store has no run or experiment nowhere"),
        (["r1", "nowhere"], "the store has no run or experiment nowhere"),
        (["r1", "sweep1"], "name an experiment alone"),
        (["r1", "r2", "a", "b", "c"], "a comparison has at most 4"),
    ],
)
def test_bad_names_are_one_line(
    lab_home: Path, capsys: pytest.CaptureFixture[str], names: list[str], line: str
) -> None:
    write_pair(lab_home)
    write_sweep(lab_home / "runs", sweep_plan(), with_run=True)
    take_in(lab_home)
    out = lab_home / "report.html"
    assert main(["report", *names, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1
    assert not out.exists()


def test_a_file_that_exists_stays(lab_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = lab_home / "report.html"
    lab_home.mkdir(exist_ok=True)
    out.write_text("mine")
    assert main(["report", "r1", "--out", str(out)]) == 2
    assert "already exists; name another file" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert main(["report", "r1", "--out", str(lab_home / "no" / "x.html")]) == 2


def test_help_loads_neither_streamlit_nor_duckdb() -> None:
    code = (
        "import sys\nfrom pages.report.command import build_parser\nbuild_parser()\n"
        "print(sorted({'streamlit', 'duckdb', 'plotly', 'torch'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
