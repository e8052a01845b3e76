"""The engines under a virtual clock: the real schedulers and recorder, with step times from a cost model.

No model runs, so a request always generates its maximum number of output tokens. Exact prompt lengths are used as they
are; the length of a text prompt is estimated. Admission, eviction, blocks, preemptions, chunks and their order are
those of the real engines, step for step.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from engine.core.config import RunConfig
from engine.core.errors import EngineOutOfMemory, FieldError
from engine.core.passes import PassKind, PassOutcome, PassTiming, PlannedPass
from engine.core.presets import make_scheduler
from engine.core.record import RunRecord, Table
from engine.core.recorder import Recorder
from engine.core.request import ExactPrompt, Prompt, Request
from engine.core.schedulers.paged_scheduler import PagedScheduler
from engine.hardware.roofline import ModelShape, pass_stats, require_window
from engine.hardware.step_cost import CostModel
from engine.memory.memory_model import ModelDimensions, PassMemory
from engine.simulator.fast_forward import FastForward, decode_run_of
from engine.simulator.log import MemorySink, TokenTimes
from engine.simulator.memory import SimulatedMemory
from engine.workload.workload import Workload

CHARACTERS_PER_TOKEN = 4.0  # short English questions with SmolLM2's tokenizer
CHAT_TEMPLATE_TOKENS = 30  # a short system prompt and turn markers, with SmolLM2's template

MAX_TOKENS = 50_000_000  # of all answers: a token takes about 60 bytes while metrics are computed

PromptLength = Callable[[Prompt], int]


def estimated_tokens(prompt: Prompt) -> int:
    """The length of an exact prompt, or the estimated number of tokens of a text."""
    if isinstance(prompt, ExactPrompt):
        return prompt.tokens
    return max(1, math.ceil(len(prompt.text) / CHARACTERS_PER_TOKEN)) + (CHAT_TEMPLATE_TOKENS if prompt.chat else 0)


def simulated_requests(workload: Workload, prompt_length: PromptLength = estimated_tokens) -> list[Request]:
    """New requests with prompts of the right lengths. Their tokens are never read, so equal lengths share one list.

    ValueError for more output tokens than a simulation can hold.
    """
    num_tokens = sum(spec.budget_tokens for spec in workload.requests)
    if num_tokens > MAX_TOKENS:
        raise FieldError(
            "budget", f"budget: {num_tokens:,} new tokens in total; use fewer requests ({MAX_TOKENS:,} at most)"
        )
    lengths: dict[int, list[int]] = {}
    requests = []
    for spec in workload.requests:
        length = prompt_length(spec.prompt)
        requests.append(Request(spec=spec, prompt_ids=lengths.setdefault(length, [0] * length)))
    return requests


def require_context(workload: Workload, shape: ModelShape) -> None:
    """ValueError for the first request that is longer than the model's context, or than a window of its attention."""
    limit = shape.max_positions
    for spec in workload.requests:
        length = estimated_tokens(spec.prompt)
        require_window(shape, length + spec.budget_tokens, "prompts")
        if limit is not None and length + spec.budget_tokens > limit:
            raise ValueError(
                f"request {spec.request_id}: a prompt of {length:,} tokens and a budget of {spec.budget_tokens:,} "
                f"exceed the {limit:,} positions of {shape.name}; use a shorter prompt or a smaller budget"
            )


def runs_ahead(config: RunConfig) -> bool:
    """Whether a pass is issued when the previous one begins, so that a new arrival joins one pass later."""
    return config.timing == "async" and config.device != "cpu"


