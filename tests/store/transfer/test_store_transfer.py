"""Export and import: a run is identical in another store; by command, and through the app."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from engine.core.config import WorkloadConfig
from engine.metrics.metrics import RUN_METRICS
from engine.runlog.locks import hold
from store import Recorder, Store
from store.annotations import Annotation
from store.folders import stamp_of
from store.ingest.run_rows import OF_A_RUN, delete_rows
from store.transfer.exporter import export_runs, runs_named
from store.transfer.importer import import_runs
from tests.store.cli.test_store_commands import answer, run_store
from tests.store.ingest.test_store_ingest import everything
from tests.support.runs.sample_runs import write_sample_run

PAIR = {"id": "exp1", "kind": "pair", "label": "static and continuous"}
SAID = Annotation(note="a note, with a comma", tags=("kept",), pinned=True)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Store]:
    """A store with a pair, a run with preemptions, one in full response mode and a crashed one."""
    with Store(tmp_path / "here") as store:
        write_sample_run(store.runs_folder, "static", run_id="r1", experiment=PAIR)
        write_sample_run(store.runs_folder, "continuous", run_id="r2", experiment=PAIR)
        write_sample_run(store.runs_folder, "paged", run_id="r3", workload=WorkloadConfig(arrival="poisson:40"))
        write_sample_run(store.runs_folder, "static", run_id="r4", returns="whole")
        folder = write_sample_run(store.runs_folder, "continuous", run_id="r5", status=None, stop_after_passes=20)
        (folder / "watched").touch()
        with (folder / "tokens.arrows").open("ab") as file:
            file.write(b"\xff\xff\xff\xff\x40")  # a torn tail
        store.ingest.all_in(store.runs_folder)
        store.annotations.set("r1", SAID)
        yield store


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "there") as store:
        yield store


def rows_without_place(store: Store) -> dict[str, list[Any]]:
    """Every row of every table without the folders of the logs and what the files' system says of them."""
    return every_row_without(store, "folder", "log_bytes", "stamp")


def every_row_without(store: Store, *columns: str) -> dict[str, list[Any]]:
    """Every row of every table; those of `runs` without these columns."""
    tables = [*OF_A_RUN, "experiments", "run_notes", "run_tags"]
    found = {table: store.cursor().execute(f"FROM {table}").fetchall() for table in tables if table != "runs"}
    found["runs"] = store.cursor().execute(f"SELECT * EXCLUDE ({', '.join(columns)}) FROM runs").fetchall()
    return {table: sorted(rows, key=repr) for table, rows in found.items()}


def test_every_row_is_the_same_in_another_store(here: Store, there: Store, tmp_path: Path) -> None:
    out = tmp_path / "out.zip"
    run_ids = here.runs.list()["run_id"].tolist()
    exported = export_runs(here, run_ids, out)
    assert exported.bytes == out.stat().st_size
    heard: list[float] = []
    done = import_runs(there, out, lambda share, what: heard.append(share))
    assert sorted(done.new) == ["r1", "r2", "r3", "r4", "r5"]
    assert heard == sorted(heard)
    assert heard[-1] == 1.0
    assert rows_without_place(there) == rows_without_place(here)
    for run_id in run_ids:
        assert there.runs.metrics(run_id) == here.runs.metrics(run_id)
        assert there.runs.tokens(run_id).equals(here.runs.tokens(run_id))
        assert there.runs.spans(run_id).equals(here.runs.spans(run_id))
        assert there.ingest.verify(run_id).outcome == "agrees"
    assert there.runs.list()["status"].value_counts().to_dict() == {"completed": 4, "crashed": 1}
    assert there.annotations.of("r1") == SAID
    # A second import changes nothing, and keeps later annotations.
    there.annotations.set("r1", Annotation(note="another"))
    before, files = everything(there), sorted(there.home.rglob("*"))
    again = import_runs(there, out)
    assert (again.new, sorted(again.known)) == ((), ["r1", "r2", "r3", "r4", "r5"])
    assert everything(there) == before
    assert sorted(there.home.rglob("*")) == files
    assert there.annotations.of("r1").note == "another"


