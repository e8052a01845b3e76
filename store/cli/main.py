"""`python -m store`: ingest run folders, list runs, query in SQL, export and import runs, verify the store.

Exit status: 0 done; 1 a folder could not be ingested, a run differs, a query failed, the disk is full, or the store is
held; 2 bad input, or a statement that is not allowed. A store that can only be read is listed, queried and exported as
it is.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from engine.core.errors import first_line, shortened
from engine.core.format import fit_terminal
from engine.core.home import lab_home
from engine.core.terminal import BAD_INPUT, OneLineParser, table_lines
from store.cli.commands import READ_ONLY, answer, read_only_answer
from store.cli.owner import ask_owner
from store.cli.query import add_query_command, parse_query, print_answer
from store.cli.transfer import add_transfer_commands, export_request, shown_export, shown_import
from store.database import StoreHeld
from store.store import Store

DONE, REFUSED = 0, 1
UNUSABLE_FOLDER = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
OWNER_PATIENCE_S = 3.0
READ_ONLY_NOTE = "the store can only be read here: runs that it does not have yet are left out"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    fit_terminal(sys.stdout, sys.stderr)
    options = build_parser().parse_args(arguments)
    try:
        request = _request(options)
        query = parse_query(options) if options.command == "query" else None
        reply, problems = _carry_out(lab_home(), request)
    except StoreHeld as error:
        print(f"store: {error}", file=sys.stderr)
        return REFUSED
    except (ValueError, *UNUSABLE_FOLDER) as error:
        print(f"store: {first_line(error)}", file=sys.stderr)
        return BAD_INPUT
    except (OSError, duckdb.Error) as error:
        print(f"store: {first_line(error)}", file=sys.stderr)
        return REFUSED
    for problem in problems:
        print(f"store: {shortened(problem)}", file=sys.stderr)
    for problem in reply["problems"] if options.command == "import" else ():
        print(f"store: {shortened(problem)}", file=sys.stderr)
    if query is not None:
        return print_answer(options, query, reply)
    if options.json:
        print(json.dumps(reply))
    else:
        for line in SHOWN[options.command](reply):
            print(line)
    return _status(options.command, reply)


def _request(options: argparse.Namespace) -> dict[str, Any]:
    """The request for the store. ValueError for options that do not go together."""
    if options.command == "export":
        return export_request(options)
    if options.command == "query":
        return {"command": "snapshot"}
    request: dict[str, Any] = {"command": options.command}
    if options.command == "ingest":
        request["paths"] = [str(path.resolve()) for path in options.paths]
    if options.command == "import":
        request["paths"] = [str(path.absolute()) for path in options.files]
    return request


def build_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="python -m store",
        description="The store of runs: LAB_HOME/lab.duckdb (LAB_HOME is ./data unless set). "
        "While the app runs, commands go through the app.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    ingest = commands.add_parser("ingest", help="ingest folders of runs and experiments")
    what = "a folder of a run or an experiment, or a folder that contains such folders"
    ingest.add_argument("paths", nargs="+", type=Path, metavar="PATH", help=what)
    listing = commands.add_parser("list", help="list the runs in the store, newest first")
    query = add_query_command(commands)
    transfers = add_transfer_commands(commands)
    verify = commands.add_parser("verify", help="check the store against the run logs")
    for command in (ingest, listing, query, *transfers, verify):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _carry_out(home: Path, request: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Run a request here if the store is free, else in the process that has it. StoreHeld if that does not answer.

    Returns the reply, and a line for each folder that could not be ingested.
    """
    try:
        with Store(home) as store:
            if store.is_read_only:
                return read_only_answer(store, request), [READ_ONLY_NOTE]
            return _reply(lambda one: answer(store, one), request)
    except StoreHeld as held:
        deadline = time.monotonic() + OWNER_PATIENCE_S
        while True:
            try:
                return _reply(lambda one: ask_owner(home, one), request)
            except ConnectionError:
                if time.monotonic() > deadline:
                    raise held from None
                time.sleep(0.1)  # a process that has just opened the store opens its socket last


def _reply(ask: Callable[[Mapping[str, Any]], Any], request: Mapping[str, Any]) -> tuple[Any, list[str]]:
    problems = ask({"command": "refresh"}) if request["command"] in READ_ONLY else []
    return ask(request), [f"not ingested: {problem}" for problem in problems]


def _status(command: str, reply: Any) -> int:
    if command in ("ingest", "import"):
        return REFUSED if reply["problems"] else DONE
    if command == "verify":
        return DONE if reply["ok"] else REFUSED
    return DONE


def _shown_ingest(reply: Mapping[str, Any]) -> list[str]:
    lines = []
    for experiment in reply["experiments"]:
        settled = f"{experiment['settled']} of {experiment['points']} points settled"
        lines.append(f"{experiment['experiment_id']}  {experiment['kind']}, {_change(experiment)}, {settled}")
    for run in reply["runs"]:
        tokens = f"{run['rows']['tokens']:,} tokens ingested"
        lines.append(f"{run['run_id']}  {run['status']}, {_change(run)}, {tokens}")
    return [*lines, *(f"not ingested: {shortened(problem)}" for problem in reply["problems"])]


def _change(report: Mapping[str, Any]) -> str:
    return "new" if report["is_new"] else "updated" if report["has_changed"] else "unchanged"


def _mark(run: Mapping[str, Any]) -> str:
    """`simulated` for a simulated run; empty for a measured one, where the column may be NULL."""
    return "simulated" if run["simulated"] is True else ""


def _shown_list(reply: Sequence[Mapping[str, Any]]) -> list[str]:
    if not reply:
        return ["No runs yet."]
    columns = ("run_id", "created_at", "status", "engine", "model", "slots", "requests", "output_tokens")
    rows = [[*(_cell(run[name]) for name in columns), _mark(run)] for run in reply]
    return table_lines(rows, "l" * (len(columns) + 1), (*columns, ""))


def _cell(value: object) -> str:
    return "–" if value is None else str(value)[:40]


def _shown_verify(reply: Mapping[str, Any]) -> list[str]:
    lines = [f"{run['run_id']}  {run['outcome']}: {line}" for run in reply["runs"] for line in run["lines"]]
    if plain := len(reply["without_checksums"]):
        logs = "log has" if plain == 1 else "logs have"
        lines.append(f"{plain} {logs} no checksums (older version, or crashed): only rows and totals are compared")
    return [*lines, f"{reply['agree']} runs agree, {reply['differ']} differ, {reply['unchecked']} not checked"]


SHOWN: dict[str, Callable[[Any], list[str]]] = {
    "ingest": _shown_ingest,
    "list": _shown_list,
    "export": shown_export,
    "import": shown_import,
    "verify": _shown_verify,
}
