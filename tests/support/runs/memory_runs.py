"""Run folders that tell their requests and their peak of memory, and nothing else, for the tests of the Memory page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.runlog.writer import RunLogWriter
from tests.support.runs.page_runs import config_of, run_info

MODEL = {
    "name": "tiny-random",
    "source": "tiny-random",
    "parameters": 1000,
    "layers": 2,
    "kv_heads": 2,
    "head_dim": 16,
    "intermediate": 160,
    "vocab": 512,
    "dtype": "float32",
    "random_weights": True,
    "tokenizer_file": None,
}
POSITION = 2 * 2 * 2 * 16 * 4  # bytes: keys and values, 2 layers, 2 KV heads of 16, fp32


def write_memory_run(
    home: Path,
    run_id: str,
    lengths: tuple[tuple[int, int], ...],
    *,
    engine: str = "static",
    peak_bytes: int | None = 10**6,
    status: str = "completed",
    device: str = "cpu",
    model_dtype: str = "float32",
    info: dict[str, Any] | None = None,
    **config: Any,
) -> None:
    """A run's folder that tells its requests and its peak, and nothing else."""
    told = run_info(
        run_id,
        config_of(engine, **config),
        model=MODEL | {"dtype": model_dtype},
        device={"kind": device, "name": "a test's"},
    )
    with RunLogWriter(home / "runs" / run_id, told | (info or {})) as log:
        for request_id, (prompt, budget) in enumerate(lengths):
            log.append(
                "requests", request_id=request_id, state="finished", prompt_tokens=prompt, budget_tokens=budget,
                arrival_s=0.0, ignore_eos=True,
            )  # fmt: skip
        totals = {} if peak_bytes is None else {"peak_memory_bytes": peak_bytes}
        if peak_bytes is not None:
            log.append("memory", time_s=0.1, pass_index=0, allocated_bytes=1, peak_bytes=peak_bytes, kv_bytes=1)
        log.finish({"status": status, "error": None, "oom": None, "totals": totals, "ended_at": told["created_at"]})
