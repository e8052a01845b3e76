"""A paged run folder for the tests of the pages, worked out by hand: a pool of 6 blocks of 8 positions, one preemption.

Requests 0 and 1 have prompts of 16 tokens and want 2 and 4. Pass 0 reads both prompts (2 blocks each), pass 1 decodes
both (a third block each: the pool is full), and request 0 has ended. Before pass 2 request 1 is preempted: it gives 3
blocks back, 17 positions are lost. Pass 2 reads its 18 tokens again (3 blocks), pass 3 decodes. Passes end at 0.1, 0.2,
0.25 and 0.3 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.core.config import RunConfig
from engine.runlog.writer import RunLogWriter
from tests.support.runs.page_runs import CREATED, TOKEN_IDS, config_of, run_info

ENDS = (0.1, 0.2, 0.25, 0.3)
# kind, rows, tokens, recomputed, width, computed, reserved, used of each pass
PASSES = (
    ("prefill", 2, 32, 0, 16, 32, 32, 32),
    ("decode", 2, 2, 0, 17, 34, 48, 34),
    ("prefill", 1, 18, 17, 18, 18, 24, 18),
    ("decode", 1, 1, 0, 19, 19, 24, 19),
)
# pass, request, blocks: given before it (True) or taken back
HANDS = (
    (0, 0, (0, 1), True),
    (0, 1, (2, 3), True),
    (1, 0, (4,), True),
    (1, 1, (5,), True),
    (2, 0, (0, 1, 4), False),
    (2, 1, (2, 3, 5), False),
    (2, 1, (2, 3, 5), True),
)


def write_paged_run(
    runs: Path,
    run_id: str,
    *,
    config: RunConfig | None = None,
    captured: int = 0,
    result: Mapping[str, Any] | None = None,
    **info: Any,
) -> Path:
    """A whole run folder. The first `captured` passes were CUDA graphs for 40 tokens each."""
    config = config or config_of("paged", block_size=8, pool_gib=0.001)
    about = {"kv_layout": "paged", "kv_blocks": 6, "block_size": 8, "schema_version": 2}
    about |= {"execution": config.execution, "timing": config.timing}
    folder = runs / run_id
    with RunLogWriter(folder, run_info(run_id, config, **{**about, **info})) as log:
        _log_requests(log)
        for index in range(len(PASSES)):
            _log_pass(log, index, captured)
        _log_blocks(log)
        _log_tokens(log)
        _log_spans(log)
        log.append("memory", time_s=0.1, pass_index=0, allocated_bytes=100, peak_bytes=200, kv_bytes=50, free_bytes=10)
        ended = {"status": "completed", "error": None, "oom": None, "totals": {}, "ended_at": CREATED["continuous"]}
        log.finish(ended | dict(result or {}))
    return folder


def _start(index: int) -> float:
    return (0.0, *ENDS)[index]


def _log_requests(log: RunLogWriter) -> None:
    for request_id, budget in ((0, 2), (1, 4)):
        texts = {"prompt_text": f"Question {request_id}?", "output_text": f"Answer {request_id}."}
        log.append(
            "requests",
            request_id=request_id,
            state="finished",
            label="p16",
            prompt_tokens=16,
            asked_prompt_tokens=16,
            budget_tokens=budget,
            ignore_eos=True,
            arrival_s=0.0,
            submitted_s=0.0,
            admitted_s=0.0,
            finished_s=ENDS[budget - 1],
            lane=request_id,
            output_tokens=budget,
            finish_reason="budget",
            preemptions=request_id,
            **texts,
        )


def _log_pass(log: RunLogWriter, index: int, captured: int) -> None:
    kind, rows, tokens, recomputed, width, computed, reserved, used = PASSES[index]
    log.append(
        "passes",
        pass_index=index,
        step=(0, 0, 1, 1)[index],
        kind=kind,
        start_s=_start(index),
        end_s=ENDS[index],
        rows=rows,
        live_rows=rows,
        chunk_rows=0,
        tokens=tokens,
        bucket_tokens=40 if index < captured else None,
        recomputed_tokens=recomputed,
        width=width,
        masked=False,
        prompt_tokens=tokens if kind == "prefill" else 0,
        queue_depth=0,
        computed_positions=computed,
        padding_positions=0,
        dead_positions=0,
        kv_reserved_positions=reserved,
        kv_used_positions=used,
        kv_padding_positions=0,
        kv_dead_positions=0,
        kv_fragment_positions=reserved - used,
    )


def _log_blocks(log: RunLogWriter) -> None:
    tables: dict[int, int] = {0: 0, 1: 0}
    for index, request_id, blocks, allocated in HANDS:
        for place, block_id in enumerate(blocks):
            at = {"pass_index": index, "time_s": _start(index)}
            table_index = tables[request_id] + place if allocated else place
            log.append(
                "blocks",
                block_id=block_id,
                request_id=request_id,
                table_index=table_index,
                allocated=allocated,
                **at,
            )
        tables[request_id] = tables[request_id] + len(blocks) if allocated else 0
    log.append("events", event="preempt", request_id=1, lane=1, blocks=3, tokens=17, pass_index=2, time_s=_start(2))


def _log_tokens(log: RunLogWriter) -> None:
    for request_id, ids in TOKEN_IDS.items():
        for index, token_id in enumerate(ids):
            at = {"produced_s": ENDS[index], "delivered_s": ENDS[index]}
            log.append("tokens", request_id=request_id, token_index=index, token_id=token_id, pass_index=index, **at)


def _log_spans(log: RunLogWriter) -> None:
    """Lane, request, phase and the passes it lasted; request 1 comes back in lane 0 after its preemption."""
    spans = [(0, 0, "prefill", 0, 1), (1, 1, "prefill", 0, 1), (0, 0, "decode", 1, 2), (1, 1, "decode", 1, 2)]
    spans += [(0, 1, "prefill", 2, 3), (0, 1, "decode", 3, 4)]
    for span_id, (lane, request_id, phase, start, end) in enumerate(spans):
        places = {"start_pass": start, "end_pass": end, "start_s": _start(start), "end_s": _start(end)}
        log.append("spans", span_id=span_id, lane=lane, slot=lane, request_id=request_id, phase=phase, **places)
