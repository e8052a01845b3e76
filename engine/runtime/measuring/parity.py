"""Compares the engines' tokens with serial's and with transformers', request by request.

Greedy only. Batched and single rows round differently, so two tokens whose logits are closer than that rounding may
swap. If a token differs, one plain forward pass gives the logits of both candidates, and the rounding is measured:
`rounding` is the largest difference of any logit between that pass and the same pass over several rows or through
another attention. A `logit_gap` within twice the rounding is a near tie; above it, a bug. Both count as unequal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from engine.core.config import RunConfig
from engine.core.units import GIB
from engine.runtime.build_engine import build_engine, make_runner
from engine.runtime.measuring.oracles import (
    REFERENCE_ATTENTION,
    generate_batch_outputs,
    generate_outputs,
    own_attention,
)
from engine.runtime.prepared_run import PreparedRun, WarmModel, prepare_run
from engine.runtime.sampler import Sampler
from engine.runtime.warm_up import NoSink
from engine.workload.workload import Workload

OTHER_ATTENTION = "eager"
ROUNDING_ROWS = 4
ORACLES: dict[str, Callable[[PreparedRun], dict[int, list[int]]]] = {
    "generate": generate_outputs,
    "generate_batch": generate_batch_outputs,
}

Outputs = dict[int, list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityCase:
    """A workload, and the settings it runs with. `engines` are the engines that the case applies to.

    `settings` are further settings of the run; `pool_blocks` limits the KV pool.
    """

    name: str
    workload: Workload
    slots: int
    engines: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    pool_blocks: int | None = None

    def config(self, base: RunConfig, engine: str) -> RunConfig:
        return replace(base, engine=engine, slots=self.slots, **self.settings)

    def prepare(self, base: RunConfig, engine: str, warm: WarmModel) -> PreparedRun:
        prepared = prepare_run(self.config(base, engine), warm, lambda message, fraction: None, self.workload)
        if self.pool_blocks is None:
            return prepared
        pool_bytes = self.pool_blocks * prepared.config.block_size * prepared.kv_shape().position_bytes
        return replace(prepared, config=replace(prepared.config, pool_gib=pool_bytes / GIB))


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first token at which two outputs differ."""

    request_id: int
    token_index: int
    token_id: int
    expected_token_id: int
    logit_gap: float
    rounding: float
    near_tie: bool


class References:
    """The outputs of serial and the oracles for a case. Cases with the same prompts and budgets share them."""

    def __init__(self, config: RunConfig, warm: WarmModel, oracles: Sequence[str], tell: Callable[[str], None]) -> None:
        self.config = config
        self.warm = warm
        self.oracles = oracles
        self.tell = tell
        self._known: dict[tuple[str, object], Outputs | None] = {}

    def of(self, case: ParityCase) -> dict[str, Outputs | None]:
        """The outputs by name, of serial and each oracle; None for an oracle that cannot run here."""
        asked = tuple((s.prompt, s.budget_tokens, s.ignore_eos) for s in case.workload.requests)
        prepared = replace(case, settings={}, pool_blocks=None).prepare(self.config, "serial", self.warm)
        for name in ("serial", *self.oracles):
            if (name, asked) not in self._known:
                self._known[name, asked] = self._ask(name, prepared)
        return {name: self._known[name, asked] for name in ("serial", *self.oracles)}

    def _ask(self, name: str, prepared: PreparedRun) -> Outputs | None:
        if name == "serial":
            return engine_outputs(prepared)
        try:
            return ORACLES[name](prepared)
        except RuntimeError as error:
            self.tell(str(error))
            return None


def run_case(
    case: ParityCase, engines: Sequence[str], config: RunConfig, warm: WarmModel, references: References
) -> list[dict[str, Any]]:
    """One row per engine of the case: name, engine, equal, equal_to_…, requests, tokens, differences."""
    expected = references.of(case)
    rows = []
    for engine in (e for e in engines if e in case.engines):
        prepared = case.prepare(config, engine, warm)
        serial = expected["serial"] if engine == "serial" else None
        run = run_engine(prepared) if serial is None else EngineRun(outputs=serial, preemptions=0)
        rows.append(_compare(case, engine, run, expected, prepared))
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRun:
    """An engine's outputs by request id, and its number of preemptions."""

    outputs: Outputs
    preemptions: int


