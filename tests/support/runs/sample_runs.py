"""Run logs without an engine: the real scheduler and recorder drive the real writer, with passes of made-up length.

Everything but the clock and the words is as the engine would log it: step tables, spans, moves, positions, KV counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.kv_layout import blocks_for
from engine.core.passes import PassKind, PassTiming, PlannedPass
from engine.core.presets import PRESETS, make_scheduler
from engine.core.recorder import Recorder
from engine.core.request import Request
from engine.core.run_id import new_run_id
from engine.core.schedulers.scheduler import Scheduler
from engine.metrics.metrics import run_metrics
from engine.runlog.checksums import OWN_SUM, RUN_SUM, STREAM_SUMS
from engine.runlog.reader import RunLogReader
from engine.runlog.schema import RESULT_FILE, SCHEMA_VERSION
from engine.runlog.writer import RunLogWriter
from engine.workload.workload import Workload, build_workload

PEAK_BYTES = 400_000_000

# Settings of runs in which blocks run short: three requests are preempted, one after 40 positions; and in which prompts
# are read in up to four chunks, some of them beside rows that decode, one after a preemption.
CROWDED = WorkloadConfig(prompts="p16,p5,p40", requests=12, budget="8-24", seed=3)
PREEMPTED: dict[str, Any] = {"engine": "paged", "block_size": 4, "num_blocks": 26, "workload": CROWDED}
CHUNKED: dict[str, Any] = {
    "engine": "chunked",
    "block_size": 4,
    "num_blocks": 36,
    "max_num_batched_tokens": 16,
    "workload": CROWDED,
}
WORDS = (
    "a",
    "slot",
    "is",
    "a",
    "row",
    "of",
    "the",
    "cache",
    "and",
    "every",
    "pass",
    "adds",
    "one",
    "token",
    "to",
    "it",
)


def write_sample_run(
    runs_folder: Path,
    engine: str = "continuous",
    *,
    run_id: str | None = None,
    status: str | None = "completed",
    stop_after_passes: int | None = None,
    num_blocks: int | None = None,
    bucket_tokens: int | None = None,
    experiment: Mapping[str, Any] | None = None,
    created_at: datetime | None = None,
    workload: WorkloadConfig | None = None,
    **settings: Any,
) -> Path:
    """Write a whole run of `engine` into a folder of its own in `runs_folder`, and return that.

    `status` None leaves the run without a result, as a killed worker would. Of a paged engine `num_blocks` is the pool
    (None: as many as nobody is preempted with). Passes of up to `bucket_tokens` count as captured, in buckets of that
    many tokens. `settings` are RunConfig's.
    """
    workload = workload or WorkloadConfig(prompts="p16,p5")
    config = RunConfig(**{"engine": engine, "model": "tiny-random", "workload": workload, **settings})
    run_id = run_id or new_run_id()
    plan = build_workload(config.workload)
    info = sample_run_info(config, plan, run_id, experiment, created_at or datetime.now(UTC), num_blocks)
    with RunLogWriter(runs_folder / run_id, info) as log:
        closes = status is not None
        play(log, config, plan, stop_after_passes, num_blocks=num_blocks, bucket_tokens=bucket_tokens, closes=closes)
        if status is not None:
            log.flush()
            totals = run_metrics(RunLogReader(log.folder).record(), peak_memory_bytes=PEAK_BYTES)
            log.finish(
                {
                    "status": status,
                    "error": None if status == "completed" else f"ended as {status}",
                    "oom": None,
                    "totals": totals,
                    "ended_at": datetime.now(UTC).isoformat(),
                }
            )
    return runs_folder / run_id


def without_checksums(folder: Path) -> Path:
    """Make a run's folder one of an older version, whose result.json has no checksums."""
    if not (folder / RESULT_FILE).exists():  # it crashed: it has none
        return folder
    result = json.loads((folder / RESULT_FILE).read_text())
    plain = {name: value for name, value in result.items() if name not in (STREAM_SUMS, RUN_SUM, OWN_SUM)}
    (folder / RESULT_FILE).write_text(json.dumps(plain))
    return folder


