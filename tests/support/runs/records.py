"""Small records of runs, made by hand: a static batch streamed and returned whole, a stopped run, an empty one."""

from typing import Any

from tests.support.runs.record_rows import record_of_rows

Row = dict[str, Any]
EMPTY = record_of_rows()


def request(request_id: int, **columns: Any) -> Row:
    return {
        "request_id": request_id,
        "state": "finished",
        "prompt_tokens": 4,
        "arrival_s": 0.0,
        "admitted_s": 0.0,
        **columns,
    }


def tokens(request_id: int, *delivered_s: float | None) -> list[Row]:
    return [{"request_id": request_id, "token_index": i, "delivered_s": time_s} for i, time_s in enumerate(delivered_s)]


def run_pass(kind: str, step: int, start_s: float, end_s: float, **columns: Any) -> Row:
    defaults = dict.fromkeys(("prompt_tokens", "padding_positions", "dead_positions", "kv_used_positions"), 0)
    return {"kind": kind, "step": step, "start_s": start_s, "end_s": end_s, **defaults, **columns}


# A static batch of two, prompts of 2 and 5 tokens, budgets 2 and 3, in a buffer of 2 rows x (5 + 3) columns.
# Request 0 is left-padded by 3 and ends with the second pass; the third computes its 7 columns for nothing.
STATIC_REQUESTS = [request(0, prompt_tokens=2), request(1, prompt_tokens=5)]
STATIC_PASSES = [
    run_pass(
        "prefill", 0, 0.0, 1.0, rows=2, live_rows=2, prompt_tokens=7, computed_positions=10, padding_positions=3,
        kv_reserved_positions=16, kv_used_positions=7, issue_s=0.2, device_s=0.9,
    ),
    run_pass(
        "decode", 0, 1.5, 2.0, rows=2, live_rows=2, computed_positions=12, padding_positions=3,
        kv_reserved_positions=16, kv_used_positions=9, issue_s=0.1, device_s=0.4,
    ),
    run_pass(
        "decode", 1, 2.0, 3.0, rows=2, live_rows=1, computed_positions=14, dead_positions=7,
        kv_reserved_positions=16, kv_used_positions=7, issue_s=0.1, device_s=0.9,
    ),
]  # fmt: skip
STATIC = record_of_rows(
    requests=STATIC_REQUESTS, passes=STATIC_PASSES, tokens=[*tokens(0, 1.0, 2.0), *tokens(1, 1.0, 2.0, 3.0)]
)
WHOLE = record_of_rows(
    requests=[row | {"returned_s": 3.25} for row in STATIC_REQUESTS],
    passes=STATIC_PASSES,
    tokens=[*tokens(0, None, None), *tokens(1, None, None, None)],
)

# A chunked run: request 0 (4 tokens, budget 3) and 1 (9 tokens, budget 1), blocks of 4 positions, 6 tokens a step. 1
# loses its first 6 positions and is read again. Passes of up to 4 tokens ran as CUDA graphs of 4.
_EARLY = {"kv_padding_positions": 0, "kv_dead_positions": 0}
CHUNKED = record_of_rows(
    requests=[request(0, preemptions=0), request(1, prompt_tokens=9, preemptions=1)],
    passes=[
        run_pass(
            "prefill", 0, 0.0, 1.0, rows=1, live_rows=1, tokens=6, prompt_tokens=6, recomputed_tokens=0,
            computed_positions=6, kv_reserved_positions=8, kv_used_positions=6, kv_fragment_positions=2, **_EARLY,
        ),
        run_pass(
            "mixed", 1, 1.0, 3.0, rows=1, live_rows=1, tokens=5, prompt_tokens=4, recomputed_tokens=0,
            computed_positions=9, kv_reserved_positions=16, kv_used_positions=11, kv_fragment_positions=5, **_EARLY,
        ),
        run_pass(
            "decode", 2, 3.0, 3.5, rows=1, live_rows=1, tokens=1, bucket_tokens=4, recomputed_tokens=0,
            computed_positions=6, kv_reserved_positions=8, kv_used_positions=6, kv_fragment_positions=2, **_EARLY,
        ),
        run_pass(
            "prefill", 3, 4.0, 5.0, rows=0, live_rows=0, tokens=6, prompt_tokens=6, recomputed_tokens=6,
            computed_positions=6, kv_reserved_positions=8, kv_used_positions=6, kv_fragment_positions=2, **_EARLY,
        ),
        run_pass(
            "prefill", 4, 5.0, 5.5, rows=1, live_rows=1, tokens=3, bucket_tokens=4, prompt_tokens=3,
            recomputed_tokens=0, computed_positions=3, kv_reserved_positions=12, kv_used_positions=9,
            kv_fragment_positions=3, **_EARLY,
        ),
    ],
    tokens=[*tokens(0, 1.0, 3.0, 3.5), *tokens(1, 5.5)],
)  # fmt: skip

# A run that returns whole and was stopped: batch 1 (10 tokens) was returned at 1 s, batch 2 had come to 90 tokens.
CUT_OFF = record_of_rows(
    requests=[request(0, returned_s=1.0), request(1, state="stopped")],
    tokens=[*tokens(0, *[None] * 10), *tokens(1, *[None] * 90)],
)

# A continuous run that was stopped: 0 finished with three tokens, 1 with one; 2 was cut off after two, 3 in the queue.
CONTINUOUS = record_of_rows(
    requests=[
        request(0, arrival_s=0.0, admitted_s=1.0),
        request(1, arrival_s=1.0, admitted_s=1.0),
        request(2, arrival_s=3.0, admitted_s=3.5, state="stopped"),
        request(3, arrival_s=6.0, admitted_s=None, state="stopped"),
    ],
    tokens=[*tokens(0, 2.0, 3.0, 5.0), *tokens(1, 2.0), *tokens(2, 4.0, 6.0)],
)
