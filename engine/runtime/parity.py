"""Do the engines say the same? Their tokens against serial's and against transformers' generate, request by request.

Greedy only. Batched and single rows round differently, so that two tokens whose logits are closer than that rounding
may swap. Where a token differs, the logits of both candidates are taken from one plain forward pass, and the rounding
is measured: `rounding` is the largest difference of any logit between that pass and the same one over several rows or
through another attention. A `logit_gap` within twice the rounding is a near tie; above it, a bug. Both are unequal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from engine.core.config import RunConfig
from engine.core.workload import Workload
from engine.runtime import attention
from engine.runtime.prepared_run import PreparedRun, WarmModel, prepare_run
from engine.runtime.run import build_engine, make_runner
from engine.runtime.warm_up import NoSink

REFERENCE_ATTENTION = "sdpa"
OTHER_ATTENTION = "eager"
ROUNDING_ROWS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityCase:
    """A workload and the number of slots it is forced through."""

    name: str
    workload: Workload
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first token at which two outputs part."""

    request_id: int
    token_index: int
    token_id: int
    expected_token_id: int
    logit_gap: float
    rounding: float
    near_tie: bool


def run_case(
    case: ParityCase, engines: Sequence[str], config: RunConfig, warm: WarmModel, with_generate: bool
) -> list[dict[str, Any]]:
    """One row an engine: name, engine, equal, equal_to_serial, equal_to_generate, requests, tokens, differences."""
    outputs = {}
    for engine in dict.fromkeys(["serial", *engines]):
        engine_config = replace(config, engine=engine, slots=case.slots)
        prepared = prepare_run(engine_config, warm, lambda message, fraction: None, case.workload)
        outputs[engine] = engine_outputs(prepared)
    generated = generate_outputs(prepared) if with_generate else None
    return [_compare(case, engine, outputs, generated, prepared) for engine in engines]


def engine_outputs(prepared: PreparedRun) -> dict[int, list[int]]:
    """Every request's tokens, by request id, from one run of the prepared engine."""
    requests = prepared.requests()
    runner = make_runner(prepared, requests)
    engine = build_engine(prepared, requests, runner, NoSink())
    engine.run(lambda: False)
    engine.recorder.close(engine.clock.now_s())
    return {r.request_id: r.output_ids for r in requests}


def generate_outputs(prepared: PreparedRun) -> dict[int, list[int]]:
    """The same requests, one at a time, by transformers' generate with its own attention and its own cache."""
    outputs = {}
    eos_ids = list(prepared.loaded.spec.eos_token_ids)
    with _own_attention(prepared, REFERENCE_ATTENTION) as model, torch.inference_mode():
        for spec in prepared.workload.requests:
            prompt = torch.tensor([prepared.prompt_ids[spec.request_id]], device=prepared.device)
            generated = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=spec.budget_tokens,
                do_sample=False,
                eos_token_id=None if spec.ignore_eos else eos_ids,
                pad_token_id=0,
                repetition_penalty=1.0,
            )
            outputs[spec.request_id] = generated[0, prompt.shape[1] :].tolist()
    return outputs


def _compare(
    case: ParityCase,
    engine: str,
    outputs: Mapping[str, Mapping[int, list[int]]],
    generated: Mapping[int, list[int]] | None,
    prepared: PreparedRun,
) -> dict[str, Any]:
    references = (
        {"serial": outputs["serial"]} if generated is None else {"serial": outputs["serial"], "generate": generated}
    )
    differences = {name: _differences(outputs[engine], expected, prepared) for name, expected in references.items()}
    row: dict[str, Any] = {"name": case.name, "engine": engine, "equal": not any(differences.values())}
    for name in references:
        row[f"equal_to_{name}"] = not differences[name]
    row["requests"] = len(case.workload.requests)
    row["tokens"] = sum(len(ids) for ids in outputs[engine].values())
    row["differences"] = {name: [asdict(d) for d in found] for name, found in differences.items() if found}
    return row


def _differences(
    said: Mapping[int, list[int]], expected: Mapping[int, list[int]], prepared: PreparedRun
) -> list[Difference]:
    found = []
    for request_id, tokens in expected.items():
        other = said[request_id]
        if other == tokens:
            continue
        place = next((i for i, (a, b) in enumerate(zip(other, tokens, strict=False)) if a != b), None)
        if place is None:  # one simply stopped earlier
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
def _reference_logits(prepared: PreparedRun, request_id: int, said: Sequence[int]) -> tuple[torch.Tensor, float]:
    """(V,) logits of the next token after the prompt and `said`, and by how much rounding alone moves them."""
    ids = torch.tensor([[*prepared.prompt_ids[request_id], *said]], device=prepared.device)
    with _own_attention(prepared, REFERENCE_ATTENTION) as model:
        logits = _last_logits(model, ids)
        in_a_batch = _last_logits(model, ids.repeat(ROUNDING_ROWS, 1))
    with _own_attention(prepared, OTHER_ATTENTION) as model:
        otherwise = _last_logits(model, ids)
    rounding = max(float((logits - other).abs().max()) for other in (in_a_batch, otherwise))
    return logits, rounding


def _last_logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1].float()
    return logits


@contextmanager
def _own_attention(prepared: PreparedRun, name: str) -> Iterator[Any]:
    """The model with one of transformers' attentions in place of the lab's, for as long as a reference is computed."""
    model = prepared.loaded.model
    model.set_attn_implementation(name)
    try:
        yield model
    finally:
        model.set_attn_implementation(attention.ATTENTION_NAME)
