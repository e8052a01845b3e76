"""The sandbox's process: opens the snapshot, answers one SELECT, and ends. Runs as a script, for a fast start.

Reads a line of JSON from stdin (path, sql, timeout_s, max_rows, max_bytes); writes one line of JSON, then the answer as
an Arrow stream. The SQL cannot reach anything else: the snapshot is opened read-only, external access is off and the
configuration locked; DuckDB and the system bound memory; no file can be written; the process ends at an alarm, and when
its stdin closes, as it does when its parent dies. The allowed statements are checked in the parsed statement, not in
its text.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

MEMORY_LIMIT_BYTES = 512 << 20
ALLOWANCE_BYTES = 768 << 20  # address space beyond what the process uses at start
BATCH_ROWS = 2048

# What a query may read besides the snapshot's tables: functions that make rows, and descriptions of tables.
TABLE_FUNCTIONS = frozenset(
    {
        "range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree",
        "duckdb_columns", "duckdb_tables", "duckdb_views", "duckdb_functions", "duckdb_types", "duckdb_keywords",
        "pragma_table_info", "pragma_version", "pg_timezone_names",
    }
)  # fmt: skip
SYSTEM_VIEWS = frozenset({"duckdb_columns", "duckdb_tables", "duckdb_views", "duckdb_types", "duckdb_constraints"})
# Scalar functions that reveal this machine, write, or take SQL as text.
FORBIDDEN_FUNCTIONS = frozenset(
    {"current_setting", "write_log", "nextval", "currval", "setval", "query", "query_table", "json_serialize_plan"}
)
QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
ALLOWED = "Use one SELECT (or FROM, WITH, VALUES, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN)"

# Types that Arrow cannot hold, or whose largest values or time zone it loses. They leave as DuckDB's own text.
_INEXACT = re.compile(r"\b(UHUGEINT|BIT|BIGNUM|TIME WITH TIME ZONE)\b")
_NESTED_TIME = re.compile(r"\bTIME\b(?=.*[\[\])])")  # 24:00:00 inside a list or struct; a column of times is exact
_EXPLAIN = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*EXPLAIN(?:\s+ANALYZE\b|\s*\([^()]*\))?\s+(?=\S)", re.IGNORECASE | re.DOTALL
)


class Refused(Exception):
    """The statement is not allowed. `place` is its position in the text, a byte and a length, or None if unknown."""

    def __init__(self, message: str, place: tuple[int, int] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place


def main() -> None:
    """Run the query on stdin. A failed statement is reported as a reply; the process exits with 0."""
    order: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()
    signal.setitimer(signal.ITIMER_REAL, order["timeout_s"] + 1.0)  # SIGALRM ends the process
    began = time.perf_counter()
    connection, body = None, b""
    header: dict[str, Any] = {"outcome": "refused", "reason": "memory", "message": "", "place": None}
    try:
        connection = open_snapshot(order["path"])
        bound_process(order["timeout_s"])
        sql = checked(connection, order["sql"])
        body, header = answer(connection, sql, order["max_rows"], order["max_bytes"])
    except Refused as refused:
        header |= {"reason": "statement", "message": refused.message, "place": refused.place}
    except duckdb.Error as error:
        header = failure(connection, order["sql"], error)
    except MemoryError:
        pass
    except RecursionError:
        header |= {"reason": "statement", "message": "The statement is nested too deeply."}
    except Exception as error:  # such as a kind of statement that the Python package does not know
        header |= {"reason": "statement", "message": f"{ALLOWED}: {str(error)[:200]}"}
    header["seconds"] = time.perf_counter() - began
    header["message"] = header.get("message", "").replace(order["path"], "the snapshot")
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n")
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
    os._exit(0)  # skip DuckDB's shutdown


def _end_with_stdin() -> None:
    """End this process when its parent closes the pipe or dies. DuckDB runs without Python's lock."""
    sys.stdin.buffer.read()
    os._exit(1)


