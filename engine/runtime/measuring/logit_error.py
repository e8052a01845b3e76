"""The error of an engine's logits against exact ones, for dtypes in which near ties make tokens a poor measure.

The engine is forced to generate the serial engine's tokens, and at every token its logits are compared with a forward
pass of the same weights in fp32. The logits of transformers' sdpa in the engine's dtype are compared too: the error
that any implementation in that dtype has.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from engine.core.config import RunConfig, SamplingConfig
from engine.core.request import Request
from engine.runtime.measuring.oracles import REFERENCE_ATTENTION, own_attention
from engine.runtime.measuring.parity import Outputs, ParityCase, References, run_engine
from engine.runtime.prepared_run import PreparedRun, WarmModel
from engine.runtime.sampler import Sampler

MAX_RATIO = 1.2  # of an engine's error to that of transformers' sdpa
# A graph runner picks greedy tokens itself; with any other sampling it calls the sampler.
_SAMPLER_CALLED = SamplingConfig(temperature=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitError:
    """Distance to the exact logits over all tokens of a case: the largest, and the root mean square."""

    largest: float
    rms: float


class ErrorSum:
    """Accumulates a LogitError row by row on the logits' device, without waiting until the total."""

    def __init__(self, device: torch.device) -> None:
        self._largest = torch.zeros((), device=device)
        self._squares = torch.zeros((), device=device)
        self._count = 0

    def add(self, logits: Tensor, exact: Tensor) -> None:
        """(…, V) logits of any dtype against exact ones of the same shape."""
        distance = (logits.float() - exact).abs()
        self._largest = torch.maximum(self._largest, distance.max())
        self._squares += distance.square().sum()
        self._count += distance.numel()

    def total(self) -> LogitError:
        assert self._count, "no logit was compared"
        return LogitError(largest=float(self._largest), rms=(float(self._squares) / self._count) ** 0.5)


class ForcedSampler(Sampler):
    """Returns fixed tokens, and compares the logits with exact ones."""

    def __init__(self, tokens: Outputs, exact: Mapping[int, Tensor]) -> None:
        super().__init__(_SAMPLER_CALLED)
        self.tokens = tokens
        self.exact = exact
        self.error = ErrorSum(next(iter(exact.values())).device)

    def sample(self, logits: Tensor, rows: Sequence[Request]) -> Tensor:
        """(B, V) logits to (B,) fixed tokens. Rows past their budget are not measured."""
        forced, measured, exact = [], [], []
        for place, request in enumerate(rows):
            tokens, index = self.tokens[request.request_id], request.num_scheduled
            forced.append(tokens[min(index, len(tokens) - 1)])
            if index < len(tokens):
                measured.append(place)
                exact.append(self.exact[request.request_id][index])
        if measured:
            self.error.add(logits[measured], torch.stack(exact))
        return torch.tensor(forced, dtype=torch.long, device=logits.device)


class ExactLogits:
    """Exact logits, from an fp32 copy of the loaded model that is made once and kept."""

    def __init__(self) -> None:
        self._exact_model: tuple[object, torch.nn.Module] | None = None

    def of(self, base: PreparedRun, tokens: Outputs) -> dict[int, Tensor]:
        """(n, V) fp32 logits of each request's n tokens, on the model's device."""
        model = base.loaded.model
        if self._exact_model is None or self._exact_model[0] is not model:
            with own_attention(base, REFERENCE_ATTENTION):
                self._exact_model = model, copy.deepcopy(model).float()
        exact_model = self._exact_model[1]
        return {i: _forced_logits(exact_model, base.prompt_ids[i], output) for i, output in tokens.items()}


def engine_error(
    case: ParityCase, engine: str, base: PreparedRun, tokens: Outputs, exact: Mapping[int, Tensor], warm: WarmModel
) -> LogitError:
    """The error of `engine`, forced to generate `tokens` (the serial engine's, by request id)."""
    sampler = ForcedSampler(tokens, exact)
    run_engine(case.prepare(replace(base.config, sampling=_SAMPLER_CALLED), engine, warm), sampler)
    return sampler.error.total()


def sdpa_error(base: PreparedRun, tokens: Outputs, exact: Mapping[int, Tensor]) -> LogitError:
    """The same error for transformers' sdpa, one forward pass per request."""
    error = ErrorSum(base.device)
    with own_attention(base, REFERENCE_ATTENTION) as model:
        for request_id, output in tokens.items():
            error.add(_forced_logits(model, base.prompt_ids[request_id], output), exact[request_id])
    return error.total()


@torch.inference_mode()
def _forced_logits(model: torch.nn.Module, prompt: Sequence[int], output: Sequence[int]) -> Tensor:
    """(n, V) logits after the prompt and after each of the n output tokens but the last."""
    device = next(model.parameters()).device
    ids = torch.tensor([[*prompt, *output[:-1]]], device=device)
    logits: Tensor = model(input_ids=ids, use_cache=False, logits_to_keep=len(output)).logits[0]
    return logits


def judge_case(
    case: ParityCase,
    engines: Sequence[str],
    config: RunConfig,
    warm: WarmModel,
    references: References,
    exact_logits: ExactLogits,
) -> list[dict[str, Any]]:
    """One row per engine of the case: its largest logit error, sdpa's, their ratio, and whether it is allowed.

    `rms_ratio` compares the root mean squares, which do not depend on a single logit.
    """
    tokens = references.of(case)["serial"]
    assert tokens is not None
    base = case.prepare(config, "serial", warm)
    exact = exact_logits.of(base, tokens)
    sdpa = sdpa_error(base, tokens, exact)
    rows = []
    for engine in (e for e in engines if e in case.engines):
        error = engine_error(case, engine, base, tokens, exact, warm)
        rows.append(
            {
                "name": case.name,
                "engine": engine,
                "logit_error": error.largest,
                "logit_error_sdpa": sdpa.largest,
                "ratio": error.largest / sdpa.largest,
                "rms_ratio": error.rms / sdpa.rms,
                "within": error.largest <= MAX_RATIO * sdpa.largest,
                "requests": len(tokens),
                "tokens": sum(len(output) for output in tokens.values()),
            }
        )
    return rows
