"""Metrics of paged KV, chunks, preemptions and captured passes, calculated by hand."""

import pytest

from engine.metrics.metrics import run_metrics
from tests.support.runs.record_rows import record_of_rows
from tests.support.runs.records import CHUNKED, run_pass

CHUNKED_VALUES = {
    "steps": 5,
    "passes": 5,
    "prefill_passes": 3,
    "decode_passes": 1,
    "mixed_passes": 1,
    "captured_passes": 2,
    "prefill_tokens_per_s": 19 / 4.5,  # 13 of the prompts and 6 of them again, in 2.5 s of prefill and 2 s mixed
    "itl_max_over_p50": 2 / 1.25,  # gaps of 2 and 0.5 s
    "slot_steps": 4,
    "useful_slot_steps": 4,
    "computed_positions": 30,
    "bucket_padding_fraction": 0.5,  # 1 + 3 tokens of two graphs of 4
    "preemptions": 1,
    "recomputed_tokens": 6,
    "prefill_s": 2.5,
    "decode_s": 0.5,
    "mixed_s": 2.0,
    "prefill_share": 0.9,
    "prefill_pass_p50_s": 1.0,  # of 0.5, 1, 1
    "decode_pass_p50_s": 0.5,
    "between_passes_s": 0.5,
    "kv_reserved_position_s": 58.0,  # 8 + 2 x 16 + 8 / 2 + 8 + 12 / 2
    "kv_unused_position_s": 16.5,  # 2 + 2 x 5 + 2 / 2 + 2 + 3 / 2: all of it the ends of blocks
    "kv_fragment_position_s": 16.5,
    "kv_padding_position_s": 0.0,
    "kv_dead_position_s": 0.0,
    "kv_room_position_s": 0.0,
}


def test_metrics_of_chunks_a_preemption_and_captured_passes() -> None:
    metrics = run_metrics(CHUNKED)
    assert {name: metrics[name] for name in CHUNKED_VALUES} == pytest.approx(CHUNKED_VALUES)
    counts = ("mixed_passes", "captured_passes", "preemptions", "recomputed_tokens")
    assert all(isinstance(metrics[name], int) for name in counts)


def test_held_memory_is_told_apart() -> None:
    # A static batch of 2 x 8 columns. For a second it holds 7 tokens and 3 columns of padding; then for two seconds 7
    # tokens of the row that still runs, and all 8 columns of the dead one.
    held_of_all = {"kv_reserved_positions": 16, "kv_used_positions": 7, "kv_fragment_positions": 0}
    record = record_of_rows(
        passes=[
            run_pass("prefill", 0, 0.0, 1.0, kv_padding_positions=3, kv_dead_positions=0, **held_of_all),
            run_pass("decode", 0, 1.0, 3.0, kv_padding_positions=0, kv_dead_positions=8, **held_of_all),
        ]
    )
    metrics = run_metrics(record)
    held = {name: metrics[f"kv_{name}_position_s"] for name in ("padding", "dead", "fragment", "room", "unused")}
    # Room: 16 - 7 - 3, then 16 - 7 - 8, twice as long.
    assert held == {"padding": 3.0, "dead": 16.0, "fragment": 0.0, "room": 6.0 + 2.0, "unused": 27.0}
