"""The run log's tables, column by column. Seconds are on the run's clock: 0 is the start of the measured part.

A run folder holds `run.json` (written first), one Arrow IPC stream per table, and `result.json` (written last, by
atomic rename). Streams are append-only. `requests` and `spans` get a row at each change, keyed by `request_id` and
`span_id`; the non-null values of a later row win. All other tables are plain rows.
"""

from __future__ import annotations

import pyarrow as pa

SCHEMA_VERSION = 2  # 2 adds blocks, events, chunks, KV memory contents; version 1 is read with nulls for these

RUN_FILE = "run.json"
RESULT_FILE = "result.json"
LOCK_FILE = "lock"
WATCHED_FILE = "watched"


def _table(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns])


REQUESTS = _table(
    ("request_id", pa.int32()),
    ("state", pa.string()),  # waiting, running, finished, stopped
    ("label", pa.string()),  # chat, p16, file …
    ("prompt_tokens", pa.int32()),
    ("asked_prompt_tokens", pa.int32()),  # the exact length in the configuration; null where there is none
    ("budget_tokens", pa.int32()),
    ("ignore_eos", pa.bool_()),
    ("arrival_s", pa.float64()),  # planned
    ("submitted_s", pa.float64()),  # when the engine received it
    ("admitted_s", pa.float64()),
    ("finished_s", pa.float64()),  # when its last token was produced
    ("returned_s", pa.float64()),  # when the whole batch was returned (full response mode); null when streamed
    ("lane", pa.int32()),
    ("output_tokens", pa.int32()),
    ("finish_reason", pa.string()),  # budget, eos
    ("preemptions", pa.int32()),  # how often it lost its blocks and was computed again
    ("prompt_text", pa.string()),
    ("output_text", pa.string()),
)

PASSES = _table(
    ("pass_index", pa.int32()),
    ("step", pa.int32()),
    ("kind", pa.string()),  # prefill, decode, mixed
    ("start_s", pa.float64()),
    ("end_s", pa.float64()),
    ("issue_s", pa.float64()),
    ("device_s", pa.float64()),
    ("rows", pa.int32()),  # rows that yield a token
    ("live_rows", pa.int32()),
    ("chunk_rows", pa.int32()),  # additional rows in the middle of chunked prefill, which yield no token
    ("tokens", pa.int32()),  # new tokens computed, including the padding of a padded batch
    ("bucket_tokens", pa.int32()),  # with the padding of the CUDA graph's bucket; null for a pass that was not captured
    ("recomputed_tokens", pa.int32()),  # of these, tokens computed before and lost to a preemption
    ("width", pa.int32()),
    ("masked", pa.bool_()),
    ("prompt_tokens", pa.int32()),
    ("queue_depth", pa.int32()),
    ("computed_positions", pa.int64()),
    ("padding_positions", pa.int64()),
    ("dead_positions", pa.int64()),
    ("kv_reserved_positions", pa.int64()),
    ("kv_used_positions", pa.int64()),
    ("kv_padding_positions", pa.int64()),
    ("kv_dead_positions", pa.int64()),
    ("kv_fragment_positions", pa.int64()),
)

TOKENS = _table(
    ("request_id", pa.int32()),
    ("token_index", pa.int32()),
    ("token_id", pa.int32()),
    ("pass_index", pa.int32()),
    ("produced_s", pa.float64()),
    ("delivered_s", pa.float64()),  # null in full response mode: see requests.returned_s
)

SPANS = _table(
    ("span_id", pa.int32()),
    ("lane", pa.int32()),
    ("slot", pa.int32()),
    ("request_id", pa.int32()),  # null for empty
    ("phase", pa.string()),  # prefill, decode, dead, empty
    ("chunk", pa.int32()),  # index of the prefill chunk, from 0; null without chunked prefill
    ("start_pass", pa.int32()),
    ("end_pass", pa.int32()),  # exclusive; null while open
    ("start_s", pa.float64()),
    ("end_s", pa.float64()),
)

MEMORY = _table(
    ("time_s", pa.float64()),
    ("pass_index", pa.int32()),
    ("allocated_bytes", pa.int64()),  # the device's allocator; on a CPU the process's resident set
    ("peak_bytes", pa.int64()),
    ("kv_bytes", pa.int64()),
    ("free_bytes", pa.int64()),
)

BLOCKS = _table(
    ("block_id", pa.int32()),
    ("request_id", pa.int32()),
    ("table_index", pa.int32()),  # its index in the request's block table
    ("allocated", pa.bool_()),  # false: freed
    ("pass_index", pa.int32()),  # the next pass
    ("time_s", pa.float64()),  # that pass's start
)

EVENTS = _table(
    ("event", pa.string()),  # preempt
    ("request_id", pa.int32()),
    ("lane", pa.int32()),
    ("blocks", pa.int32()),  # freed
    ("tokens", pa.int32()),  # positions to compute again
    ("pass_index", pa.int32()),  # the next pass
    ("time_s", pa.float64()),
)

STREAMS: dict[str, pa.Schema] = {
    "requests": REQUESTS,
    "passes": PASSES,
    "tokens": TOKENS,
    "spans": SPANS,
    "memory": MEMORY,
    "blocks": BLOCKS,
    "events": EVENTS,
}

KEYED: dict[str, str] = {"requests": "request_id", "spans": "span_id"}


def stream_file(name: str) -> str:
    return f"{name}.arrows"