def test_an_experiment_is_exported_by_its_id(here: Store, tmp_path: Path) -> None:
    assert runs_named(here, ["exp1"]) == ["r1", "r2"]
    assert runs_named(here, ["r2", "exp1", "r5"]) == ["r2", "r1", "r5"]
    with pytest.raises(ValueError, match="no run or experiment unknown"):
        runs_named(here, ["unknown"])
    export_runs(here, runs_named(here, ["exp1"]), tmp_path / "pair.zip")
    with zipfile.ZipFile(tmp_path / "pair.zip") as archive:
        manifest = json.loads(archive.read("manifest.json"))
        names = archive.namelist()
    assert [run["run_id"] for run in manifest["runs"]] == ["r1", "r2"]
    assert {"runs/r1/run.json", "runs/r2/result.json", "manifest.json"} <= set(names)
    assert not any("lock" in name for name in names)
    assert (manifest["runs"][0]["note"], manifest["runs"][0]["tags"]) == (SAID.note, ["kept"])


def test_a_refused_export_is_reported_and_leaves_nothing(here: Store, tmp_path: Path) -> None:
    out = tmp_path / "out.zip"
    with hold(here.runs_folder / "r5" / "lock", purpose="run"), pytest.raises(ValueError, match="r5 is still running"):
        export_runs(here, ["r1", "r5"], out)
    (here.runs_folder / "r4").rename(tmp_path / "away")
    with pytest.raises(ValueError, match="run r4: the run log is gone"):
        export_runs(here, ["r4"], out)
    with pytest.raises(ValueError, match="no such folder"):
        export_runs(here, ["r1"], tmp_path / "no" / "out.zip")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["away", "here"]
    out.write_text("mine")
    with pytest.raises(ValueError, match="already exists; name another file"):
        export_runs(here, ["r1"], out)
    assert out.read_text() == "mine"


def test_a_run_with_the_same_id_and_other_content_is_refused(here: Store, there: Store, tmp_path: Path) -> None:
    export_runs(here, ["r1", "r2"], tmp_path / "out.zip")
    there.ingest.run(write_sample_run(there.runs_folder, "serial", run_id="r2"))
    before = everything(there)
    with pytest.raises(
        ValueError, match=r"out\.zip: not imported: run r2 is in the store with other content; delete that"
    ):
        import_runs(there, tmp_path / "out.zip")
    assert everything(there) == before
    assert [path.name for path in there.runs_folder.iterdir()] == ["r2"]


def test_an_import_restores_the_lost_log_of_a_run(here: Store, tmp_path: Path) -> None:
    export_runs(here, ["r1"], tmp_path / "out.zip")
    before = every_row_without(here, "stamp")
    (here.runs_folder / "r1").rename(tmp_path / "lost")
    assert import_runs(here, tmp_path / "out.zip").new == ("r1",)
    assert every_row_without(here, "stamp") == before
    assert here.ingest.stamps()[str(here.runs_folder / "r1")] == stamp_of(here.runs_folder / "r1")
    assert here.ingest.verify("r1").outcome == "agrees"


