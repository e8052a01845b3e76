"""Fast-forward: simulates consecutive decode passes over the same rows without planning and recording each one.

While no request is admitted, none ends, and every row that fills its last block gets another block, each step is one
decode pass over the same rows, which are one position longer. The time of each pass is computed by the same model and
in the same order as in single steps, so the result is bit-identical.

`DecodeRun` reproduces what a policy does in such a step. Unknown policies, also subclasses of known ones, are not
fast-forwarded: the simulator plans each of their steps.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from engine.core.passes import BlockEvent, PlannedPass
from engine.core.recorder import Recorder
from engine.core.schedulers.chunked_scheduler import ChunkedScheduler
from engine.core.schedulers.continuous_scheduler import ContinuousScheduler
from engine.core.schedulers.paged_scheduler import PagedScheduler
from engine.core.schedulers.scheduler import Scheduler
from engine.core.schedulers.static_scheduler import StaticScheduler
from engine.hardware.roofline import pass_stats
from engine.hardware.step_cost import CostModel
from engine.simulator.log import MemorySink, TokenTimes


class DecodeRun:
    """Steps of `scheduler` with one decode pass each, over the rows of its last pass, counted instead of planned."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def most_steps(self) -> int:
        """The number of steps before one in which a row generates its last token."""
        rows, live = self.scheduler.decode_rows()
        return min((rows[i].spec.budget_tokens - rows[i].num_scheduled for i in live), default=1) - 1

    def would_admit(self, now_s: float) -> bool:
        """Whether a step that begins now could admit a request."""
        return self.scheduler.num_admissible(now_s) > 0

    def step(self) -> bool:
        """Count one more step, except its tokens (`finish`). False, without effect, if the step must be planned."""
        scheduler = self.scheduler
        scheduler.step += 1
        scheduler.num_passes += 1
        scheduler.num_decodes += 1
        scheduler.spent_with.pop(scheduler.num_decodes, None)  # entries of requests that were preempted since
        scheduler.num_used += len(scheduler.decode_rows().live)
        return True

    def block_events(self) -> tuple[BlockEvent, ...]:
        """Blocks of the KV pool that were allocated or freed in the step."""
        return ()

    def finish(self, count: int) -> None:
        """Count the tokens of `count` steps for each row."""
        rows, live = self.scheduler.decode_rows()
        for i in live:
            rows[i].num_scheduled += count
            rows[i].num_computed_tokens += count


class PagedDecodeRun(DecodeRun):
    """The same with a pool of blocks: rows grow, requests wait for blocks, and a preemption ends the run."""

    def __init__(self, scheduler: PagedScheduler) -> None:
        super().__init__(scheduler)
        self.paged = scheduler

    def most_steps(self) -> int:
        return 0 if self.paged.prefilling else super().most_steps()

    def would_admit(self, now_s: float) -> bool:
        return super().would_admit(now_s) and self.paged.blocks.can_allocate(self.paged.waiting[0].num_tokens)

    def step(self) -> bool:
        full = self.paged.full_rows()
        if len(full) > self.paged.blocks.num_free:
            return False
        self.paged.blocks.append_one_each(full)
        return super().step()

    def block_events(self) -> tuple[BlockEvent, ...]:
        return self.paged.blocks.drain_events()


def decode_run_of(scheduler: Scheduler) -> DecodeRun | None:
    """None for a policy whose steps must be planned one by one."""
    if type(scheduler) in (StaticScheduler, ContinuousScheduler):
        return DecodeRun(scheduler)
    if isinstance(scheduler, PagedScheduler) and type(scheduler) in (PagedScheduler, ChunkedScheduler):
        return PagedDecodeRun(scheduler)
    return None


