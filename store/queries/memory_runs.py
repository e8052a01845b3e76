"""Completed runs with their measured peak memory and the estimate for their model, engine and requests.

One query reads a bounded list of runs, a second one their requests: only those that can determine peak memory.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.core.request import Length
from engine.core.units import DTYPE_BYTES
from engine.memory.memory_model import ModelDimensions, PassMemory
from engine.memory.memory_plan import EngineShape, run_memory
from store.database import SUMMARIES, Database
from store.queries.frames import frame_of

MOST_RUNS = 200

RUNS = f"""
    SELECT
        r.run_id, r.engine, r.model, r.dtype, r.device, r.device_name, r.execution, r.slots,
        r.kv_blocks, r.run_info, m.peak_memory_bytes
    FROM runs r JOIN {SUMMARIES} m ON m.run_id = r.run_id
    WHERE r.status = 'completed' AND m.peak_memory_bytes IS NOT NULL AND r.engine IS NOT NULL
        AND NOT coalesce(r.simulated, false)
        AND ($models IS NULL OR list_contains($models::VARCHAR[], r.model)) AND ($dtype IS NULL OR r.dtype = $dtype)
    ORDER BY r.created_at DESC NULLS LAST, r.run_id DESC
    LIMIT {MOST_RUNS}
"""

# For each length that memory depends on, a run's longest requests, as many as it has slots.
LENGTHS = """
    SELECT q.run_id, q.prompt_tokens, q.budget_tokens
    FROM requests q JOIN runs r ON r.run_id = q.run_id
    WHERE q.run_id IN (SELECT unnest($run_ids)) AND q.prompt_tokens IS NOT NULL AND q.budget_tokens IS NOT NULL
    QUALIFY
        row_number() OVER (PARTITION BY q.run_id ORDER BY q.prompt_tokens DESC, q.request_id) <= coalesce(r.slots, 1)
        OR row_number() OVER (
            PARTITION BY q.run_id ORDER BY q.prompt_tokens::BIGINT + q.budget_tokens DESC, q.request_id
        ) <= coalesce(r.slots, 1)
        OR row_number() OVER (PARTITION BY q.run_id ORDER BY q.budget_tokens DESC, q.request_id) = 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A run's measured peak memory, and the estimate for its requests. `device` is `cpu` or `cuda…`.

    `uniform` is the length that all requests share, or None; `batch_size` is the number of concurrent rows.
    """

    run_id: str
    engine: str
    model: str
    dtype: str
    device: str
    device_name: str
    batch_size: int
    uniform: Length | None
    prompt_tokens: tuple[int, int]
    predicted: PassMemory
    measured_bytes: int


class MemoryRuns:
    """Runs of a store with their measured peak memory. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def newest(self, models: Sequence[str] = (), dtype: str | None = None) -> list[MeasuredRun]:
        """The newest completed runs, optionally of `models` and a dtype. Runs without the needed data are left out."""
        cursor = self._database.cursor()
        frame = frame_of(cursor, RUNS, {"models": list(models) or None, "dtype": dtype})
        lengths: dict[str, list[Length]] = defaultdict(list)
        requests = frame_of(cursor, LENGTHS, {"run_ids": frame["run_id"].tolist()}) if len(frame) else None
        for row in [] if requests is None else requests.to_dict("records"):
            length = Length(prompt_tokens=int(row["prompt_tokens"]), budget_tokens=int(row["budget_tokens"]))
            lengths[str(row["run_id"])].append(length)
        found = (_measured(row, lengths[str(row["run_id"])]) for row in frame.to_dict("records"))
        return [run for run in found if run is not None]


def _measured(row: dict[Any, Any], lengths: list[Length]) -> MeasuredRun | None:
    info = json.loads(row["run_info"])
    model = _dimensions(info.get("model") or {}, str(row["dtype"]))
    shape = _shape(info)
    if model is None or shape is None or not lengths or info.get("execution") == "graph":
        return None  # the estimate does not include the memory of captured CUDA graphs
    slots = int(row["slots"] or 1)
    rows = min(shape.rows(slots), len(lengths))
    prompts = [length.prompt_tokens for length in lengths]
    return MeasuredRun(
        run_id=str(row["run_id"]),
        engine=shape.engine,
        model=str(row["model"]),
        dtype=str(row["dtype"]),
        device=str(row["device"]),
        device_name=str(row["device_name"] or row["device"]),
        batch_size=rows,
        uniform=lengths[0] if len(set(lengths)) == 1 else None,
        prompt_tokens=(min(prompts), max(prompts)),
        predicted=_predicted(row, model, shape, slots, lengths),
        measured_bytes=int(row["peak_memory_bytes"]),
    )


def _predicted(
    row: dict[Any, Any], model: ModelDimensions, shape: EngineShape, slots: int, lengths: list[Length]
) -> PassMemory:
    """The estimate for the run's requests; its KV cache is at most the run's pool."""
    need = run_memory(model, shape, slots, lengths)
    blocks = row["kv_blocks"]
    if blocks is None or blocks != blocks:
        return need
    pool_bytes = int(blocks) * shape.block_size * model.kv_position_bytes
    return replace(need, kv_bytes=min(need.kv_bytes, pool_bytes))


def _dimensions(model: dict[str, Any], dtype: str) -> ModelDimensions | None:
    names = ("parameters", "layers", "kv_heads", "head_dim", "intermediate", "vocab")
    value_bytes = DTYPE_BYTES.get(dtype)
    if value_bytes is None or not all(isinstance(model.get(name), int) for name in names):
        return None
    return ModelDimensions(**{name: model[name] for name in names}, value_bytes=value_bytes)


def _shape(info: dict[str, Any]) -> EngineShape | None:
    """The configuration that determines memory; None if this lab cannot read it."""
    config = info.get("config") or {}
    try:
        return EngineShape(
            engine=str(info.get("engine")),
            block_size=int(config.get("block_size") or 16),
            max_num_batched_tokens=int(config.get("max_num_batched_tokens") or 512),
            sampled_in_fp32=float((config.get("sampling") or {}).get("temperature") or 0) > 0,
        )
    except (TypeError, ValueError):
        return None
