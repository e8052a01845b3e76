"""Run folders for the tests of the pages: two requests, small enough that every figure on a page is worked out by hand.

Requests 0 and 1 want 2 and 4 tokens; both arrive at 0 and have a slot at once. `static` runs prefill and three decode
passes over two rows, 0.1 s each: 8 slot-steps, 6 of them useful, 6 tokens in 0.4 s. `continuous` lets request 0 leave:
6 slot-steps, and its last two passes, of one row, take 0.05 s each: 6 tokens in 0.3 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.core.config import RunConfig, WorkloadConfig
from engine.runlog.writer import RunLogWriter

CREATED = {"static": "2026-11-29T12:00:00.000+00:00", "continuous": "2026-11-29T12:01:00.000+00:00"}
LIVE_ROWS = (2, 2, 1, 1)
TOKEN_IDS = {0: (5, 6), 1: (7, 8, 9, 10)}


def config_of(engine: str, **changes: Any) -> RunConfig:
    """The settings of a run of these tests."""
    workload = WorkloadConfig(prompts="p16", requests=2, budget="2-4")
    return RunConfig(**{"engine": engine, "model": "tiny-random", "slots": 2, "workload": workload} | changes)


def run_info(run_id: str, config: RunConfig, **changes: Any) -> dict[str, Any]:
    """run.json as the worker writes it; `changes` replace whole parts."""
    workload = {"digest": "00112233aabbccdd", "requests": 2, "prompts": "p16", "budget": "2-4", "arrival": "closed"}
    model = {"name": "tiny-random", "source": "tiny-random", "parameters": 1000, "layers": 2, "kv_heads": 1}
    model |= {"dtype": "float32", "random_weights": True, "tokenizer_file": None}
    return {
        "run_id": run_id,
        "schema_version": 1,
        "created_at": CREATED.get(config.engine, CREATED["static"]),
        "engine": config.engine,
        "policy": config.engine,
        "kv_layout": "slots",
        "execution": "eager",
        "timing": "sync",
        "config": config.to_dict(),
        "workload": workload | {"seed": 0},
        "model": model
        | {"head_dim": 4, "vocab": 64, "random_weights": True, "dtype": "float32", "tokenizer_file": None},
        "device": {"kind": "cpu", "name": "A test's CPU", "memory_bytes": 2**30, "threads": 2},
        "environment": {"python": "3.11", "cpu_count": 2, "load_average_1min": 0.5},
        "experiment": None,
        "simulated": False,
    } | changes


def write_run(
    runs: Path,
    run_id: str,
    engine: str = "static",
    *,
    result: Mapping[str, Any] | None = None,
    token_ids: Mapping[int, tuple[int, ...]] = TOKEN_IDS,
    config: RunConfig | None = None,
    returned_whole: bool = False,
    unfinished: bool = False,
    **info: Any,
) -> Path:
    """A whole run folder. `result` replaces parts of a completed run's; `info` replaces parts of run.json."""
    config = config or config_of(engine)
    folder = runs / run_id
    ends = {"static": (0.1, 0.2, 0.3, 0.4), "continuous": (0.1, 0.2, 0.25, 0.3)}[engine]
    with RunLogWriter(folder, run_info(run_id, config, **info)) as log:
        _log_requests(log, ends, returned_whole, unfinished)
        _log_passes(log, engine, ends)
        _log_tokens(log, ends, token_ids, returned_whole)
        _log_spans(log, engine, ends)
        log.append("memory", time_s=0.1, pass_index=0, allocated_bytes=100, peak_bytes=200, kv_bytes=50, free_bytes=10)
        ended = {"status": "completed", "error": None, "oom": None, "totals": {}, "ended_at": CREATED["continuous"]}
        log.finish(ended | dict(result or {}))
    return folder


def write_crashed(runs: Path, run_id: str, engine: str = "static", *, unfinished: bool = False) -> Path:
    """The same run, its worker dead before it could write a result: only what was logged.

    `unfinished` requests were still running then, without a text.
    """
    folder = write_run(runs, run_id, engine, unfinished=unfinished)
    (folder / "result.json").unlink()
    return folder


def _log_requests(log: RunLogWriter, ends: tuple[float, ...], returned_whole: bool, unfinished: bool) -> None:
    for request_id, budget in ((0, 2), (1, 4)):
        log.append(
            "requests",
            request_id=request_id,
            state="running" if unfinished else "finished",
            label="p16",
            prompt_tokens=16,
            asked_prompt_tokens=16,
            budget_tokens=budget,
            ignore_eos=True,
            arrival_s=0.0,
            submitted_s=0.0,
            admitted_s=0.0,
            finished_s=None if unfinished else ends[budget - 1],
            returned_s=ends[-1] if returned_whole else None,
            lane=request_id,
            output_tokens=budget,
            finish_reason=None if unfinished else "budget",
            prompt_text=f"Question {request_id}?",
            output_text=None if unfinished else f"Answer {request_id}.\n<b>Done</b>",
        )


def _log_passes(log: RunLogWriter, engine: str, ends: tuple[float, ...]) -> None:
    starts = (0.0, *ends[:-1])
    for index, (start_s, end_s, live_rows) in enumerate(zip(starts, ends, LIVE_ROWS, strict=True)):
        rows, width = (2 if engine == "static" else live_rows), 16 + index
        log.append(
            "passes",
            pass_index=index,
            step=max(0, index - 1),
            kind="decode" if index else "prefill",
            start_s=start_s,
            end_s=end_s,
            rows=rows,
            live_rows=live_rows,
            width=width,
            masked=False,
            prompt_tokens=0 if index else 32,
            queue_depth=0,
            computed_positions=rows * width,
            padding_positions=0,
            dead_positions=(rows - live_rows) * width,
            kv_reserved_positions=40,
            kv_used_positions=live_rows * width,
        )


def _log_tokens(
    log: RunLogWriter, ends: tuple[float, ...], token_ids: Mapping[int, tuple[int, ...]], returned_whole: bool
) -> None:
    for request_id, ids in token_ids.items():
        for index, token_id in enumerate(ids):
            log.append(
                "tokens",
                request_id=request_id,
                token_index=index,
                token_id=token_id,
                pass_index=index,
                produced_s=ends[index],
                delivered_s=None if returned_whole else ends[index],
            )


def _log_spans(log: RunLogWriter, engine: str, ends: tuple[float, ...]) -> None:
    """Lane, request, phase and the passes it lasted."""
    spans = [(0, 0, "prefill", 0, 1), (1, 1, "prefill", 0, 1), (0, 0, "decode", 1, 2), (1, 1, "decode", 1, 4)]
    spans += [(0, 0, "dead", 2, 4)] if engine == "static" else []
    for span_id, (lane, request_id, phase, start, end) in enumerate(spans):
        log.append(
            "spans",
            span_id=span_id,
            lane=lane,
            slot=lane,
            request_id=request_id,
            phase=phase,
            start_pass=start,
            end_pass=end,
            start_s=(0.0, *ends)[start],
            end_s=(0.0, *ends)[end],
        )
