"""Synthetic run folders of any size, written fast: vectorized schedules, random pass times, filler text.

For benchmarks of the store and the pages, not of the engines. The rows are like those of an engine (slots, steps,
passes, spans, dead rows, longer gaps during a prefill).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.run_id import run_id_at
from engine.runlog.schema import RESULT_FILE, RUN_FILE, SCHEMA_VERSION, STREAMS, stream_file
from engine.runlog.writer import write_json

ROWS_A_BATCH = 2000
PROMPTS = (16, 64, 256)
TEXT = "the queue is short now and every slot of the batch holds a request that waits for its next token "
Columns = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticRun:
    """A run to write. Runs with the same `seed` have the same workload, so they can be compared."""

    engine: str
    requests: int
    tokens_a_request: int
    slots: int
    seed: int
    created_at: datetime
    experiment: str | None = None
    rate: float | None = None

    @property
    def config(self) -> RunConfig:
        arrival = "closed" if self.rate is None else f"poisson:{self.rate:g}"
        budget = f"{self.tokens_a_request // 2}-{self.tokens_a_request * 3 // 2}"
        workload = WorkloadConfig(
            prompts="p16,p64,p256", requests=self.requests, budget=budget, arrival=arrival, seed=self.seed
        )
        return RunConfig(engine=self.engine, slots=self.slots, workload=workload)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of each request: prefill and first token in `start`, last token in `end`, computed until `free` (later
    than `end` in a static batch that continues)."""

    prompts: np.ndarray
    budgets: np.ndarray
    lane: np.ndarray
    start: np.ndarray
    end: np.ndarray
    free: np.ndarray


def write_synthetic_run(runs: Path, run: SyntheticRun) -> Path:
    """Write a completed run to a new folder in `runs` and return the folder."""
    rng = np.random.default_rng(run.seed)
    schedule = _schedule(run, rng)
    passes, prefill_of, decode_of = _passes(run, schedule, np.random.default_rng([run.seed, len(run.engine)]))
    run_id = run_id_at(int(run.created_at.timestamp() * 1000))
    folder = runs / run_id
    folder.mkdir(parents=True)
    write_json(folder / RUN_FILE, _run_info(run, run_id))
    _write(folder, "passes", passes)
    tokens = _tokens(schedule, passes, prefill_of, decode_of)
    _write(folder, "tokens", tokens)
    for rows in _requests(run, schedule, passes, prefill_of, decode_of):
        _write(folder, "requests", rows)
    _write(folder, "spans", _spans(schedule, passes, prefill_of, decode_of))
    _write(folder, "memory", _memory(passes))
    ended_at = run.created_at + timedelta(seconds=float(passes["end_s"][-1]))
    result = {"status": "completed", "error": None, "oom": None, "totals": {}, "ended_at": ended_at.isoformat()}
    write_json(folder / RESULT_FILE, result)
    return folder


def num_tokens(folder: Path) -> int:
    """The tokens of a run folder's log."""
    with pa.ipc.open_stream(folder / stream_file("tokens")) as stream:
        return sum(batch.num_rows for batch in stream)


