"""Five runs whose every figure is worked out by hand, for the prepared questions.

- `a` static and `b` continuous: the pair of tests/support/runs/page_runs.py, six tokens in 0.4 s and in 0.3 s.
- `d` continuous, the same requests once more and slower: its prefill takes 0.2 s, so six tokens take 0.4 s.
- `c` continuous, one slot: five requests meant to come one a second, given every 1.75 s; each prefill and each decode
  pass takes 1 s, so request i has its slot from 2i and its two tokens at 2i + 1 and 2i + 2.
- `e` paged, stopped by hand: request 0 has its second token 3 s after its first, since the prompts of 1 and 2 are read
  in between; request 1 lost its blocks twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.runlog.writer import RunLogWriter
from tests.support.runs.page_runs import config_of, run_info, write_run

OCTOBER, NOVEMBER = "2026-10-05T12:00:00.000+00:00", "2026-11-{:02}T12:00:00.000+00:00"
Row = dict[str, Any]


def write_question_runs(runs: Path) -> None:
    """Write the five run folders into `runs`."""
    write_run(runs, "a", "static", created_at=OCTOBER)
    write_run(runs, "b", "continuous", created_at=NOVEMBER.format(20))
    _write_slower(runs)
    _write_late(runs)
    _write_preempted(runs)


def _write_slower(runs: Path) -> None:
    bounds = (0.0, 0.2, 0.3, 0.35, 0.4)
    passes = [
        _pass(i, max(0, i - 1), "decode" if i else "prefill", bounds[i : i + 2], rows, computed=rows * (16 + i))
        | {"prompt_tokens": 0 if i else 32, "kv_reserved_positions": 40, "kv_used_positions": rows * (16 + i)}
        for i, rows in enumerate((2, 2, 1, 1))
    ]
    tokens = [_token(r, i, i, bounds[i + 1]) for r, count in ((0, 2), (1, 4)) for i in range(count)]
    requests = [_request(r, 0.0, 0.0, prompt=16) for r in (0, 1)]
    info = run_info("d", config_of("continuous"), created_at=NOVEMBER.format(10))
    _write(runs / "d", info, requests, passes, tokens, [_prefill(r, 0) for r in (0, 1)])


def _write_late(runs: Path) -> None:
    requests = [_request(i, float(i), 2.0 * i, prompt=5) | {"submitted_s": 1.75 * i} for i in range(5)]
    passes = [
        _pass(n, n // 2, "decode" if n % 2 else "prefill", (n, n + 1), 1, computed=5 + n % 2)
        | {"padding_positions": n % 2, "prompt_tokens": 0 if n % 2 else 5}
        | {"kv_reserved_positions": 10, "kv_used_positions": 5}
        for n in range(10)
    ]
    tokens = [_token(i, k, 2 * i + k, 2.0 * i + k + 1) for i in range(5) for k in range(2)]
    workload = {"digest": "cc", "requests": 5, "prompts": "p5", "budget": "2", "arrival": "constant:1", "seed": 0}
    info = run_info("c", config_of("continuous", slots=1), created_at=NOVEMBER.format(12), workload=workload)
    _write(runs / "c", info, requests, passes, tokens, [_prefill(i, 2 * i) for i in range(5)])


def _write_preempted(runs: Path) -> None:
    requests = [_request(i, 0.0, when, prompt=size) for i, (when, size) in enumerate(((0, 10), (0.5, 16), (0.5, 30)))]
    requests = [row | {"state": "stopped", "preemptions": 2 if row["request_id"] == 1 else 0} for row in requests]
    kv = {"kv_reserved_positions": 100, "kv_used_positions": 80}
    passes = [
        _pass(0, 0, "prefill", (0.0, 0.5), 1, computed=10) | kv | {"prompt_tokens": 10, "tokens": 60},
        _pass(1, 1, "prefill", (0.5, 2.5), 2, computed=46) | kv | {"prompt_tokens": 46, "tokens": 60},
        _pass(2, 1, "decode", (2.5, 3.5), 3, computed=60) | kv | {"tokens": 80},
    ]
    for row, again in zip(passes, (0, 40, 20), strict=True):
        row["recomputed_tokens"] = again
    tokens = [_token(0, 0, 0, 0.5), *(_token(r, 0, 1, 2.5) for r in (1, 2)), _token(0, 1, 2, 3.5)]
    tokens += [_token(r, 1, 2, 3.5) for r in (1, 2)]
    events = [
        {"event": "preempt", "request_id": 1, "lane": 1, "blocks": blocks, "tokens": lost, "pass_index": 1 + i}
        for i, (blocks, lost) in enumerate(((3, 40), (2, 20)))
    ]
    workload = {"digest": "ee", "requests": 3, "prompts": "p10", "budget": "8", "arrival": "closed", "seed": 0}
    info = run_info("e", config_of("paged"), created_at=NOVEMBER.format(14), workload=workload, kv_blocks=24)
    spans = [_prefill(0, 0), _prefill(1, 1), _prefill(2, 1)]
    _write(runs / "e", info, requests, passes, tokens, spans, events, status="stopped", error="stopped by hand")


def _write(
    folder: Path,
    info: Row,
    requests: Sequence[Row],
    passes: Sequence[Row],
    tokens: Sequence[Row],
    spans: Sequence[Row],
    events: Sequence[Row] = (),
    *,
    status: str = "completed",
    error: str | None = None,
) -> None:
    with RunLogWriter(folder, info) as log:
        streams = {"requests": requests, "passes": passes, "tokens": tokens, "spans": spans, "events": events}
        for stream, rows in streams.items():
            for number, row in enumerate(rows):
                log.append(stream, **({"span_id": number} if stream == "spans" else {}) | row)
        log.finish({"status": status, "error": error, "oom": None, "totals": {}, "ended_at": info["created_at"]})


def _request(request_id: int, arrival_s: float, admitted_s: float, *, prompt: int) -> Row:
    return {
        "request_id": request_id,
        "state": "finished",
        "label": f"p{prompt}",
        "prompt_tokens": prompt,
        "asked_prompt_tokens": prompt,
        "arrival_s": arrival_s,
        "submitted_s": arrival_s,
        "admitted_s": admitted_s,
        "lane": 0,
    }


def _pass(index: int, step: int, kind: str, bounds: Sequence[float], rows: int, *, computed: int) -> Row:
    return {
        "pass_index": index,
        "step": step,
        "kind": kind,
        "start_s": float(bounds[0]),
        "end_s": float(bounds[1]),
        "rows": rows,
        "live_rows": rows,
        "computed_positions": computed,
        "padding_positions": 0,
        "dead_positions": 0,
        "prompt_tokens": 0,
        "queue_depth": 0,
    }


def _token(request_id: int, index: int, pass_index: int, at_s: float) -> Row:
    times = {"produced_s": at_s, "delivered_s": at_s}
    return {"request_id": request_id, "token_index": index, "token_id": 5, "pass_index": pass_index, **times}


def _prefill(request_id: int, start_pass: int) -> Row:
    place = {"lane": 0, "slot": 0, "request_id": request_id, "phase": "prefill"}
    return place | {"start_pass": start_pass, "end_pass": start_pass + 1, "start_s": 0.0, "end_s": 1.0}
