"""What `export` and `import` of the command line do, as plain data in and out, here or in the owner's process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from store.transfer.exporter import export_runs, runs_named
from store.transfer.importer import import_runs
from store.transfer.tables import export_csv, export_parquet

if TYPE_CHECKING:
    from store.store import Store


def export(store: Store, request: Mapping[str, Any]) -> dict[str, Any]:
    """`form` is `runs`, `parquet` or `csv`; `out` the file or folder; `names` the runs and experiments, if not all.

    ValueError in one line for what cannot be exported.
    """
    out, names = Path(request["out"]), list(request["names"])
    if request["form"] == "parquet":
        written = export_parquet(store, out)
        return {"folder": str(out), "tables": written.rows}
    run_ids = runs_named(store, names)
    if request["form"] == "csv":
        written = export_csv(store, out, run_ids if names else None)
        return {"file": str(out), "rows": written.rows["runs"]}
    exported = export_runs(store, run_ids, out)
    return {"file": str(out), "bytes": exported.bytes, "runs": list(exported.run_ids)}


def take_files(store: Store, paths: list[Path]) -> dict[str, Any]:
    """Import files, each whole or not at all: an object a run, and a line for each file that was refused."""
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise ValueError(f"{missing[0]}: there is no such file")
    runs: list[dict[str, Any]] = []
    problems: list[str] = []
    for path in paths:
        try:
            done = import_runs(store, path)
        except (ValueError, OSError) as error:
            problems.append(str(error).splitlines()[0])
            continue
        runs += [{"run_id": run_id, "file": str(path), "is_new": True} for run_id in done.new]
        runs += [{"run_id": run_id, "file": str(path), "is_new": False} for run_id in done.known]
    return {"runs": runs, "problems": problems}
