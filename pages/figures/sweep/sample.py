"""A made-up sweep for demos and tests: a step takes as long as its reads or its arithmetic, whichever is longer.

The GPU has 20 TFLOP/s, 300 GB/s and memory for 300,000 positions. The model has 1.5e9 parameters in 16 bit and 28 KiB
of KV per position. Nothing here is a measurement.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from engine.core.units import GIB

PARAMETERS = 1.5e9
KV_BYTES = 28 * 1024
FLOP_PER_S = 20e12
READ_BYTES_PER_S = 300e9
MAX_POSITIONS = 300_000


def sample_sweep(
    lengths: Sequence[int] = (16, 256, 4096), sizes: Sequence[int] = (1, 4, 16, 64, 256, 1024), engine: str = "static"
) -> pd.DataFrame:
    """A row per point, with the columns that the figures of a sweep use."""
    return pd.DataFrame([_point(engine, tokens, size) for tokens in lengths for size in sizes])


def _point(engine: str, tokens: int, size: int) -> dict[str, object]:
    context = tokens + 16
    read_bytes = 2 * PARAMETERS + size * context * KV_BYTES
    flop = 2 * PARAMETERS * size
    tpot_s = max(read_bytes / READ_BYTES_PER_S, flop / FLOP_PER_S) + 0.002
    fits = size * context <= MAX_POSITIONS
    measured = {
        "ttft_s": 0.01 + 2 * PARAMETERS * size * tokens / FLOP_PER_S,
        "tpot_s": tpot_s,
        "tokens_per_s_per_request": 1 / tpot_s,
        "decode_tokens_per_s": size / tpot_s,
        "peak_memory_bytes": 2 * PARAMETERS + size * context * KV_BYTES,
        "intensity_flop_per_byte": flop / read_bytes,
        "compute_fraction": flop / tpot_s / FLOP_PER_S,
        "bandwidth_fraction": read_bytes / tpot_s / READ_BYTES_PER_S,
        "speedup": size * 0.0123 / tpot_s,
    }
    return {
        "series": f"p{tokens}",
        "engine": engine,
        "prompts": f"p{tokens}",
        "prompt_tokens": tokens,
        "batch_size": size,
        "role": "point",
        "status": "completed" if fits else "oom",
        **(measured if fits else dict.fromkeys(measured)),
        "asked_bytes": None if fits else size * tokens * 8960 * 2,
        "free_bytes": None if fits else GIB,
        "oom_where": None if fits else "prefill",
    }


def sample_ragged() -> pd.DataFrame:
    """A ragged batch and its control at three batch sizes; the last did not fit."""
    rows = []
    for size, rates in ((8, (310.0, 104.0)), (32, (1200.0, 130.0)), (128, (None, None))):
        for role, rate in zip(("control", "ragged"), rates, strict=True):
            failed = rate is None
            rows.append(
                {
                    "engine": "static",
                    "prompts": "p4096" if role == "control" else "p16,p4096",
                    "batch_size": size,
                    "role": role,
                    "status": "oom" if failed else "completed",
                    "output_tokens_per_s": rate,
                    "kv_unused_fraction": None if failed or role == "control" else 0.483,
                    "asked_bytes": 9_395_240_960 if failed else None,
                    "free_bytes": 2_000_000_000 if failed else None,
                    "oom_where": "prefill" if failed else None,
                }
            )
    return pd.DataFrame(rows)
