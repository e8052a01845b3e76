"""`python -m store query`: one SELECT over the snapshot, in the sandbox, as a table, JSON rows, or a file.

The process that has the store open publishes the snapshot; the query runs in a child of this process.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.core.format import NO_BREAK_SPACE
from engine.core.terminal import table_lines
from store.cli.transfer import Commands
from store.sandbox import Answer, Asking, Limits, Refusal
from store.sandbox.answer_files import json_value, to_csv, to_parquet, to_rows
from store.sandbox.asking import MAX_ROWS, MAX_SQL_CHARACTERS, MAX_TIMEOUT_S

CELL_CHARACTERS = 60
DONE, REFUSED, BAD_INPUT = 0, 1, 2
UNREADABLE = ("Parser Error", "Binder Error", "Catalog Error")


def add_query_command(commands: Commands) -> argparse.ArgumentParser:
    """Add `query`."""
    query = commands.add_parser(
        "query",
        help="query the store in SQL",
        description="Run one SELECT over the store's tables, also while the app runs. The query reads a snapshot, in a "
        'separate process that can change nothing. Try: "SHOW TABLES", "DESCRIBE run_metrics", '
        '"SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal".',
    )
    query.add_argument("sql", metavar="SQL", help="the statement; - reads it from standard input")
    query.add_argument("--max-rows", type=int, default=1000, metavar="N", help=f"maximum rows, 1 to {MAX_ROWS} (1000)")
    query.add_argument(
        "--timeout", type=float, default=5.0, metavar="S", help=f"maximum seconds, 0.1 to {MAX_TIMEOUT_S:g} (5)"
    )
    form = query.add_mutually_exclusive_group()
    form.add_argument("--csv", type=Path, metavar="FILE", help="write the result as CSV")
    form.add_argument("--parquet", type=Path, metavar="FILE", help="write the result as Parquet")
    return query


def parse_query(options: argparse.Namespace) -> tuple[str, Limits]:
    """The statement and its limits. ValueError in one line for bad input."""
    sql = str(options.sql)
    if sql == "-":
        sql = sys.stdin.read(MAX_SQL_CHARACTERS + 1) if sys.stdin is not None else ""
    if not sql.strip():
        raise ValueError('query: the statement is empty; try "SHOW TABLES"')
    if len(sql) > MAX_SQL_CHARACTERS:
        raise ValueError(f"query: the statement is longer than {MAX_SQL_CHARACTERS:,} characters")
    if any("\ud800" <= character <= "\udfff" for character in sql):
        raise ValueError("query: the statement is not UTF-8 text")
    for target in (options.csv, options.parquet):
        if target is not None and not target.absolute().parent.is_dir():
            raise ValueError(f"{target}: no such folder")
        if target is not None and target.is_dir():
            raise ValueError(f"{target} is a folder; name a file")
    return sql, Limits(timeout_s=options.timeout, max_rows=options.max_rows)


def print_answer(options: argparse.Namespace, query: tuple[str, Limits], snapshot: Mapping[str, Any]) -> int:
    """Run a query and print or write its result. Returns the exit status; errors go to stderr."""
    asking = Asking(Path(snapshot["path"]), *query)
    try:
        answer = asking.result()
    except Refusal as refusal:
        print(f"store: {printable(refusal.explained())}", file=sys.stderr)
        return BAD_INPUT if is_bad_input(refusal) else REFUSED
    except KeyboardInterrupt:
        asking.cancel()
        print("store: canceled", file=sys.stderr)
        return REFUSED
    try:
        _deliver(options, answer)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"store: {options.csv or options.parquet}: {error.strerror or error}", file=sys.stderr)
        return BAD_INPUT
    if answer.more is not None:
        print(f"store: {truncation_text(answer)}; --max-rows allows more", file=sys.stderr)
    return DONE


def is_bad_input(refusal: Refusal) -> bool:
    """Whether the statement is not allowed or has a syntax or name error; other failures happen while it runs."""
    return refusal.reason == "statement" or str(refusal).startswith(UNREADABLE)


def truncation_text(answer: Answer) -> str:
    """Which limit cut the result short."""
    rows = "row" if answer.table.num_rows == 1 else "rows"
    if answer.more == "bytes":
        return f"only the first {answer.table.num_rows:,} {rows}: a result has at most 32\u00a0MiB"
    return f"only the first {answer.table.num_rows:,} {rows}; there are more"


def _deliver(options: argparse.Namespace, answer: Answer) -> None:
    table = answer.table
    for target, convert in ((options.csv, to_csv), (options.parquet, to_parquet)):
        if target is not None:
            target.write_bytes(convert(table))
    is_written = options.csv is not None or options.parquet is not None
    if options.json:
        print(json.dumps(to_rows(table), ensure_ascii=False))
    elif is_written:
        print(f"rows written: {table.num_rows:,}, to {options.csv or options.parquet}")
    else:
        print("\n".join(shown(table)))


def shown(table: pa.Table) -> list[str]:
    """The result as text: aligned columns, numbers to the right, a dash for a missing value."""
    if table.column_names == ["explain_key", "explain_value"]:
        return [str(plan) for plan in table["explain_value"].to_pylist()]
    if table.num_rows == 0:
        return [f"No rows. Columns: {', '.join(map(_cell, table.column_names))}"]
    columns = [[_cell(value) for value in column.to_pylist()] for column in table.columns]
    names = [_cell(name) for name in table.column_names]
    is_number = [pa.types.is_integer(field.type) or pa.types.is_floating(field.type) for field in table.schema]
    return table_lines(zip(*columns, strict=True), "".join("r" if right else "l" for right in is_number), names)


def printable(text: str) -> str:
    """A text without terminal control characters."""
    return "".join(c if c.isprintable() or c in ("\n", NO_BREAK_SPACE) else " " for c in text)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    plain = json_value(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    text = "".join(c if c.isprintable() else "⏎" if c == "\n" else " " for c in text)
    return text if len(text) <= CELL_CHARACTERS else f"{text[: CELL_CHARACTERS - 1]}…"
