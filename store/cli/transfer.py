"""`export` and `import` on the command line: their options, requests and printed replies.

Requests and replies are plain data, because the process that has the store open may handle them.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from engine.core.errors import first_line
from engine.core.format import size
from store.database import StoreFull
from store.store import Store
from store.transfer.exporter import default_name, export_runs, runs_named
from store.transfer.importer import import_runs
from store.transfer.tables import export_csv, export_parquet


class Commands(Protocol):
    """The object that argparse's add_subparsers returns."""

    def add_parser(self, name: str, **kwargs: Any) -> argparse.ArgumentParser: ...


def add_transfer_commands(commands: Commands) -> tuple[argparse.ArgumentParser, ...]:
    """Add `export` and `import`."""
    export = commands.add_parser(
        "export",
        help="write runs to one file, or the store's tables for other tools",
        description="Write runs, or all runs of experiments, to one zip for `import` on another machine. "
        "--parquet writes every table of the store; --csv writes the metrics of runs, one row per run.",
    )
    export.add_argument("names", nargs="*", metavar="RUN_ID|EXPERIMENT_ID", help="the runs or experiments to export")
    export.add_argument(
        "--out", type=Path, metavar="FILE", help="the zip to write (default: RUN_ID.zip in the current folder)"
    )
    export.add_argument("--parquet", type=Path, metavar="FOLDER", help="write every table of the store as Parquet")
    export.add_argument("--csv", type=Path, metavar="FILE", help="write the metrics of these runs, or of all, as CSV")
    importing = commands.add_parser(
        "import",
        help="import files written by export",
        description="Import runs from files written by `export`. Each file is imported completely or not at all. Runs "
        "already in the store stay unchanged.",
    )
    importing.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a zip written by export")
    return export, importing


def export_request(options: argparse.Namespace) -> dict[str, Any]:
    """The request of an `export`. ValueError for options that do not go together."""
    forms = [name for name in ("out", "parquet", "csv") if getattr(options, name) is not None]
    if len(forms) > 1:
        raise ValueError(f"--{forms[0]} and --{forms[1]} do not go together; use one of them")
    form = "runs" if forms in ([], ["out"]) else forms[0]
    if form == "runs" and not options.names:
        raise ValueError("export: name a run or an experiment; `list` shows them")
    if form == "parquet" and options.names:
        raise ValueError("--parquet writes the whole store; leave out the run ids")
    out = getattr(options, forms[0]) if forms else Path(default_name(options.names))
    return {"command": "export", "form": form, "names": options.names, "out": str(out.absolute())}


def export(store: Store, request: Mapping[str, Any]) -> dict[str, Any]:
    """Export. `form`: `runs`, `parquet` or `csv`; `out`: the file or folder; `names`: runs and experiments, or none for
    all.

    ValueError in one line if the export is not possible.
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


def import_files(store: Store, paths: list[Path]) -> dict[str, Any]:
    """Import files, each completely or not at all: one object per run, one line for each refused file."""
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise ValueError(f"{missing[0]}: no such file")
    runs: list[dict[str, Any]] = []
    problems: list[str] = []
    for path in paths:
        try:
            done = import_runs(store, path)
        except StoreFull:
            raise
        except Exception as error:
            problems.append(first_line(error))
            continue
        runs += [{"run_id": run_id, "file": str(path), "is_new": True} for run_id in done.new]
        runs += [{"run_id": run_id, "file": str(path), "is_new": False} for run_id in done.known]
    return {"runs": runs, "problems": problems}


def shown_export(reply: Mapping[str, Any]) -> list[str]:
    if "tables" in reply:
        lines = [f"{table}  {rows:,} rows" for table, rows in reply["tables"].items()]
        return [*lines, f"written to {reply['folder']}"]
    if "rows" in reply:
        return [f"runs written: {reply['rows']:,}, to {reply['file']}"]
    return [f"runs written: {len(reply['runs']):,}, {size(reply['bytes'])}, to {reply['file']}"]


def shown_import(reply: Mapping[str, Any]) -> list[str]:
    return [f"{run['run_id']}  {'new' if run['is_new'] else 'already in the store'}" for run in reply["runs"]]
