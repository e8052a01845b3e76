"""How long the queue waits for a worker that was told to stop, before it kills it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a cancelled worker may take. A pass is over when progress is reported: from then on `after_pass_s`."""

    loading_s: float = 20.0
    one_pass_s: float = 60.0
    after_pass_s: float = 4.0