def pause_s(cost: CostModel, timing: str, pass_s: float) -> float:
    """Time from a pass's end to the next one's start: the host's work, which running ahead does during the pass."""
    return cost.host_s if timing == "sync" else max(0.0, cost.host_s - pass_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """The result of one simulated run. `tokens` has request_id, token_index, pass_index, produced_s and delivered_s.

    `status` is `completed` or `oom`; `shortage` holds the failed allocation. `peak` is the estimated memory of the
    largest pass, None without any pass.
    """

    status: str
    shortage: EngineOutOfMemory | None
    duration_s: float
    peak: PassMemory | None
    kv_bytes: int
    num_blocks: int | None
    sink: MemorySink
    tokens: Table

    @property
    def peak_bytes(self) -> int:
        return 0 if self.peak is None else self.peak.total_bytes

    def record(self) -> RunRecord:
        """The record from which metrics are computed."""
        return RunRecord(requests=self.sink.requests(), passes=self.sink.passes(), tokens=self.tokens)


class Replica:
    """One engine on one machine; `advance` runs it up to a given time.

    `requests` are all requests of the replica. With `is_routed` they are only candidates: `give` then adds each one
    that the router assigns, in order of arrival.
    """

    def __init__(
        self,
        config: RunConfig,
        requests: Sequence[Request],
        cost: CostModel,
        model: ModelDimensions,
        *,
        is_routed: bool = False,
        streams: Collection[str] = (),
        fast_forward: bool = True,
    ) -> None:
        self.config = config
        self.cost = cost
        self.requests = requests
        self.sink = MemorySink(streams)
        self.tokens = TokenTimes()
        whole = config.returns == "whole"
        self.recorder = Recorder(self.sink, config.num_slots, returns_whole=whole, logs_tokens=False)
        self.now_s = 0.0
        self._knows_until_s = 0.0  # the next step knows the requests that had arrived by then
        self._finished_s: list[float] = []
        self._num_given = 0
        self.shortage: EngineOutOfMemory | None = None
        self.memory = SimulatedMemory(config=config, model=model)
        try:
            self.memory.begin(requests)
        except EngineOutOfMemory as shortage:
            self.shortage = shortage
            return
        self.scheduler = make_scheduler(config, requests, self.memory.num_blocks)
        if isinstance(self.scheduler, PagedScheduler):
            self.scheduler.blocks.notes_events = "blocks" in self.sink.streams
        if is_routed:
            self.scheduler.pending.clear()
        decode_run = decode_run_of(self.scheduler) if fast_forward else None
        self._forward: FastForward | None = None  # None: every step is planned
        if decode_run is not None:
            self._forward = FastForward(
                decode_run, cost, self.recorder, self.sink, self.tokens, self._pause_s, runs_ahead=runs_ahead(config)
            )

    @property
    def is_done(self) -> bool:
        return self.shortage is not None or self.scheduler.is_done

    def give(self, request: Request) -> None:
        """Add a request that arrives after all given before."""
        self._num_given += 1
        if self.shortage is None:
            self.scheduler.pending.append(request)

    def num_present(self, now_s: float) -> int:
        """Given requests that have not ended at that time."""
        return self._num_given - bisect_right(self._finished_s, now_s)

    @property
    def num_finished(self) -> int:
        """Requests that have ended."""
        return len(self._finished_s)

    @property
    def num_output_tokens(self) -> int:
        """Output tokens of all requests so far."""
        return sum(request.num_scheduled for request in self.requests)

    def advance(self, until_s: float = math.inf) -> None:
        """Run every step that begins before `until_s`."""
        while not self.is_done and self.now_s < until_s:
            wake_s = self._idle_until_s()
            if wake_s is not None and wake_s >= until_s:
                return
            if wake_s is not None:
                self.now_s = self._knows_until_s = max(self.now_s, wake_s)
            else:
                self._step(until_s)

    def _idle_until_s(self) -> float | None:
        """The time at which an idle engine has work again; None if it has work now."""
        scheduler = self.scheduler
        known_s = self._knows_until_s
        self.recorder.submitted(scheduler.submit_arrived(known_s), {})
        self.recorder.admitted(scheduler.admit(known_s))
        if scheduler.running:
            return None
        wake_s = scheduler.wake_s(known_s)
        assert wake_s is not None, "nothing runs, nothing will come, yet the engine is not done"
        return wake_s

    def _step(self, until_s: float) -> None:
        """The passes of one step, after admission, then fast-forward over similar steps."""
        planned: PlannedPass | None = None
        outcome = PassOutcome(ended=(), released=(), moves=())
        for kind in self.scheduler.kinds:
            following = self.scheduler.plan(kind)
            if following is None:
                continue
            try:
                self.memory.check(following)
            except EngineOutOfMemory as shortage:
                self.shortage = shortage
                return
            planned, outcome = following, self._pass(following)
        if self._forward is not None and planned is not None and planned.kind is PassKind.DECODE and not outcome.ended:
            self.now_s, self._knows_until_s = self._forward.run(planned, self.now_s, self._knows_until_s, until_s)

    def _pass(self, planned: PlannedPass) -> PassOutcome:
        pass_s = self.cost.pass_s(pass_stats(planned))
        start_s, end_s = self.now_s, self.now_s + pass_s
        slots = planned.prefilled_slots
        timing = PassTiming(
            start_s=start_s, end_s=end_s, issue_s=None, device_s=pass_s, produced_s=end_s, delivered_s=end_s
        )
        outcome = self.scheduler.complete(planned)
        self.recorder.passed(planned, outcome, timing, [0] * len(planned.live), slots)
        self.tokens.passed(planned, outcome, end_s)
        self._finished_s += [end_s] * len(outcome.ended)
        for request in outcome.ended:
            request.output_ids.clear()  # already recorded; frees memory
        self.now_s = end_s + self._pause_s(pass_s)
        self._knows_until_s = start_s if runs_ahead(self.config) else self.now_s
        return outcome

    def _pause_s(self, pass_s: float) -> float:
        return pause_s(self.cost, self.config.timing, pass_s)

    def end(self) -> Simulation:
        """Close the log and return the result."""
        self.recorder.close(self.now_s)
        tokens = self.tokens.table()
        whole = self.config.returns == "whole"
        tokens["delivered_s"] = np.full_like(tokens["produced_s"], np.nan) if whole else tokens["produced_s"]
        return Simulation(
            status="completed" if self.shortage is None else "oom",
            shortage=self.shortage,
            duration_s=self.now_s,
            peak=self.memory.peak,
            kv_bytes=self.memory.kv_bytes,
            num_blocks=self.memory.num_blocks,
            sink=self.sink,
            tokens=tokens,
        )


def simulate(
    config: RunConfig,
    workload: Workload,
    cost: CostModel,
    model: ModelDimensions,
    *,
    prompt_length: PromptLength = estimated_tokens,
    streams: Collection[str] = (),
    fast_forward: bool = True,
) -> Simulation:
    """Simulate `workload` on a machine with the step times of `cost`.

    `streams` of the run log are kept in addition to what metrics need. A run that exceeds the pool or capacity of
    `config`, by the dimensions of `model`, ends as `oom` like a real one.
    """
    requests = simulated_requests(workload, prompt_length)
    replica = Replica(config, requests, cost, model, streams=streams, fast_forward=fast_forward)
    replica.advance()
    return replica.end()
