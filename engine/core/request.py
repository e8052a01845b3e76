"""One request on its way through an engine: what was asked, and the state that the scheduler moves along.

`RequestSpec` is what a workload fixes before any engine runs. `Request` is the only mutable object of the engines: it
is created when a run starts and carries the request from waiting through running to finished.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPrompt:
    """Text that a person wrote. `chat` wraps them in the model's chat template, where it has one."""

    text: str
    chat: bool = True
    label: str = "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactPrompt:
    """Exactly `tokens` tokens of real text, cut from the lab's own prose from its `passage`-th starting point on."""

    tokens: int
    passage: int

    @property
    def label(self) -> str:
        return f"p{self.tokens}"


Prompt = TextPrompt | ExactPrompt


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec:
    """What a workload asks for: the prompt, how many new tokens, and when it intends to arrive.

    `ignore_eos` is true for a numeric budget, so that counts are exact. `sampling_seed` seeds the random draws that
    belong to this request alone, whatever its neighbors in a batch.
    """

    request_id: int
    prompt: Prompt
    budget_tokens: int
    ignore_eos: bool
    arrival_s: float
    sampling_seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """A request as far as memory is concerned."""

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
    """A request inside a run. Times are seconds on the run's clock; None until they have happened."""

    spec: RequestSpec
    prompt_ids: list[int]
    state: RequestState = RequestState.WAITING
    output_ids: list[int] = field(default_factory=list)
    num_scheduled: int = 0  # output tokens that passes were issued for; ahead of len(output_ids) in async timing
    num_computed_tokens: int = 0  # tokens whose keys and values passes were issued for
    block_table: list[int] = field(default_factory=list)  # the blocks that hold them, in order (paged layouts)
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
        """Prompt tokens and every output token that a pass was issued for."""
        return self.num_prompt_tokens + self.num_scheduled

    @property
    def length(self) -> Length:
        """From its prompt to its last token, as asked for."""
        return Length(prompt_tokens=self.num_prompt_tokens, budget_tokens=self.spec.budget_tokens)


def slot_of(request: Request) -> int:
    """The physical slot of a request that runs."""
    assert request.slot is not None
    return request.slot
