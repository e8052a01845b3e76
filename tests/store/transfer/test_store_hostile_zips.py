"""Files that no export wrote: each is refused completely, with one line, and leaves nothing behind."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.runlog.checksums import OWN_SUM, RUN_SUM, STREAM_SUMS
from engine.runlog.schema import STREAMS, TOKENS
from store import Store
from store.transfer.exporter import export_runs
from store.transfer.importer import MAX_DIRECTORY_BYTES, MAX_RATIO, import_runs
from tests.store.ingest.test_store_ingest import everything
from tests.support.runs.sample_runs import write_sample_run

Files = dict[str, bytes]
Spoil = Callable[[Path], None]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid export of two runs."""
    home = tmp_path_factory.mktemp("here")
    with Store(home) as store:
        for run_id, engine in (("r1", "static"), ("r2", "continuous")):
            store.ingest.run(write_sample_run(store.runs_folder, engine, run_id=run_id))
        export_runs(store, ["r1", "r2"], home / "good.zip")
    return home / "good.zip"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "there") as store:
        store.ingest.run(write_sample_run(store.runs_folder, run_id="mine"))
        yield store


def read(path: Path) -> Files:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, files: Files, *, honest: bool = True) -> None:
    """Write the files; `honest`: with a matching manifest."""
    if honest:
        manifest = json.loads(files["manifest.json"])
        for run in manifest["runs"]:
            places = [name for name in files if name.startswith(f"runs/{run['run_id']}/")]
            run["files"] = [
                {
                    "name": name.rpartition("/")[2],
                    "bytes": len(files[name]),
                    "sha256": hashlib.sha256(files[name]).hexdigest(),
                }
                for name in places
            ]
        files = files | {"manifest.json": json.dumps(manifest).encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def changed(place: str, change: Callable[[bytes], bytes], *, honest: bool = True) -> Spoil:
    """Change one file of the zip."""

    def spoil(path: Path) -> None:
        files = read(path)
        write(path, files | {place: change(files.get(place, b""))}, honest=honest)

    return spoil


def with_manifest(change: Callable[[dict[str, Any]], None]) -> Spoil:
    """Change the manifest."""

    def rewrite(content: bytes) -> bytes:
        manifest = json.loads(content)
        change(manifest)
        return json.dumps(manifest).encode()

    return changed("manifest.json", rewrite, honest=False)


def added(name: str, content: bytes = b"x", **attributes: Any) -> Spoil:
    """Add an entry to the zip."""

    def spoil(path: Path) -> None:
        entry = zipfile.ZipInfo(name)
        for attribute, value in attributes.items():
            setattr(entry, attribute, value)
        with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a name that occurs twice
            archive.writestr(entry, content)

    return spoil


def bytes_of(change: Callable[[bytearray], bytes | bytearray]) -> Spoil:
    def spoil(path: Path) -> None:
        path.write_bytes(change(bytearray(path.read_bytes())))

    return spoil


def patched_entry(name: str, offset: int, kind: str, value: int) -> Spoil:
    """Change a field of an entry in the zip's directory."""

    def change(data: bytearray) -> bytearray:
        at = data.rfind(b"PK\x01\x02", 0, data.rfind(name.encode()))
        struct.pack_into(kind, data, at + offset, value)
        return data

    return bytes_of(change)


def flipped(data: bytearray) -> bytearray:
    """Flip one bit of the first file's content, after its header."""
    at = data.find(b"run.json") + 200
    data[at] ^= 1
    return data


def list_that_says_a_gigabyte(data: bytearray) -> bytearray:
    struct.pack_into("<I", data, data.rfind(b"PK\x05\x06") + 12, 1 << 30)
    return data


def list_of_many_megabytes(data: bytearray) -> bytearray:
    """Repeat the zip's directory until it is too long."""
    end = data.rfind(b"PK\x05\x06")
    size, begin = struct.unpack_from("<II", data, end + 12)
    entries = data[begin : begin + size] * (MAX_DIRECTORY_BYTES // size + 1)
    tail = data[end:]
    struct.pack_into("<I", tail, 12, len(entries))
    return data[:begin] + entries + tail


def with_nul(path: Path) -> None:
    """A name that some readers read as `watched` and others as a script."""
    added("runs/r1/watched%.sh")(path)
    path.write_bytes(path.read_bytes().replace(b"watched%.sh", b"watched\0.sh"))


def table(columns: dict[str, Any], **options: Any) -> bytes:
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def compressed(_: bytes) -> bytes:
    """Valid tokens, compressed by Arrow."""
    return table(
        {field.name: pa.array(range(1000), pa.int32()).cast(field.type) for field in TOKENS}, compression="zstd"
    )


def billion_rows(_: bytes) -> bytes:
    """A batch with the columns of the log, all empty, and a billion rows."""
    content = bytearray(table({"request_id": pa.array([7] * 1000, pa.int32())}))
    at = content.find(struct.pack("<q", 1000))
    while at >= 0:
        struct.pack_into("<q", content, at, 1_000_000_000)
        at = content.find(struct.pack("<q", 1000), at + 1)
    return bytes(content)


def damaged_batch(content: bytes) -> bytes:
    return content[:-200] + b"rubbish." * 25


TOKENS_PLACE = "runs/r2/tokens.arrows"
HOSTILE: dict[str, tuple[Spoil, str]] = {
    "no zip at all": (bytes_of(lambda _: b"a shopping list"), "not a zip"),
    "an empty file": (bytes_of(lambda _: b""), "not a zip"),
    "its end is cut off": (bytes_of(lambda data: data[:-40]), "its end is missing"),
    "its middle is cut out": (bytes_of(lambda data: data[:3000] + data[6000:]), ""),
    "a bit is flipped": (bytes_of(flipped), "damaged"),
    "a list of files that says a gigabyte": (bytes_of(list_that_says_a_gigabyte), "its directory cannot be read"),
    "a list of files of many megabytes": (
        bytes_of(list_of_many_megabytes),
        "more entries than a bundle of runs can have",
    ),
    "a list that says it is longer": (patched_entry("run.json", 28, "<H", 60_000), ""),
    "no manifest": (lambda path: write(path, {"runs/r1/run.json": b"{}"}, honest=False), "no manifest.json"),
    "a manifest of something else": (
        changed("manifest.json", lambda _: b'{"format": "holiday"}', honest=False),
        "is not the manifest of an export",
    ),
    "a manifest that is no JSON": (
        changed("manifest.json", lambda _: b"{", honest=False),
        "manifest.json cannot be read",
    ),
    "a manifest of a thousand nestings": (
        changed("manifest.json", lambda _: b"[" * 200_000, honest=False),
        "manifest.json cannot be read",
    ),
    "of a newer lab": (with_manifest(lambda m: m.update(format_version=3)), "made by a newer version of the lab"),
    "of a newer run log": (with_manifest(lambda m: m.update(schema_version=99)), "made by a newer version of the lab"),
    "no runs": (with_manifest(lambda m: m.update(runs=[])), "the file has no runs"),
    "a run twice": (with_manifest(lambda m: m["runs"].append(m["runs"][0])), "lists a run twice"),
    "a run id that leads out": (
        with_manifest(lambda m: m["runs"][0].update(run_id="../r1")),
        "letters, digits, _ or -",
    ),
    "a note without end": (with_manifest(lambda m: m["runs"][0].update(note="x" * 5000)), "use at most 4,000"),
    "tags that are numbers": (with_manifest(lambda m: m["runs"][0].update(tags=[1])), "a tag is not text"),
    "a size that is a text": (
        with_manifest(lambda m: m["runs"][0]["files"][0].update(bytes="1")),
        "has the wrong type",
    ),
    "another hash": (
        with_manifest(lambda m: m["runs"][1]["files"][2].update(sha256="0" * 64)),
        "does not match manifest.json",
    ),
    "another size": (
        with_manifest(lambda m: m["runs"][1]["files"][2].update(bytes=3)),
        "does not match the files in the zip",
    ),
    "a file that is not listed": (added("runs/r1/watched", b""), "does not match the files in the zip"),
    "a file that is missing": (
        with_manifest(lambda m: m["runs"][0]["files"].pop()),
        "does not match the files in the zip",
    ),
    "an absolute path": (added("/etc/passwd"), "'/etc/passwd' is not a file of a run log"),
    "a path that leads out": (added("runs/r1/../../../evil.json"), "is not a file of a run log"),
    "a path that leads out by a name": (added("runs/../run.json"), "is not a file of a run log"),
    "a backslash": (added("runs\\r1\\run.json"), "is not a file of a run log"),
    "a NUL in a name": (with_nul, "is not a file of a run log"),
    "an unknown file": (added("runs/r1/run.sh"), "is not a file of a run log"),
    "a file beside the runs": (added("lab.duckdb"), "is not a file of a run log"),
    "a lock": (added("runs/r1/lock"), "is not a file of a run log"),
    "a folder": (added("runs/r9/", b""), "is not a file of a run log"),
    "a name twice": (added("runs/r1/run.json", b"{}"), "occurs twice"),
    "a name twice but for its case": (added("runs/R1/run.json", b"{}"), "occurs twice"),
    "a link": (
        added("runs/r1/watched", b"/etc/passwd", external_attr=(stat.S_IFLNK | 0o777) << 16),
        "not a plain file",
    ),
    "a device": (added("runs/r1/watched", b"", external_attr=(stat.S_IFCHR | 0o666) << 16), "not a plain file"),
    "an encrypted entry": (patched_entry("runs/r2/spans.arrows", 8, "<H", 1), "is encrypted"),
    "another compression": (
        added("runs/r1/watched", b"", compress_type=zipfile.ZIP_BZIP2),
        "uses a compression method",
    ),
    "a bomb": (
        changed(TOKENS_PLACE, lambda _: bytes(100 << 20)),
        "run logs do not compress that much",
    ),
    "an entry that says it is small": (patched_entry("runs/r2/tokens.arrows", 24, "<I", 10), ""),
    "entries that share their bytes": (
        patched_entry("runs/r2/tokens.arrows", 20, "<I", 1 << 29),
        "run logs do not compress",
    ),
    "another run's run.json": (
        changed("runs/r1/run.json", lambda content: content.replace(b'"run_id": "r1"', b'"run_id": "r7"')),
        "r1/run.json belongs to run r7",
    ),
    "a run.json of a newer lab": (
        changed("runs/r1/run.json", lambda c: c.replace(b'"schema_version": ', b'"schema_version": 9')),
        "by a newer version of the lab",
    ),
    "a run.json that is no object": (changed("runs/r1/run.json", lambda _: b"[]"), "run.json: not a JSON object"),
    "a result that is none": (changed("runs/r2/result.json", lambda _: b'{"status": "fine"}'), "status is 'fine'"),
    "a damaged stream": (changed(TOKENS_PLACE, damaged_batch), "damaged after byte"),
    "a compressed batch": (changed(TOKENS_PLACE, compressed), "a batch is compressed"),
    "a billion rows": (changed(TOKENS_PLACE, billion_rows), "a batch of 1,000,000,000 rows"),
    "an unknown column": (
        changed(TOKENS_PLACE, lambda _: table({"payload": pa.array(["x"])})),
        "a run log has no column 'payload' of type string",
    ),
    "a column of another kind": (
        changed(TOKENS_PLACE, lambda _: table({"request_id": pa.array([1, 1]).dictionary_encode()})),
        "no column 'request_id' of type dictionary",
    ),
    "settings that the store cannot hold": (
        changed("runs/r2/run.json", lambda c: c.replace(b'"random_weights": true', b'"random_weights": "maybe"')),
        "r2/run.json: refused: model.random_weights is 'maybe'; it must be true or false",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_completely(there: Store, good: Path, tmp_path: Path, case: str) -> None:
    spoil, reason = HOSTILE[case]
    path = Path(shutil.copy(good, tmp_path / "foreign.zip"))
    spoil(path)
    before, files = everything(there), sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=r"^foreign\.zip: ") as refused:
        import_runs(there, path)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
    assert str(tmp_path) not in str(refused.value), "a line speaks of the file, not of where it was unpacked"
    assert everything(there) == before
    assert sorted(tmp_path.rglob("*")) == files


def test_the_valid_file_is_imported(there: Store, good: Path, tmp_path: Path) -> None:
    """The cases above are refused for their change, not for how they were written."""
    path = tmp_path / "again.zip"
    write(path, read(good))
    assert sorted(import_runs(there, path).new) == ["r1", "r2"]


def test_run_logs_compress_far_less_than_the_limit(good: Path) -> None:
    with zipfile.ZipFile(good) as archive:
        for entry in archive.infolist():
            assert entry.file_size <= MAX_RATIO / 3 * entry.compress_size, entry.filename


def test_a_stream_of_an_older_lab_is_imported(there: Store, good: Path, tmp_path: Path) -> None:
    """Its stream lacks the new columns, and its result.json has no checksums."""
    path = Path(shutil.copy(good, tmp_path / "old.zip"))
    names = [name for name in STREAMS["memory"].names if name != "free_bytes"]
    columns = {name: pa.array([1], STREAMS["memory"].field(name).type) for name in names}
    changed("runs/r2/memory.arrows", lambda _: table(columns))(path)
    with pytest.raises(ValueError, match=r"^old\.zip: not imported: r2/memory\.arrows: cut: "):
        import_runs(there, path)
    changed("runs/r2/result.json", without_sums)(path)
    assert set(import_runs(there, path).new) == {"r1", "r2"}
    assert there.cursor().execute("SELECT free_bytes FROM memory WHERE run_id = 'r2'").fetchall() == [(None,)]


def without_sums(result: bytes) -> bytes:
    sums = (STREAM_SUMS, RUN_SUM, OWN_SUM)
    return json.dumps({name: value for name, value in json.loads(result).items() if name not in sums}).encode()


def test_an_import_needs_disk_space(there: Store, good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.transfer.importer.SPARE_BYTES", 1 << 60)
    with pytest.raises(
        ValueError, match=r"good\.zip: not imported: the import needs [\d,.]+\u00a0[MGT]iB of disk space"
    ):
        import_runs(there, good)