def test_an_import_that_fails_at_the_end_is_undone(
    here: Store, there: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_runs(here, ["r1", "r2"], tmp_path / "out.zip")
    before, take = everything(there), there.ingest.run

    def refuse(folder: Path) -> Any:
        if folder.name == "r2":
            raise ValueError("no room left")
        return take(folder)

    monkeypatch.setattr(there.ingest, "run", refuse)
    with pytest.raises(ValueError, match=r"out\.zip: not imported: no room left"):
        import_runs(there, tmp_path / "out.zip")
    assert everything(there) == before
    assert list(there.runs_folder.iterdir()) == []
    assert there.annotations.of("r1") == Annotation()


def test_the_files_of_a_dead_import_are_removed(tmp_path: Path) -> None:
    left = tmp_path / "home/runs/.importing-abc/r1"
    left.mkdir(parents=True)
    (tmp_path / "home/.upload-abc.zip").touch()
    with Store(tmp_path / "home") as store:
        assert list(store.runs_folder.iterdir()) == []
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["lab.duckdb", "runs"]


# Other tools


def test_every_table_is_exported_to_parquet(here: Store, tmp_path: Path) -> None:
    home, folder = here.home, tmp_path / "tables"
    tokens = len(here.runs.tokens("r1"))
    here.close()
    reply = answer(home, "export", "--parquet", folder)
    assert reply["folder"] == str(folder)
    assert reply["tables"]["runs"] == 5
    files = {path.stem: duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall()[0][0] for path in folder.iterdir()}
    assert files == reply["tables"]
    assert {"requests", "passes", "tokens", "block_events", "run_metrics", "run_checks", "run_tags"} <= set(files)
    assert not {"ingest_progress", "schema_migrations"} & set(files)
    query = f"SELECT count(*) FROM '{folder}/tokens.parquet' WHERE run_id = 'r1'"
    assert duckdb.sql(query).fetchall() == [(tokens,)]
    ran = run_store(home, "export", "--parquet", folder)
    assert (ran.returncode, ran.stderr) == (2, f"store: {folder} already exists; name a new folder\n")


def test_metrics_are_exported_to_csv_one_run_per_row(here: Store, tmp_path: Path) -> None:
    home, metrics = here.home, {run_id: here.runs.metrics(run_id) for run_id in here.runs.list()["run_id"]}
    here.annotations.set("r2", Annotation(note="=1+1", tags=("a", "b")))
    here.close()
    assert answer(home, "export", "--csv", tmp_path / "all.csv") == {"file": str(tmp_path / "all.csv"), "rows": 5}
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = {row["run_id"]: row for row in csv.DictReader(file)}
    assert set(rows) == set(metrics)
    for run_id, row in rows.items():
        for metric in RUN_METRICS:
            value = metrics[run_id][metric.name]
            assert row[metric.name] == "" if value is None else float(row[metric.name]) == value, metric.name
    assert (rows["r1"]["note"], rows["r1"]["tags"], rows["r1"]["engine"]) == (SAID.note, "kept", "static")
    assert (rows["r2"]["note"], rows["r2"]["tags"]) == ("'=1+1", "a, b")
    assert "unwatched" in rows["r5"]["lost"].split(",")
    assert answer(home, "export", "--csv", tmp_path / "pair.csv", "exp1")["rows"] == 2


# The commands


def test_commands_with_a_free_store(here: Store, tmp_path: Path) -> None:
    home, other, out = here.home, tmp_path / "other", tmp_path / "pair.zip"
    here.close()
    reply = answer(home, "export", "exp1", "r4", "--out", out)
    assert (reply["runs"], reply["file"], reply["bytes"]) == (["r1", "r2", "r4"], str(out), out.stat().st_size)
    taken = answer(other, "import", out)
    assert [(run["run_id"], run["is_new"]) for run in taken["runs"]] == [("r1", True), ("r2", True), ("r4", True)]
    assert [run["is_new"] for run in answer(other, "import", out)["runs"]] == [False] * 3
    (tmp_path / "bad.zip").write_bytes(out.read_bytes()[:-30])
    ran = run_store(other, "import", tmp_path / "bad.zip", out)
    assert ran.returncode == 1
    assert ran.stdout.count("already in the store") == 3
    assert ran.stderr.startswith("store: bad.zip: not imported: ")
    assert ran.stderr.count("\n") == 1


def test_commands_while_the_app_has_the_store(here: Store, there: Store, tmp_path: Path) -> None:
    recorders = [Recorder(store, store.runs_folder) for store in (here, there)]
    for recorder in recorders:
        recorder.start()
    try:
        out = tmp_path / "r3.zip"
        assert answer(here.home, "export", "r3", "--out", out)["runs"] == ["r3"]
        version = recorders[1].version
        assert answer(there.home, "import", out)["runs"][0]["is_new"]
        assert recorders[1].version > version, "open pages are notified"
        assert there.runs.metrics("r3") == here.runs.metrics("r3")
        assert answer(here.home, "export", "--csv", tmp_path / "all.csv")["rows"] == 5
        assert answer(here.home, "export", "--parquet", tmp_path / "tables")["tables"]["runs"] == 5
    finally:
        for recorder in recorders:
            recorder.stop()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("export",), "name a run or an experiment"),
        (("export", "unknown"), "the store has no run or experiment unknown"),
        (("export", "--parquet", "a", "--csv", "b"), "--parquet and --csv do not go together"),
        (("export", "r1", "--parquet", "a"), "--parquet writes the whole store; leave out the run ids"),
        (("import", "nowhere.zip"), "nowhere.zip: no such file"),
        (("import",), "FILE"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    ran = run_store(tmp_path / "home", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_deleting_rows_deletes_the_checks(here: Store) -> None:
    delete_rows(here.cursor(), "r1")
    assert here.runs.checks("r1") == []
    assert here.annotations.of("r1") == SAID
