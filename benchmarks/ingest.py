"""Ingest speed: a run log of a million tokens, ingested into a new store.

    python -m benchmarks.ingest [--tokens 1000000] [--repeats 3] [--layout slots|paged] [--json]

Also measured: ingesting the same log again (nothing is new), the Run page's queries, and peak memory. With `--layout
paged` the log also has block events, one for every three tokens. Each repeat runs in its own process, because a
process's peak memory never decreases.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.runlog.schema import SCHEMA_VERSION
from engine.runlog.writer import RunLogWriter
from store import Store

RUN_ID = "benchmark"
TOKENS_A_REQUEST = 160
SLOTS = 64
PROMPT_TOKENS = 256
BLOCK_SIZE = 16
POOL_BLOCKS = SLOTS * (PROMPT_TOKENS + TOKENS_A_REQUEST) // BLOCK_SIZE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--layout", choices=("slots", "paged"), default="slots")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--once", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once is not None:
        print(json.dumps(measure(options.once)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = write_log(Path(name) / "elsewhere", options.tokens, options.layout)
        command = [sys.executable, "-m", "benchmarks.ingest", "--once", str(folder)]
        runs = [json.loads(subprocess.check_output(command)) for _ in range(options.repeats)]
    report = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    if options.json:
        print(json.dumps(report))
    else:
        for key, value in report.items():
            print(f"{key:<24} {value:,.3g}" if isinstance(value, float) else f"{key:<24} {value:,}")


def write_log(parent: Path, num_tokens: int, layout: str = "slots") -> Path:
    """Write a run of SLOTS rows and TOKENS_A_REQUEST tokens per request, with a batch every 200 passes."""
    is_paged = layout == "paged"
    engine = "paged" if is_paged else "continuous"
    info = {
        "run_id": RUN_ID,
        "schema_version": SCHEMA_VERSION,
        "engine": engine,
        "kv_layout": layout,
        "kv_blocks": POOL_BLOCKS if is_paged else None,
        "config": {"slots": SLOTS},
    }
    with RunLogWriter(parent / RUN_ID, info) as log:
        for number in range(num_tokens // SLOTS):
            wave, index = divmod(number, TOKENS_A_REQUEST)
            first = wave * SLOTS
            if index == 0:
                _begin_wave(log, first, number)
            _log_pass(log, number, first, index)
            if is_paged:
                _log_blocks(log, number, first, index)
            if index == TOKENS_A_REQUEST - 1:
                _end_wave(log, first, number)
            if number % 200 == 0:
                log.flush()
        log.finish({"status": "completed", "error": None, "oom": None, "totals": {}, "ended_at": None})
    return log.folder


def _begin_wave(log: RunLogWriter, first: int, number: int) -> None:
    ids = list(range(first, first + SLOTS))
    started = [number / 100] * SLOTS
    log.extend(
        "requests",
        {
            "request_id": ids,
            "state": ["running"] * SLOTS,
            "arrival_s": [0.0] * SLOTS,
            "admitted_s": started,
            "prompt_tokens": [PROMPT_TOKENS] * SLOTS,
            "prompt_text": ["Why is the sky blue?"] * SLOTS,
        },
    )
    log.extend(
        "spans",
        {
            "span_id": ids,
            "lane": list(range(SLOTS)),
            "request_id": ids,
            "phase": ["decode"] * SLOTS,
            "start_pass": [number] * SLOTS,
            "start_s": started,
        },
    )


def _log_blocks(log: RunLogWriter, number: int, first: int, index: int) -> None:
    """Log a wave's blocks: those of its prompts first, one more per row every BLOCK_SIZE tokens, all freed at the
    end."""
    if index == 0:
        _log_block_events(log, number, first, range(PROMPT_TOKENS // BLOCK_SIZE), True)
    elif index % BLOCK_SIZE == 1:
        place = (PROMPT_TOKENS + index - 1) // BLOCK_SIZE
        _log_block_events(log, number, first, range(place, place + 1), True)
    elif index == TOKENS_A_REQUEST - 1:
        _log_block_events(log, number + 1, first, range((PROMPT_TOKENS + TOKENS_A_REQUEST) // BLOCK_SIZE), False)


def _log_block_events(log: RunLogWriter, number: int, first: int, places: range, allocated: bool) -> None:
    """Log that each row of the wave gets or frees the blocks at these indices of its block table."""
    count = SLOTS * len(places)
    log.extend(
        "blocks",
        {
            "block_id": [place * SLOTS + row for place in places for row in range(SLOTS)],
            "request_id": [first + row for _ in places for row in range(SLOTS)],
            "table_index": [place for place in places for _ in range(SLOTS)],
            "allocated": [allocated] * count,
            "pass_index": [number] * count,
            "time_s": [number / 100] * count,
        },
    )


def _end_wave(log: RunLogWriter, first: int, number: int) -> None:
    ids = list(range(first, first + SLOTS))
    ended = [(number + 1) / 100] * SLOTS
    log.extend("requests", {"request_id": ids, "state": ["finished"] * SLOTS, "finished_s": ended})
    log.extend("spans", {"span_id": ids, "end_pass": [number + 1] * SLOTS, "end_s": ended})


def _log_pass(log: RunLogWriter, number: int, first: int, index: int) -> None:
    log.append(
        "passes",
        pass_index=number,
        step=number,
        kind="decode",
        start_s=number / 100,
        end_s=number / 100 + 0.009,
        device_s=0.008,
        rows=SLOTS,
        live_rows=SLOTS,
        width=PROMPT_TOKENS + index,
        prompt_tokens=0,
        queue_depth=0,
        computed_positions=SLOTS * 300,
        padding_positions=0,
        dead_positions=0,
        kv_reserved_positions=SLOTS * 500,
        kv_used_positions=SLOTS * 300,
        kv_padding_positions=0,
        kv_dead_positions=0,
        kv_fragment_positions=SLOTS * 8,
        chunk_rows=0,
        tokens=SLOTS,
        recomputed_tokens=0,
    )
    log.extend(
        "tokens",
        {
            "request_id": list(range(first, first + SLOTS)),
            "token_index": [index] * SLOTS,
            "token_id": [(7 * first + 31 * index) % 50_000] * SLOTS,
            "pass_index": [number] * SLOTS,
            "produced_s": [number / 100 + 0.009] * SLOTS,
            "delivered_s": [number / 100 + 0.0091] * SLOTS,
        },
    )


def measure(folder: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as home, Store(Path(home)) as store:
        cpu_before = time.process_time()
        seconds, report = _timed(lambda: store.ingest.run(folder))
        cpu_s = time.process_time() - cpu_before  # on a busy machine, wall time is not the work done
        tokens = report.rows["tokens"]
        ingest_rss = _peak_bytes()
        again, _ = _timed(lambda: store.ingest.run(folder))
        return {
            "tokens": tokens,
            "ingest_s": seconds,
            "ingest_cpu_s": cpu_s,
            "tokens_per_s": tokens / seconds,
            "tokens_per_cpu_s": tokens / cpu_s,
            "ingest_again_s": again,
            "list_s": _timed(store.runs.list)[0],
            "metrics_view_s": _timed(lambda: store.cursor().execute("FROM run_metrics").fetchall())[0],
            "spans_s": _timed(lambda: store.runs.spans(RUN_ID))[0],
            "passes_s": _timed(lambda: store.runs.passes(RUN_ID))[0],
            "requests_s": _timed(lambda: store.runs.requests(RUN_ID))[0],
            "gaps_s": _timed(lambda: store.runs.gaps(RUN_ID))[0],
            "block_map_s": _timed(lambda: store.kv.block_map(RUN_ID))[0],
            "verify_s": _timed(lambda: store.ingest.verify(RUN_ID))[0],
            "peak_after_ingest_bytes": ingest_rss,
            "peak_bytes": _peak_bytes(),
        }


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    outcome = work()
    return time.perf_counter() - started, outcome


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