def play(
    log: RunLogWriter,
    config: RunConfig,
    plan: Workload,
    stop_after_passes: int | None = None,
    *,
    num_blocks: int | None = None,
    bucket_tokens: int | None = None,
    closes: bool = True,
    on_pass: Callable[[], None] = lambda: None,
) -> None:
    """Log what the engine would do with `plan`, pass by pass; `on_pass` is called after each."""
    requests = _requests(plan)
    scheduler = make_scheduler(config, requests, num_blocks)
    recorder = Recorder(log, config.num_slots, returns_whole=config.returns == "whole", decode=_decode)
    now_s, passes = 0.0, 0
    while not scheduler.is_done:
        recorder.submitted(scheduler.submit_arrived(now_s), {r.request_id: _question(r) for r in requests})
        recorder.admitted(scheduler.admit(now_s))
        if not scheduler.running:
            now_s = scheduler.wake_s(now_s) or now_s
        for kind in scheduler.kinds:
            planned = scheduler.plan(kind)
            if planned is None or passes == stop_after_passes:
                continue
            now_s = _run_pass(scheduler, recorder, planned, now_s, bucket_tokens)
            memory = {"allocated_bytes": 300_000_000, "peak_bytes": PEAK_BYTES, "kv_bytes": 1 << 20}
            log.append("memory", time_s=now_s, pass_index=planned.index, free_bytes=1 << 33, **memory)
            passes += 1
            on_pass()
        if passes == stop_after_passes:
            break
    if closes:
        recorder.close(now_s)


def sample_run_info(
    config: RunConfig,
    plan: Workload,
    run_id: str,
    experiment: Mapping[str, Any] | None,
    created_at: datetime,
    num_blocks: int | None = None,
) -> dict[str, Any]:
    """run.json as the worker writes it, for a model that no file is read of."""
    preset, asked = PRESETS[config.engine], config.workload
    is_paged = preset.has_blocks
    return {
        "run_id": run_id,
        "schema_version": SCHEMA_VERSION,
        "created_at": created_at.isoformat(timespec="milliseconds"),
        "engine": config.engine,
        "policy": preset.policy,
        "kv_layout": preset.kv_layout,
        "kv_blocks": (num_blocks or blocks_for(config, _requests(plan))) if is_paged else None,
        "block_size": config.block_size if is_paged else None,
        "max_num_batched_tokens": config.max_num_batched_tokens if config.engine == "chunked" else None,
        "execution": config.execution,
        "timing": config.timing,
        "config": config.to_dict(),
        "workload": {
            "digest": plan.digest,
            "requests": len(plan.requests),
            "prompts": asked.prompts,
            "budget": asked.budget,
            "arrival": asked.arrival,
            "seed": asked.seed,
        },
        "model": {
            "name": config.model,
            "source": "random weights",
            "parameters": 100_000,
            "layers": 2,
            "kv_heads": 2,
            "head_dim": 16,
            "vocab": 1000,
            "random_weights": True,
            "dtype": "float32",
            "kv_position_bytes": 512,
            "tokenizer_file": None,
        },
        "device": {"kind": "cpu", "name": "a made-up CPU", "threads": 2},
        "environment": {"python": "3.11", "torch": "2.13", "host": "elsewhere"},
        "experiment": None if experiment is None else dict(experiment),
        "simulated": False,
    }


def _requests(plan: Workload) -> list[Request]:
    return [Request(spec=spec, prompt_ids=[1] * getattr(spec.prompt, "tokens", 12)) for spec in plan.requests]


def _run_pass(
    scheduler: Scheduler, recorder: Recorder, planned: PlannedPass, now_s: float, bucket_tokens: int | None
) -> float:
    """Record a pass as long as its rows and columns make it, and a little longer every seventh time."""
    slots = _prefilled_slots(planned)
    seconds = 0.010 + 1e-5 * planned.shape.computed_positions + (0.004 if planned.index % 7 == 3 else 0.0)
    end_s = now_s + seconds
    is_captured = bucket_tokens is not None and planned.tokens <= bucket_tokens
    timing = PassTiming(
        start_s=now_s,
        end_s=end_s,
        issue_s=None,
        device_s=0.9 * seconds,
        produced_s=end_s,
        delivered_s=end_s + 0.0001,
        bucket_tokens=bucket_tokens if is_captured else None,
    )
    token_ids = [(31 * r.request_id + 7 * r.num_scheduled) % 1000 for r in planned.live_requests]
    outcome = scheduler.complete(planned)
    recorder.passed(planned, outcome, timing, token_ids, slots)
    return end_s + 0.0005


def _prefilled_slots(planned: PlannedPass) -> list[int]:
    """The physical slots of the requests that a pass prefills, in its order."""
    if planned.kind is PassKind.DECODE:
        return []
    requests = [chunk.request for chunk in planned.chunks] if planned.chunks else planned.rows
    return [-1 if r.slot is None else r.slot for r in requests]


def _question(request: Request) -> str:
    return f"What is question {request.request_id} about?"


def _decode(token_ids: list[int]) -> str:
    return " ".join(WORDS[token_id % len(WORDS)] for token_id in token_ids).capitalize() + "."
