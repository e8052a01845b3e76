"""One request: its specification, and its state while an engine runs it.

A workload fixes the `RequestSpec`s before any engine runs. `Request` is the engines' only mutable object: it is created
when a run starts and goes from waiting through running to finished.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPrompt:
    """Free text. `chat` wraps it in the model's chat template if it has one."""

    text: str
    chat: bool = True
    label: str = "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactPrompt:
    """Exactly `tokens` tokens of real text: the lab's prose from its `passage`-th starting point."""

    tokens: int
    passage: int

    @property
    def label(self) -> str:
        return f"p{self.tokens}"


Prompt = TextPrompt | ExactPrompt


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec:
    """A request as its workload specifies it: the prompt, the number of output tokens, and its arrival time.

    `ignore_eos` is true for a numeric budget, which makes token counts exact. `sampling_seed` seeds this request's own
    random draws, so they do not depend on its batch.
    """

    request_id: int
    prompt: Prompt
    budget_tokens: int
    ignore_eos: bool
    arrival_s: float
    sampling_seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """A request's length in tokens, from which its memory follows."""

    prompt_tokens: int
    budget_tokens: int

    @property
    def positions(self) -> int:
        return self.prompt_tokens + self.budget_tokens


class RequestState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"  # the run ended (cancel, out of memory, failure) before the request did


class FinishReason(StrEnum):
    BUDGET = "budget"
    EOS = "eos"


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """A request inside a run. Times are seconds on the run's clock; None until they happen."""

    spec: RequestSpec
    prompt_ids: list[int]
    state: RequestState = RequestState.WAITING
    output_ids: list[int] = field(default_factory=list)
    num_scheduled: int = 0  # output tokens of issued passes; ahead of len(output_ids) in async timing
    num_computed_tokens: int = 0  # tokens whose keys and values issued passes compute
    block_table: list[int] = field(default_factory=list)  # the blocks that hold them, in order (paged layouts only)
    num_preemptions: int = 0
    submitted_s: float | None = None
    admitted_s: float | None = None
    finished_s: float | None = None
    finish_reason: FinishReason | None = None
    lane: int | None = None
    slot: int | None = None

    @property
    def request_id(self) -> int:
        return self.spec.request_id

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt_ids)

    @property
    def num_tokens(self) -> int:
        """Prompt tokens plus output tokens of issued passes."""
        return self.num_prompt_tokens + self.num_scheduled

    @property
    def length(self) -> Length:
        """Its prompt tokens and its budget."""
        return Length(prompt_tokens=self.num_prompt_tokens, budget_tokens=self.spec.budget_tokens)


def slot_of(request: Request) -> int:
    """The physical slot of a running request."""
    assert request.slot is not None
    return request.slot
