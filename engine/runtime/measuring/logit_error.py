"""How far an engine's logits are from exact ones, in a dtype in which near ties make tokens a poor measure.

The engine is made to say the serial engine's tokens, whatever it would have picked, and its own runner's logits are
compared, at every token, with one forward pass of the same weights in fp32. So are those of transformers' sdpa in the
engine's dtype: what any implementation in that dtype is off by.
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
_PICKED_OUTSIDE = SamplingConfig(
    temperature=1.0
)  # a runner that picks greedy tokens itself leaves others to the sampler


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitError:
    """Over all logits of all tokens of a case: the largest distance from the exact ones, and its root mean square."""

    largest: float
    rms: float


class ErrorSum:
    """Gathers a LogitError, row by row, on the logits' own device: nothing waits for it before the total."""

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
    """Says the tokens that it is given, and holds the logits it is shown against the exact ones."""

    def __init__(self, tokens: Outputs, exact: Mapping[int, Tensor]) -> None:
        super().__init__(_PICKED_OUTSIDE)
        self.tokens = tokens
        self.exact = exact
        self.error = ErrorSum(next(iter(exact.values())).device)

    def sample(self, logits: Tensor, rows: Sequence[Request]) -> Tensor:
        """(B, V) logits to the (B,) tokens that these rows are to say. Rows past their budget are not measured."""
        said, measured, exact = [], [], []
        for place, request in enumerate(rows):
            tokens, index = self.tokens[request.request_id], request.num_scheduled
            said.append(tokens[min(index, len(tokens) - 1)])
            if index < len(tokens):
                measured.append(place)
                exact.append(self.exact[request.request_id][index])
        if measured:
            self.error.add(logits[measured], torch.stack(exact))
        return torch.tensor(said, dtype=torch.long, device=logits.device)


class ExactLogits:
    """Tells exact logits: of a copy of the loaded model in fp32, made once and kept."""

    def __init__(self) -> None:
        self._exact_model: tuple[object, torch.nn.Module] | None = None

    def of(self, base: PreparedRun, tokens: Outputs) -> dict[int, Tensor]:
        """(n, V) fp32 logits of each request's n tokens, on the model's device."""
        model = base.loaded.model
        if self._exact_model is None or self._exact_model[0] is not model:
            with own_attention(base, REFERENCE_ATTENTION):
                self._exact_model = model, copy.deepcopy(model).float()
        exact_model = self._exact_model[1]
        return {i: _forced_logits(exact_model, base.prompt_ids[i], said) for i, said in tokens.items()}


def engine_error(
    case: ParityCase, engine: str, base: PreparedRun, tokens: Outputs, exact: Mapping[int, Tensor], warm: WarmModel
) -> LogitError:
    """The error of `engine`, made to say `tokens` (the serial engine's, by request id)."""
    sampler = ForcedSampler(tokens, exact)
    run_engine(case.prepare(replace(base.config, sampling=_PICKED_OUTSIDE), engine, warm), sampler)
    return sampler.error.total()


def sdpa_error(base: PreparedRun, tokens: Outputs, exact: Mapping[int, Tensor]) -> LogitError:
    """The same error of transformers' sdpa, a forward pass a request."""
    error = ErrorSum(base.device)
    with own_attention(base, REFERENCE_ATTENTION) as model:
        for request_id, said in tokens.items():
            error.add(_forced_logits(model, base.prompt_ids[request_id], said), exact[request_id])
    return error.total()


@torch.inference_mode()
def _forced_logits(model: torch.nn.Module, prompt: Sequence[int], said: Sequence[int]) -> Tensor:
    """(n, V) logits after the prompt and after each but the last of the n tokens said."""
    device = next(model.parameters()).device
    ids = torch.tensor([[*prompt, *said[:-1]]], device=device)
    logits: Tensor = model(input_ids=ids, use_cache=False, logits_to_keep=len(said)).logits[0]
    return logits


def judge_case(
    case: ParityCase,
    engines: Sequence[str],
    config: RunConfig,
    warm: WarmModel,
    references: References,
    exact_logits: ExactLogits,
) -> list[dict[str, Any]]:
    """One row an engine that the case concerns: its largest logit error, sdpa's, their ratio, and whether it is within.

    `rms_ratio` compares the root mean squares, which a single logit cannot sway.
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
                "tokens": sum(len(said) for said in tokens.values()),
            }
        )
    return rows