def _schedule(run: SyntheticRun, rng: np.random.Generator) -> Schedule:
    prompts = rng.choice(PROMPTS, run.requests)
    budgets = rng.integers(max(2, run.tokens_a_request // 2), run.tokens_a_request * 3 // 2 + 1, run.requests)
    lane, start = np.zeros(run.requests, int), np.zeros(run.requests, int)
    if run.engine == "static":
        lane = np.arange(run.requests) % run.slots
        groups = np.arange(run.requests) // run.slots
        longest = np.array([budgets[groups == group].max() for group in range(groups[-1] + 1)]) - 1
        begins = np.concatenate([[0], np.cumsum(longest)])
        return Schedule(prompts, budgets, lane, begins[groups], begins[groups] + budgets - 2, begins[groups + 1] - 1)
    free = [(0, place) for place in range(run.slots)]
    for i in range(run.requests):
        start[i], lane[i] = heapq.heappop(free)
        heapq.heappush(free, (int(start[i] + budgets[i] - 1), int(lane[i])))
    end = start + budgets - 2
    return Schedule(prompts, budgets, lane, start, end, end)


def _passes(run: SyntheticRun, s: Schedule, rng: np.random.Generator) -> tuple[Columns, np.ndarray, np.ndarray]:
    """The passes, and for each step the indices of its prefill pass and of its decode pass."""
    steps = int(s.free.max()) + 1
    admitted = np.bincount(s.start, minlength=steps)
    prompt_tokens = np.bincount(s.start, weights=s.prompts, minlength=steps)
    has_prefill = admitted > 0
    before = np.cumsum(has_prefill) - has_prefill
    prefill_of = np.arange(steps) + before
    decode_of = prefill_of + has_prefill
    live, rows = (_running(s.start, ends, steps) for ends in (s.end, s.free))
    count = steps + int(has_prefill.sum())
    at = {"prefill": prefill_of[has_prefill], "decode": decode_of}

    def placed(prefill: np.ndarray, decode: np.ndarray, dtype: Any = np.int64) -> np.ndarray:
        column = np.zeros(count, dtype)
        column[at["prefill"]], column[at["decode"]] = prefill[has_prefill], decode
        return column

    all_rows, all_live = placed(admitted, rows), placed(admitted, live)
    width = placed(np.full(steps, max(PROMPTS)), np.full(steps, max(PROMPTS) + run.tokens_a_request // 2))
    usual = placed(0.003 + 3e-5 * prompt_tokens, 0.008 + 6e-5 * rows, np.float64)
    seconds = usual * rng.lognormal(0, 0.03, count) * np.where(rng.random(count) < 0.005, 4, 1)
    end_s = np.cumsum(seconds + 3e-4)
    computed = all_rows * width
    dead = (all_rows - all_live) * width
    passes = {
        "pass_index": np.arange(count),
        "step": placed(np.arange(steps), np.arange(steps)),
        "kind": np.where(placed(has_prefill, np.zeros(steps)) > 0, "prefill", "decode"),
        "start_s": end_s - seconds,
        "end_s": end_s,
        "device_s": seconds * 0.9,
        "rows": all_rows,
        "live_rows": all_live,
        "tokens": placed(prompt_tokens.astype(int), rows),
        "width": width,
        "masked": np.ones(count, bool),
        "prompt_tokens": placed(prompt_tokens.astype(int), np.zeros(steps, int)),
        "queue_depth": np.maximum(0, run.requests - np.cumsum(placed(admitted, np.zeros(steps, int)))),
        "computed_positions": computed,
        "padding_positions": (computed - dead) // 3,
        "dead_positions": dead,
        "kv_reserved_positions": np.full(count, run.slots * (max(PROMPTS) + run.tokens_a_request * 3 // 2)),
        "kv_used_positions": computed - dead - (computed - dead) // 3,
    }
    return passes, prefill_of, decode_of


def _running(start: np.ndarray, last: np.ndarray, steps: int) -> np.ndarray:
    """The number of running requests in each step."""
    change = np.bincount(start, minlength=steps + 1) - np.bincount(last + 1, minlength=steps + 1)
    return np.cumsum(change)[:steps]


def _tokens(s: Schedule, passes: Columns, prefill_of: np.ndarray, decode_of: np.ndarray) -> Columns:
    request_id = np.repeat(np.arange(len(s.budgets)), s.budgets)
    index = np.arange(len(request_id)) - np.repeat(np.cumsum(s.budgets) - s.budgets, s.budgets)
    step = np.repeat(s.start, s.budgets) + np.maximum(index - 1, 0)
    pass_index = np.where(index == 0, prefill_of[step], decode_of[step])
    order = np.argsort(pass_index, kind="stable")
    request_id, index, pass_index = request_id[order], index[order], pass_index[order]
    produced_s = passes["end_s"][pass_index]
    return {
        "request_id": request_id,
        "token_index": index,
        "token_id": (7919 * request_id + 31 * index) % 49_000,
        "pass_index": pass_index,
        "produced_s": produced_s,
        "delivered_s": produced_s + 1e-4,
    }


def _requests(
    run: SyntheticRun, s: Schedule, passes: Columns, prefill_of: np.ndarray, decode_of: np.ndarray
) -> tuple[Columns, ...]:
    """Rows of all requests at arrival, at admission and at the end."""
    ids = np.arange(run.requests)
    admitted_s = passes["start_s"][prefill_of[s.start]]
    arrival_s = np.zeros(run.requests) if run.rate is None else admitted_s * 0.7
    text = TEXT * (1 + run.tokens_a_request * 6 // len(TEXT))
    outputs = [text[i % 97 : i % 97 + 4 * int(budget)] for i, budget in enumerate(s.budgets)]
    arrived = {
        "request_id": ids,
        "state": ["waiting"] * run.requests,
        "label": [f"p{tokens}" for tokens in s.prompts],
        "prompt_tokens": s.prompts,
        "asked_prompt_tokens": s.prompts,
        "budget_tokens": s.budgets,
        "ignore_eos": np.ones(run.requests, bool),
        "arrival_s": arrival_s,
        "submitted_s": arrival_s,
        "prompt_text": [f"Question {i}: {text[i % 89 : i % 89 + 3 * int(t)]}?" for i, t in enumerate(s.prompts)],
    }
    admitted = {"request_id": ids, "state": ["running"] * run.requests, "admitted_s": admitted_s, "lane": s.lane}
    ended = {
        "request_id": ids,
        "state": ["finished"] * run.requests,
        "finished_s": passes["end_s"][decode_of[s.end]],
        "output_tokens": s.budgets,
        "finish_reason": ["budget"] * run.requests,
        "output_text": outputs,
    }
    return arrived, admitted, ended


def _spans(s: Schedule, passes: Columns, prefill_of: np.ndarray, decode_of: np.ndarray) -> Columns:
    ids = np.arange(len(s.budgets))
    prefill, ended, freed = prefill_of[s.start], decode_of[s.end] + 1, decode_of[s.free] + 1
    dead = np.flatnonzero(freed > ended)
    request_id = np.concatenate([ids, ids, dead])
    start = np.concatenate([prefill, prefill + 1, ended[dead]])
    end = np.concatenate([prefill + 1, ended, freed[dead]])
    times = np.append(passes["start_s"], passes["end_s"][-1])
    return {
        "span_id": np.arange(len(request_id)),
        "lane": s.lane[request_id],
        "slot": s.lane[request_id],
        "request_id": request_id,
        "phase": ["prefill"] * len(ids) + ["decode"] * len(ids) + ["dead"] * len(dead),
        "start_pass": start,
        "end_pass": end,
        "start_s": times[start],
        "end_s": times[end],
    }


def _memory(passes: Columns) -> Columns:
    index = np.arange(0, len(passes["pass_index"]), 10)
    size = np.full(len(index), 700_000_000)
    return {
        "time_s": passes["end_s"][index],
        "pass_index": index,
        "allocated_bytes": size,
        "peak_bytes": size,
        "kv_bytes": size // 10,
        "free_bytes": size * 20,
    }


def _write(folder: Path, stream: str, columns: Mapping[str, Any]) -> None:
    """Append rows to a stream in batches of the usual size. Missing columns are null."""
    schema, path = STREAMS[stream], folder / stream_file(stream)
    size = len(next(iter(columns.values())))
    arrays = [
        pa.array(columns[field.name]).cast(field.type) if field.name in columns else pa.nulls(size, field.type)
        for field in schema
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    is_new = not path.exists()
    with path.open("ab") as file:
        if is_new:
            file.write(schema.serialize())
        for begin in range(0, size, ROWS_A_BATCH):
            file.write(batch.slice(begin, ROWS_A_BATCH).serialize())


def _run_info(run: SyntheticRun, run_id: str) -> Columns:
    config = run.config
    workload = config.workload
    return {
        "run_id": run_id,
        "schema_version": SCHEMA_VERSION,
        "created_at": run.created_at.astimezone(UTC).isoformat(timespec="milliseconds"),
        "engine": run.engine,
        "policy": run.engine,
        "kv_layout": "padded" if run.engine == "static" else "slots",
        "execution": "eager",
        "timing": "sync",
        "config": config.to_dict(),
        "workload": {
            "digest": f"{run.seed:016x}",
            "requests": run.requests,
            "prompts": workload.prompts,
            "budget": workload.budget,
            "arrival": workload.arrival,
            "seed": workload.seed,
        },
        "model": {
            "name": "smollm2-135m",
            "source": "made up",
            "parameters": 134_515_008,
            **{"layers": 30, "kv_heads": 3, "head_dim": 64, "vocab": 49_152, "kv_position_bytes": 46_080},
            **{"random_weights": False, "dtype": "float32", "tokenizer_file": None},
        },
        "device": {"kind": "cpu", "name": "a made-up CPU", "threads": 2},
        "environment": {"python": "3.11", "torch": "2.13", "host": "made up", "cpu_count": 2, "load_average_1min": 0.4},
        "experiment": None if run.experiment is None else {"id": run.experiment, "kind": "pair", "label": "made up"},
        "simulated": False,
    }
