"""The recorder: new runs are ingested, a live run is followed, a dead one is marked as crashed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.hardware.calibration import Calibration
from engine.runlog.writer import RunLogWriter
from engine.workload.workload import build_workload
from store import Recorder, Store
from tests.store.ingest.test_store_ingest import RUNS_UNTIL_KILLED, time_of_day
from tests.support.app_server import ROOT
from tests.support.processes import wait_for
from tests.support.runs.sample_runs import play, sample_run_info, write_sample_run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


class Watched(Recorder):
    """A recorder that counts its checks."""

    looks = 0

    def look(self) -> bool:
        has_changed = super().look()
        self.looks += 1
        return has_changed

    def await_looks(self, count: int) -> None:
        """Wait for this many more checks."""
        until = self.looks + count
        wait_for(lambda: self.looks >= until, 60)


@pytest.fixture
def recorder(store: Store) -> Iterator[Watched]:
    recorder = Watched(store, store.runs_folder)
    recorder.start()
    yield recorder
    recorder.stop()


def test_a_new_run_is_ingested(store: Store, recorder: Watched) -> None:
    assert store.runs.list().empty
    version = recorder.version
    folder = write_sample_run(store.runs_folder)
    wait_for(lambda: len(store.runs.list()) == 1 and store.runs.get(folder.name)["status"] == "completed", 60)
    wait_for(lambda: recorder.version > version, 60)  # it is raised after the rows are written
    recorder.await_looks(2)
    settled = recorder.version
    recorder.await_looks(2)
    assert recorder.version == settled, "nothing happens, yet the store is said to have changed"


def test_a_live_run_is_followed(store: Store, recorder: Watched) -> None:
    config = RunConfig(workload=WorkloadConfig(prompts="p4", requests=40, budget="8"))
    plan = build_workload(config.workload)
    passes, seen, versions = 0, {0}, {recorder.version}
    with RunLogWriter(store.runs_folder / "live", sample_run_info(config, plan, "live", None, time_of_day())) as log:

        def watch() -> None:
            """After every eighth pass, wait until the store has more rows of the run."""
            nonlocal passes
            passes += 1
            if passes % 8 == 0:
                wait_for(lambda: len(store.runs.tokens("live")) > max(seen) and recorder.version not in versions, 60)
                seen.add(len(store.runs.tokens("live")))
                versions.add(recorder.version)

        play(log, config, plan, on_pass=watch)
        log.finish({"status": "completed", "totals": {}})
    wait_for(lambda: store.runs.get("live")["status"] == "completed", 60)
    assert len(store.runs.tokens("live")) == 320
    assert len(seen) >= 4
    assert len(versions) >= 4


def test_a_killed_run_is_marked_as_crashed(store: Store, recorder: Watched) -> None:
    folder = store.runs_folder / "killed"
    command = [sys.executable, "-c", RUNS_UNTIL_KILLED, str(folder), "continuous"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        wait_for(lambda: len(store.runs.tokens("killed")) > 50, 60)
        assert store.runs.get("killed")["status"] == "running"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    wait_for(lambda: store.runs.get("killed")["status"] == "crashed", 60)
    assert store.ingest.verify("killed").outcome == "agrees"


def test_a_run_in_another_folder_is_followed_and_a_lost_one_is_marked_as_crashed(store: Store, tmp_path: Path) -> None:
    config = RunConfig(workload=WorkloadConfig(prompts="p4", requests=4, budget="8"))
    plan = build_workload(config.workload)
    logs = [
        RunLogWriter(tmp_path / name, sample_run_info(config, plan, name, None, time_of_day()))
        for name in ("far", "lost")
    ]
    for log in logs:
        play(log, config, plan, 4, closes=False)
        log.flush()
        assert store.ingest.run(log.folder).status == "running"
    logs[0].finish({"status": "stopped", "totals": {}})
    logs[1].folder.rename(tmp_path / "renamed")
    assert store.ingest.follow_running()
    assert not store.ingest.follow_running()
    assert [store.runs.get(run_id)["status"] for run_id in ("far", "lost")] == ["stopped", "crashed"]
    assert store.runs.spans("lost")["end_s"].notna().all()
    assert store.runs.list()["output_tokens"].tolist() == [16, 16]
    logs[1].close()
    store.trash.delete_run("lost")
    assert store.runs.list()["run_id"].tolist() == ["far"]


def test_existing_runs_are_ingested_at_the_start(store: Store) -> None:
    folders = [write_sample_run(store.runs_folder, engine) for engine in ("static", "continuous")]
    recorder = Recorder(store, store.runs_folder)
    assert recorder.look()
    assert set(store.runs.list()["run_id"]) == {folder.name for folder in folders}
    assert not recorder.look()


def test_a_bad_folder_has_a_line_until_it_is_deleted(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(store, store.runs_folder)
    bad = store.runs_folder / "bad"
    bad.mkdir(parents=True)
    (bad / "run.json").write_text("{")
    good = write_sample_run(store.runs_folder)
    for _ in range(3):
        recorder.look()
    assert store.runs.list()["run_id"].tolist() == [good.name]
    assert list(recorder.problems) == [bad]
    assert "cannot be read as JSON" in recorder.problems[bad]
    assert len(caplog.records) == 1
    (bad / "run.json").write_text((good / "run.json").read_text().replace(good.name, "repaired"))
    recorder.look()
    assert recorder.problems == {}
    assert store.runs.get("repaired")["status"] == "crashed"


def test_a_run_that_is_still_being_copied_is_checked_again(store: Store, tmp_path: Path) -> None:
    folder = write_sample_run(tmp_path / "there")
    here = store.runs_folder / "copied"
    here.mkdir(parents=True)
    recorder = Recorder(store, store.runs_folder)
    names = sorted(path.name for path in folder.iterdir())
    assert names.index("result.json") < names.index("tokens.arrows")
    for name in names:
        (here / name).write_bytes((folder / name).read_bytes())
        recorder.look()
    assert store.runs.get(folder.name)["status"] == "completed"
    assert store.ingest.verify(folder.name).outcome == "agrees"


def test_a_deleted_run_does_not_come_back(store: Store, recorder: Watched) -> None:
    folder = write_sample_run(store.runs_folder)
    wait_for(lambda: len(store.runs.list()) == 1, 60)
    store.trash.delete_run(folder.name)
    recorder.await_looks(2)
    assert store.runs.list().empty
    assert list(store.runs_folder.iterdir()) == []


def test_calibrations_are_ingested_once(store: Store) -> None:
    measured = Calibration(
        device="cpu",
        device_name="a CPU",
        threads=2,
        torch_version="2.13",
        measured_at="2026-01-02T03:04:05+00:00",
        load_average_1min=0.5,
        cache_bytes=None,
        buffer_bytes=1 << 28,
        read_bytes_per_s=1e10,
        copy_bytes_per_s=9e9,
        matmul_flop_per_s={"fp32": 1e11},
        launch_s=1e-6,
        model="tiny-random",
        dtype="fp32",
        kernels_per_pass=70,
        pass_s=0.001,
        pass_issue_s=None,
    )
    measured.save(store.home / "calibrations")
    (store.home / "calibrations/broken.json").write_text("{}")
    assert store.ingest.calibrations() == 1
    assert store.ingest.calibrations() == 0
    rows = store.cursor().execute("SELECT device, read_bytes_per_s, calibration FROM calibrations").fetchall()
    assert rows[0][:2] == ("cpu", 1e10)
    assert Calibration.from_json(rows[0][2]) == measured
