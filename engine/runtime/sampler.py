"""From logits to the next token: greedy, or by temperature, top-k and top-p (nucleus; Holtzman et al., ICLR 2020).

A request's random draws depend only on its own seed and the token's index, so its tokens do not depend on the batch or
the engine. Shapes: B rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.core.config import SamplingConfig
from engine.core.request import Request
from engine.runtime.upload import upload


class Sampler:
    """Picks one token per row. A request's draws, one uniform number per token, are fixed when it is first seen."""

    def __init__(self, config: SamplingConfig) -> None:
        self.config = config
        self._draws: dict[int, np.ndarray] = {}

    def sample(self, logits: Tensor, rows: Sequence[Request]) -> Tensor:
        """(B, V) logits to (B,) token ids on the same device."""
        if self.config.is_greedy:
            return logits.argmax(dim=-1)
        draws = upload([self._draw(r) for r in rows], torch.float32, logits.device)
        return pick(logits.float(), draws, self.config)

    def _draw(self, request: Request) -> float:
        draws = self._draws.get(request.request_id)
        if draws is None:
            generator = np.random.default_rng(request.spec.sampling_seed)
            draws = self._draws[request.request_id] = generator.random(request.spec.budget_tokens)
        # A dead row runs past its budget; its token is discarded, so any draw works.
        return float(draws[min(request.num_scheduled, len(draws) - 1)])


def pick(logits: Tensor, draws: Tensor, config: SamplingConfig) -> Tensor:
    """Inverse-CDF sampling of (B, V) logits by uniform `draws` (B,), after temperature, top-k, then top-p."""
    ordered, ids = (logits / config.temperature).sort(dim=-1, descending=True, stable=True)
    if 0 < config.top_k < ordered.shape[-1]:
        ordered[:, config.top_k :] = -torch.inf
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    kept = torch.where(before < config.top_p, probabilities, torch.zeros_like(probabilities))
    cumulative = kept.cumsum(dim=-1)
    target = draws[:, None] * cumulative[:, -1:]
    place = torch.searchsorted(cumulative, target, right=True).clamp(max=ordered.shape[-1] - 1)
    # Rounding may point past the last kept token; step back onto it.
    place = torch.minimum(place, (kept > 0).sum(dim=-1, keepdim=True) - 1).clamp(min=0)
    return ids.gather(-1, place).squeeze(-1)
