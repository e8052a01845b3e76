"""Attacks on the store, counted: flipped bits, odd folders, damaged zips, killed commands, damaged store files.

    python -m benchmarks.attacks [--only flips folders zips kills stores] [--seed 0] [--kills 12] [--json]

Each attack is one case with one outcome. What must never happen is counted as `escaped`: a changed value that nothing
finds, a folder that stops the others, a traceback, rows that are lost or doubled, files outside the home.
docs/reliability.md has the counts. Takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from store import Store
from store.transfer.exporter import export_runs
from store.transfer.importer import import_runs
from tests.support.runs.sample_runs import write_sample_run

Outcomes = Iterator[str]  # one word a case; `escaped: …` is a fault
SPOILED: dict[str, dict[str, Any]] = {
    "run.json": {
        "created_at": "0001-01-01T00:00:00+14:00", "config": None, "model": 7, "workload": [], "device": "x",
        "kv_blocks": 2**60, "experiment": 3, "environment": {"load_average_1min": float("nan")}, "slots": "\ud800",
    },
    "result.json": {"totals": [1], "error": {}, "ended_at": "soon", "oom": 1, "streams": {"tokens": 0}, "notes": 1},
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = {}
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            draw = random.Random(options.seed)
            report[name] = dict(Counter(ATTACKS[name](Path(folder), draw, options.kills)))
        if not options.json:
            print(f"{name}: {', '.join(f'{n} {outcome}' for outcome, n in sorted(report[name].items()))}", flush=True)
    if options.json:
        print(json.dumps(report))
    sys.exit(any(outcome.startswith("escaped") for counts in report.values() for outcome in counts))


def flips(folder: Path, draw: random.Random, kills: int) -> Outcomes:
    """One bit of a run's log is flipped, at 40 places before ingest and at 40 after it."""
    whole = write_sample_run(folder / "whole", "paged", run_id="r1")
    streams = sorted(whole.glob("*.arrows"))
    for number in range(80):
        home = folder / f"home{number}"
        shutil.copytree(whole, home / "runs/r1")
        file = home / "runs/r1" / draw.choice(streams).name
        with Store(home) as store:
            is_known = number % 2 == 1
            if is_known:
                store.ingest.run(home / "runs/r1")
            times = file.stat()
            flip(file, draw)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
            if is_known:
                found = store.ingest.verify("r1").outcome == "differs"
                yield "found by verify" if found else f"escaped: {file.name}"
            else:
                problems = store.ingest.all_in(home / "runs")[1]
                yield "refused at ingest" if len(problems) == 1 and not store.runs.count() else f"escaped: {file.name}"
        shutil.rmtree(home)


def folders(folder: Path, draw: random.Random, kills: int) -> Outcomes:
    """Odd folders beside a healthy run: devices, FIFOs, links, emptied files, JSON of other types."""
    cases: list[Callable[[Path], object]] = []
    for name in ("run.json", "result.json", "tokens.arrows", "passes.arrows", "lock"):
        cases += [
            lambda path, name=name: replace(path / name, lambda file: file.symlink_to("/dev/zero")),
            lambda path, name=name: replace(path / name, os.mkfifo),
            lambda path, name=name: replace(path / name, Path.mkdir),
            lambda path, name=name: replace(path / name, lambda file: file.symlink_to(file)),
        ]
    cases += [
        lambda path, name=name: replace(path / name, lambda file: file.write_bytes(b""))
        for name in ("run.json", "result.json", "tokens.arrows", "spans.arrows")
    ]
    cases += [
        lambda path, name=name, value={key: value}: spoil(path / name, value)
        for name, values in SPOILED.items()
        for key, value in values.items()
    ]
    for number, case in enumerate(cases):
        home = folder / f"home{number}"
        write_sample_run(home / "runs", run_id="zz")
        case(write_sample_run(home / "runs", run_id="aa"))
        with Store(home) as store:
            _, problems = store.ingest.all_in(home / "runs")
            is_alone = store.runs.list()["run_id"].tolist() == ["zz"]
            lines = [line for line in problems.values() if "\n" not in line and len(line) < 1000]
        yield "one line, nothing taken in" if is_alone and len(lines) == 1 else f"escaped: case {number}"
        shutil.rmtree(home)