def open_snapshot(path: str) -> duckdb.DuckDBPyConnection:
    """A connection that can only read the snapshot, with a locked configuration."""
    connection = duckdb.connect(
        path,
        read_only=True,
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": f"{MEMORY_LIMIT_BYTES >> 20}MiB",
            "temp_directory": "",
            "threads": "2",
            "home_directory": "/nonexistent",
            "secret_directory": "/nonexistent",
            "errors_as_json": "true",
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET python_enable_replacements = false")  # a table name never refers to a Python variable
    connection.execute("SET lock_configuration = true")
    return connection


def bound_process(timeout_s: float) -> None:
    """Bound memory, time and files of this process permanently."""
    import pyarrow  # noqa: F401  its libraries must load before memory is bounded

    bounds = {
        resource.RLIMIT_CPU: int(timeout_s * 2) + 2,  # two threads
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    size = Path("/proc/self/statm")  # Linux only; elsewhere DuckDB's own limit applies
    if size.exists():
        bounds[resource.RLIMIT_AS] = int(size.read_text().split()[0]) * resource.getpagesize() + ALLOWANCE_BYTES
    for what, bound in bounds.items():
        resource.setrlimit(what, (bound, bound))


def answer(
    connection: duckdb.DuckDBPyConnection, sql: str, max_rows: int, max_bytes: int
) -> tuple[bytes, dict[str, Any]]:
    """The first rows of the answer as an Arrow stream, and the limit that cut it short: `rows`, `bytes` or None.

    `whole` has the places of columns with whole numbers as text, because they may have more than 64 bits.
    """
    import pyarrow as pa

    relation = connection.sql(sql)  # streams rows; execute() would materialize all of them
    as_text = [bool(_INEXACT.search(str(kind)) or _NESTED_TIME.search(str(kind))) for kind in relation.types]
    whole = [place for place, kind in enumerate(relation.types) if str(kind) == "UHUGEINT"]
    if any(as_text):
        names = [name.replace('"', '""') for name in relation.columns]
        columns = (f"#{n}{'::VARCHAR' if text else ''}" for n, text in enumerate(as_text, 1))
        relation = relation.project(", ".join(f'{c} AS "{name}"' for c, name in zip(columns, names, strict=True)))
    reader = relation.to_arrow_reader(BATCH_ROWS)
    batches, rows, size, more = [], 0, 0, None
    for batch in reader:
        if rows + batch.num_rows > max_rows:
            batch, more = batch.slice(0, max_rows - rows), "rows"
        size += batch.nbytes
        if size > max_bytes:
            more = "bytes"
            break
        batches.append(batch)
        rows += batch.num_rows
        if more is not None:
            break
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, reader.schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue(), {"outcome": "answer", "more": more, "whole": whole}


def checked(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """`sql` itself, if it is one allowed statement. Refused for no statement, several, or one that is not allowed."""
    statements = connection.extract_statements(sql)
    if not statements:
        raise Refused(f"{ALLOWED}: the text has no statement.")
    if len(statements) > 1:
        place = len(statements[0].query.encode())
        raise Refused(f"{ALLOWED}: the text has {len(statements)} statements.", (place, 1))
    try:
        kind = statements[0].type
    except ValueError:  # a kind that the Python package does not know, such as UPDATE EXTENSIONS
        raise Refused(f"{ALLOWED}: this is another statement.") from None
    if kind == duckdb.StatementType.EXPLAIN:
        explain = _EXPLAIN.match(sql)
        if explain is None:
            raise Refused(f"{ALLOWED}; write EXPLAIN before the SELECT.")
        checked(connection, sql[explain.end() :])
    elif kind != duckdb.StatementType.SELECT:
        hint = "; give PIVOT its columns: IN ('a', 'b')" if "PIVOT" in sql.upper() else ""
        raise Refused(f"{ALLOWED}: this is {_named(kind)}{hint}.")
    else:
        check_tree(connection, sql)
    return sql


def check_tree(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse a parsed SELECT that changes data, or uses functions or views that reveal the machine."""
    rows = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    try:
        tree = json.loads(rows[0][0])
    except RecursionError:
        raise Refused("The statement is nested too deeply.") from None
    if tree.get("error"):
        raise Refused(f"{ALLOWED}: {tree.get('error_message', 'the statement cannot be parsed')}.")
    for node in _nodes(tree):
        kind = str(node.get("type", ""))
        if kind.endswith("_NODE") and kind not in QUERY_NODES:
            raise Refused(f"{ALLOWED}: the statement contains {kind.split('_')[0]}.", _place(node))
        if kind == "TABLE_FUNCTION":
            _check_function(node["function"], TABLE_FUNCTIONS, _place(node))
        elif kind == "BASE_TABLE":
            _check_view(str(node.get("table_name", "")).lower(), _place(node))
        elif str(node.get("function_name", "")).lower() in FORBIDDEN_FUNCTIONS:
            raise Refused(f"{node['function_name']}() is not available here.", _place(node))


def _check_function(function: Any, allowed: frozenset[str], place: tuple[int, int] | None) -> None:
    name = str(function.get("function_name", "")) if isinstance(function, Mapping) else ""
    if name.lower() not in allowed:
        raise Refused(f"{name}() is not available here: query the store's tables only.", place)


def _check_view(name: str, place: tuple[int, int] | None) -> None:
    is_system = name.startswith(("duckdb_", "pragma_")) or name == "pg_settings"
    if is_system and name not in SYSTEM_VIEWS:
        raise Refused(f"{name} is not available here: query the store's tables only.", place)


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in the tree, outer objects first."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            yield node
            waiting += reversed(list(node.values()))
        elif isinstance(node, list):
            waiting += reversed(node)


def _place(node: Mapping[str, Any]) -> tuple[int, int] | None:
    begin, length = node.get("query_location"), node.get("query_location_length")
    return (begin, length) if isinstance(begin, int) and isinstance(length, int) and length else None


def _named(kind: Any) -> str:
    """The statement's name, such as `INSERT`; `several statements in one` if it consists of several."""
    name = str(kind).rpartition(".")[2]
    return "several statements in one" if name == "MULTI" else name


def failure(connection: duckdb.DuckDBPyConnection | None, sql: str, error: duckdb.Error) -> dict[str, Any]:
    """DuckDB's error message for the statement, and its place in the text.

    A streamed query reports some errors without a place; planning the statement again with EXPLAIN gives it.
    """
    header = _error_header(error, 0)
    if connection is None:
        return header | {"reason": "missing", "message": "The snapshot cannot be read."}
    if header["place"] is not None or header["reason"] == "memory":
        return header
    explain = "" if _EXPLAIN.match(sql) else "EXPLAIN "
    try:
        connection.execute(f"{explain}{sql}").fetchall()
    except duckdb.Error as again:
        if type(again) is type(error):
            return _error_header(again, len(explain))
    return header


def _error_header(error: duckdb.Error, shift: int) -> dict[str, Any]:
    kind, _, rest = str(error).partition(": ")
    try:
        details = json.loads(rest)
    except json.JSONDecodeError:
        details = {"exception_message": rest}
    begin, length = json.loads(details["location"]) if "location" in details else (int(details.get("position", -1)), 1)
    return {
        "outcome": "refused",
        "reason": "memory" if isinstance(error, duckdb.OutOfMemoryException) else "error",
        "message": f"{kind}: {details.get('exception_message')}",
        "place": (begin - shift, length) if begin >= shift else None,
    }


if __name__ == "__main__":
    main()
