"""`python -m pages report`: a run, a comparison, a sweep or a load test as one HTML file.

Exit status: 0 done; 1 the store is held by a process that does not answer; 2 bad input.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from engine.core.errors import first_line
from engine.core.format import fit_terminal, size
from engine.core.home import lab_home
from engine.core.terminal import BAD_INPUT, OneLineParser

DONE, REFUSED = 0, 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    fit_terminal(sys.stdout, sys.stderr)
    options = build_parser().parse_args(arguments)
    from store import StoreHeld  # after the options, so that --help answers at once

    try:
        require_names(options.names)
        require_new(options.out)
        written = write_report(lab_home(), options.names, options.out)
    except StoreHeld as error:
        print(f"pages: {error}", file=sys.stderr)
        return REFUSED
    except (ValueError, OSError) as error:
        print(f"pages: {first_line(error)}", file=sys.stderr)
        return BAD_INPUT
    print(
        json.dumps(written)
        if options.json
        else f"{written['kind']} report, {size(options.out.stat().st_size)}, written to {options.out}"
    )
    return DONE


def build_parser() -> OneLineParser:
    parser = OneLineParser(prog="python -m pages", description="What the app shows, as files.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    report = commands.add_parser(
        "report",
        help="write a run, a comparison, a sweep or a load test as one HTML file",
        description="Write one HTML file with the figures, findings, settings and the command that repeats it. It "
        "opens in a browser without a network. Name a run, two to four runs to compare, or an experiment. While the "
        "app runs, the command asks it.",
    )
    report.add_argument(
        "names", nargs="+", metavar="RUN_ID|EXPERIMENT_ID", help="what to report; `store list` shows runs"
    )
    report.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the HTML file to write; it must be new"
    )
    report.add_argument("--json", action="store_true", help="print JSON")
    return parser


def require_names(names: Sequence[str]) -> None:
    """ValueError for a name that cannot be an id."""
    for name in names:
        if not name.isprintable():
            raise ValueError(f"{name!r}: an id has letters, digits, - and _ only")


def require_new(out: Path) -> None:
    """ValueError for a file that exists, or whose folder does not."""
    if os.path.lexists(out):
        raise ValueError(f"{out} already exists; name another file")
    if not out.absolute().parent.is_dir():
        raise ValueError(f"{out.parent}: no such folder")


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Streamlit warns that no app runs; the level of before comes back at the end."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def write_report(home: Path, names: Sequence[str], out: Path) -> dict[str, object]:
    """Write the report, completely or not at all. ValueError, in one line, for names that cannot be reported."""
    with _no_warnings():
        from pages.report.html_page import report_html
        from pages.report.source import open_store, report_of

        with open_store(home, names) as store:
            report = report_of(store, names)
            page = report_html(report).encode()
    partial = out.with_name(f".{out.name}.partial-{os.getpid()}")
    try:
        partial.write_bytes(page)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return {"file": str(out.absolute()), "bytes": len(page), "kind": report.kind, "subjects": list(report.subjects)}