def zips(folder: Path, draw: random.Random, kills: int) -> Outcomes:
    """One bit of an exported file is flipped, at 60 places; 12 files are cut."""
    with Store(folder / "from") as store:
        for run_id in ("r1", "r2"):
            store.ingest.run(write_sample_run(store.runs_folder, run_id=run_id))
        export_runs(store, ["r1", "r2"], folder / "whole.zip")
    data = (folder / "whole.zip").read_bytes()
    for number in range(72):
        home = folder / f"home{number}"
        bundle = folder / "bad.zip"
        bundle.write_bytes(data[: draw.randrange(len(data))] if number % 6 == 5 else flipped(data, draw))
        with Store(home) as store:
            try:
                done = import_runs(store, bundle)
            except (ValueError, OSError) as error:
                left = list(store.runs_folder.glob("*")) if store.runs_folder.exists() else []
                is_clean = "\n" not in str(error) and not left and not store.runs.count()
                yield "refused in one line" if is_clean else "escaped: something is left"
            else:
                agree = [store.ingest.verify(run_id).outcome == "agrees" for run_id in done.new]
                yield "taken in, contents right" if agree == [True, True] else "escaped: wrong contents"
        shutil.rmtree(home)


def kills(folder: Path, draw: random.Random, kills: int) -> Outcomes:
    """Commands are killed at any moment; then each is done again."""
    home, made = folder / "home", folder / "made"
    run_ids = [write_sample_run(made, run_id=f"r{number}").name for number in range(8)]
    commands = {
        "ingest": ["ingest", str(made)], "list": ["list"], "verify": ["verify"],
        "export": ["export", *run_ids, "--out", str(folder / "out.zip")],
    }  # fmt: skip
    run(home, "ingest", str(made))
    run(home, "export", *run_ids, "--out", str(folder / "runs.zip"))
    commands["import"] = ["import", str(folder / "runs.zip")]
    for number in range(kills):
        name = list(commands)[number % len(commands)]
        if name in ("ingest", "import"):
            shutil.rmtree(home)
        (folder / "out.zip").unlink(missing_ok=True)
        process = subprocess.Popen(command(*commands[name]), env=environment(home), stdout=subprocess.DEVNULL)
        time.sleep(draw.random() * 3)
        process.kill()
        state = "killed" if process.wait() else "already done"
        again = run(home, *commands[name])
        verified = json.loads(run(home, "verify", "--json").stdout)
        is_whole = (verified["ok"], verified["agree"]) == (True, 8)
        is_clean = again.returncode == 0 or "already exists" in again.stderr
        leftovers = list(home.rglob(".importing-*"))
        yield f"{name} {state}, whole" if is_whole and is_clean and not leftovers else f"escaped: {name}"


def stores(folder: Path, draw: random.Random, kills: int) -> Outcomes:
    """The store's file is cut at 12 places, and has zeros at 12."""
    whole = folder / "home"
    with Store(whole) as store:
        store.ingest.run(write_sample_run(store.runs_folder, run_id="r1"))
    data = (whole / "lab.duckdb").read_bytes()
    for number in range(24):
        at = draw.randrange(len(data))
        damaged = data[:at] if number % 2 else data[:at] + bytes(min(4096, len(data) - at)) + data[at + 4096 :]
        (whole / "lab.duckdb").write_bytes(damaged)
        listed = run(whole, "list")
        lines = [line for line in listed.stderr.splitlines() if line]
        if listed.returncode == 0:
            yield "opens"
        else:
            yield "one line" if len(lines) == 1 and len(lines[0]) < 1200 else f"escaped: {lines[-1:]}"


def flip(file: Path, draw: random.Random) -> None:
    file.write_bytes(flipped(file.read_bytes(), draw))


def flipped(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def replace(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink(missing_ok=True)
    make(path)


def spoil(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "store", *arguments]


def environment(home: Path) -> dict[str, str]:
    return os.environ | {"LAB_HOME": str(home)}


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), env=environment(home), capture_output=True, text=True, check=False)


ATTACKS: dict[str, Callable[[Path, random.Random, int], Outcomes]] = {
    "flips": flips,
    "folders": folders,
    "zips": zips,
    "kills": kills,
    "stores": stores,
}

if __name__ == "__main__":
    main()
