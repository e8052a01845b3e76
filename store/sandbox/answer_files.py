"""An answer as a file or as plain rows: CSV, Parquet, Arrow, JSON. Types that a format lacks become JSON text."""

from __future__ import annotations

import datetime
import io
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from engine.core.format import without_formula


def to_csv(table: pa.Table) -> bytes:
    """UTF-8 with a header; lists and structs as JSON, bytes in hexadecimal, a missing value as an empty field.

    NaN and infinity are nan and inf. A text that a spreadsheet would run as a formula gets an apostrophe.
    """
    sink = io.BytesIO()
    plain = flat(table)
    columns = [_guarded(column) for column in plain.columns]
    pa.csv.write_csv(pa.table(columns, names=[without_formula(name) for name in plain.column_names]), sink)
    return sink.getvalue()


def flat(table: pa.Table) -> pa.Table:
    """The table with lists and structs as JSON text, and bytes in hexadecimal."""
    return pa.table([_flat(column) for column in table.columns], names=table.column_names)


def to_parquet(table: pa.Table) -> bytes:
    """Parquet; if the table has a type that Parquet lacks, lists and structs become JSON text."""
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
    """One object per row, for JSON: times in ISO form, NaN and infinity as the texts of `json_value`."""
    return [{name: json_value(value) for name, value in row.items()} for row in table.to_pylist()]


def json_value(value: Any) -> Any:
    """A value for JSON, which has no NaN and no infinity: they are the texts NaN, Infinity and -Infinity.

    They are not null: null is a missing value.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else json.dumps(value)
    if isinstance(value, Decimal):
        return int(value) if value == int(value) and abs(value) < 2**63 else f"{value:f}"
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
    """A column of a type that CSV can hold."""
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


def _guarded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    texts = [None if text is None else without_formula(text) for text in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.large_string())])


def _without_nulls(table: pa.Table) -> pa.Table:
    """Columns of Arrow's null type as text: some Parquet readers do not know that type."""
    fields = [pa.field(field.name, pa.string()) if pa.types.is_null(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields))