def run_engine(prepared: PreparedRun, sampler: Sampler | None = None) -> EngineRun:
    """One unlogged run of the prepared engine. `sampler` replaces the run's own."""
    requests = prepared.requests()
    runner = make_runner(prepared, requests)
    if sampler is not None:
        runner.sampler = sampler
    runner.capture(lambda: False)
    engine = build_engine(prepared, requests, runner, NoSink())
    engine.run(lambda: False)
    engine.recorder.close(engine.clock.now_s())
    outputs = {r.request_id: r.output_ids for r in requests}
    return EngineRun(outputs=outputs, preemptions=sum(r.num_preemptions for r in requests))


def engine_outputs(prepared: PreparedRun) -> Outputs:
    """Every request's tokens, by request id, from one run of the prepared engine."""
    return run_engine(prepared).outputs


def _compare(
    case: ParityCase, engine: str, run: EngineRun, expected: Mapping[str, Outputs | None], prepared: PreparedRun
) -> dict[str, Any]:
    differences = {
        name: None if outputs is None else _differences(run.outputs, outputs, prepared)
        for name, outputs in expected.items()
    }
    row: dict[str, Any] = {"name": case.name, "engine": engine, "equal": not any(differences.values())}
    for name, found in differences.items():
        row[f"equal_to_{name}"] = None if found is None else not found
    row["requests"] = len(case.workload.requests)
    row["tokens"] = sum(len(ids) for ids in run.outputs.values())
    row["preemptions"] = run.preemptions
    row["differences"] = {name: [asdict(d) for d in found] for name, found in differences.items() if found}
    return row


def _differences(
    outputs: Mapping[int, list[int]], expected: Mapping[int, list[int]], prepared: PreparedRun
) -> list[Difference]:
    found = []
    for request_id, tokens in expected.items():
        other = outputs[request_id]
        if other == tokens:
            continue
        place = next((i for i, (a, b) in enumerate(zip(other, tokens, strict=False)) if a != b), None)
        if place is None:  # one output ends earlier
            place = min(len(other), len(tokens))
            pair = [ids[place] if place < len(ids) else -1 for ids in (other, tokens)]
            found.append(_difference(request_id, place, pair, float("inf"), 0.0))
            continue
        logits, rounding = _reference_logits(prepared, request_id, tokens[:place])
        gap = abs(float(logits[other[place]] - logits[tokens[place]]))
        found.append(_difference(request_id, place, [other[place], tokens[place]], gap, rounding))
    return found


def _difference(request_id: int, place: int, pair: list[int], gap: float, rounding: float) -> Difference:
    return Difference(
        request_id=request_id,
        token_index=place,
        token_id=pair[0],
        expected_token_id=pair[1],
        logit_gap=gap,
        rounding=rounding,
        near_tie=gap <= 2 * rounding,
    )


@torch.inference_mode()
def _reference_logits(prepared: PreparedRun, request_id: int, output: Sequence[int]) -> tuple[torch.Tensor, float]:
    """(V,) logits of the next token after the prompt and `output`, and how much rounding changes them."""
    ids = torch.tensor([[*prepared.prompt_ids[request_id], *output]], device=prepared.device)
    with own_attention(prepared, REFERENCE_ATTENTION) as model:
        logits = _last_logits(model, ids)
        in_a_batch = _last_logits(model, ids.repeat(ROUNDING_ROWS, 1))
    with own_attention(prepared, OTHER_ATTENTION) as model:
        otherwise = _last_logits(model, ids)
    rounding = max(float((logits - other).abs().max()) for other in (in_a_batch, otherwise))
    return logits, rounding


def _last_logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1].float()
    return logits
