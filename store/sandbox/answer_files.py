"""An answer as a file or as plain rows: CSV, Parquet, Arrow, JSON. What a format has no place for becomes JSON text."""

from __future__ import annotations

import datetime
import io
import json
import math
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet


def to_csv(table: pa.Table) -> bytes:
    """UTF-8 with a header; lists and structs as JSON, bytes in hexadecimal, nothing where a value is missing."""
    sink = io.BytesIO()
    pa.csv.write_csv(flat(table), sink)
    return sink.getvalue()


def flat(table: pa.Table) -> pa.Table:
    """The same table with lists and structs as JSON text, and bytes in hexadecimal."""
    return pa.table([_flat(column) for column in table.columns], names=table.column_names)


def to_parquet(table: pa.Table) -> bytes:
    """Parquet; an answer with a kind of value that it has no place for gets its lists and structs as JSON text."""
    sink = io.BytesIO()
    plain = _without_nulls(table)
    try:
        pa.parquet.write_table(plain, sink)
    except pa.ArrowNotImplementedError:
        sink = io.BytesIO()
        pa.parquet.write_table(flat(plain), sink)
    return sink.getvalue()


def to_arrow(table: pa.Table) -> bytes:
    """An Arrow IPC file."""
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return sink.getvalue()


def to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """An object a row, of values that JSON has: times in ISO form, what is no finite number null."""
    return [{name: json_value(value) for name, value in row.items()} for row in table.to_pylist()]


def json_value(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(name): json_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(part) for part in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that CSV can hold."""
    kind = column.type
    if pa.types.is_nested(kind):
        texts = [None if v is None else json.dumps(json_value(v), ensure_ascii=False) for v in column.to_pylist()]
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        texts = [None if v is None else v.hex() for v in column.to_pylist()]
    elif pa.types.is_null(kind):
        texts = [None] * len(column)
    else:
        return column
    return pa.chunked_array([pa.array(texts, pa.string())])


def _without_nulls(table: pa.Table) -> pa.Table:
    """Columns that hold nothing at all as text: some readers of Parquet know no type for nothing."""
    fields = [pa.field(field.name, pa.string()) if pa.types.is_null(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields))