class FastForward:
    """Continues from a decode pass as long as nothing else happens.

    `pause_s(pass_s)` is the time from a pass's end to the next one's start. An engine that `runs_ahead` plans a step
    when the previous pass begins.
    """

    def __init__(
        self,
        decode_run: DecodeRun,
        cost: CostModel,
        recorder: Recorder,
        sink: MemorySink,
        tokens: TokenTimes,
        pause_s: Callable[[float], float],
        *,
        runs_ahead: bool,
    ) -> None:
        self.decode_run = decode_run
        self.scheduler = decode_run.scheduler
        self.cost = cost
        self.recorder = recorder
        self.sink = sink
        self.tokens = tokens
        self.pause_s = pause_s
        self.runs_ahead = runs_ahead
        self._keeps_blocks = "blocks" in sink.streams

    def run(self, planned: PlannedPass, now_s: float, known_s: float, until_s: float) -> tuple[float, float]:
        """Run the steps after the decode pass `planned` that begin at `now_s` or later and before `until_s`.

        The first step knows the requests that had arrived by `known_s`. Returns both times for the next step.
        """
        scheduler, decode_run = self.scheduler, self.decode_run
        most = decode_run.most_steps()
        if most < 1 or decode_run.would_admit(known_s):
            return now_s, known_s
        stats = pass_stats(planned)
        starts_s, ends_s, passes_s = array("d"), array("d"), array("d")
        queued, reserved = array("q"), array("q")
        for number in range(1, most + 1):
            if now_s >= until_s or self._an_arrival_joins(known_s) or not decode_run.step():
                break
            stats = stats.longer()
            pass_s = self.cost.pass_s(stats)
            starts_s.append(now_s)
            events = decode_run.block_events()
            if self._keeps_blocks:
                self.recorder.log_blocks(events, planned.index + number, now_s)
            now_s += pass_s
            ends_s.append(now_s)
            passes_s.append(pass_s)
            queued.append(len(scheduler.waiting))
            reserved.append(scheduler.layout.reserved)
            now_s += self.pause_s(pass_s)
            known_s = starts_s[-1] if self.runs_ahead else now_s
        if starts_s:
            decode_run.finish(len(starts_s))
            self._log(planned, starts_s, ends_s, passes_s, queued, reserved)
        return now_s, known_s

    def _an_arrival_joins(self, now_s: float) -> bool:
        """Whether a step that begins now would admit a newly arrived request."""
        pending = self.scheduler.pending
        if not pending or pending[0].spec.arrival_s > now_s:
            return False
        self.recorder.submitted(self.scheduler.submit_arrived(now_s), {})
        return self.decode_run.would_admit(now_s)

    def _log(
        self,
        planned: PlannedPass,
        starts_s: array[float],
        ends_s: array[float],
        passes_s: array[float],
        queued: array[int],
        reserved: array[int],
    ) -> None:
        count, rows, live = len(starts_s), len(planned.rows), len(planned.live)
        shape, kv, first = planned.shape, planned.kv, planned.index + 1
        used = range(kv.used + live, kv.used + live * count + 1, live)
        has_fragments = self.scheduler.layout.has_blocks
        fragment = array("q", map(int.__sub__, reserved, used)) if has_fragments else _constant(0, count)
        dead = rows - live
        dead_positions = shape.dead_positions
        self.sink.extend_passes(
            {
                "pass_index": range(first, first + count),
                "step": range(planned.step + 1, planned.step + 1 + count),
                "kind": [planned.kind.value] * count,
                "start_s": starts_s,
                "end_s": ends_s,
                "issue_s": array("d", [float("nan")]) * count,
                "device_s": passes_s,
                "rows": _constant(rows, count),
                "live_rows": _constant(live, count),
                "chunk_rows": _constant(0, count),
                "tokens": _constant(planned.tokens, count),
                "bucket_tokens": _constant(-1, count),
                "recomputed_tokens": _constant(0, count),
                "width": range(shape.width + 1, shape.width + 1 + count),
                "masked": _constant(int(shape.masked), count),
                "prompt_tokens": _constant(0, count),
                "queue_depth": queued,
                "computed_positions": range(
                    shape.computed_positions + rows, shape.computed_positions + rows * count + 1, rows
                ),
                "padding_positions": _constant(shape.padding_positions, count),
                "dead_positions": [dead_positions + dead * number for number in range(1, count + 1)],
                "kv_reserved_positions": reserved,
                "kv_used_positions": used,
                "kv_padding_positions": _constant(kv.padding, count),
                "kv_dead_positions": _constant(kv.dead, count),
                "kv_fragment_positions": fragment,
            }
        )
        self.tokens.passed_again(ends_s, first)
        self.recorder.passed_again(planned.live_requests, count, planned.index + count)


def _constant(value: int, count: int) -> array[int]:
    return array("q", [value]) * count
