"""The run's clock, and the timing of passes: stop after each pass (sync), or read device events later (async).

Sync reads the clock after the device has stopped, as published measurements do. Async issues passes ahead, copies
tokens without stopping and reads device events when they are due; it differs from sync only on a GPU. On a CPU, issuing
a pass runs it, so `issue_s` is None there.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.core.passes import PassOutcome, PassTiming, PlannedPass

WAKE_S = 0.02  # a waiting engine checks the cancel flag this often
# Passes issued and not landed when the next is planned. One keeps the device busy, and a late EOS costs one row-step.
MAX_IN_FLIGHT = 1


class RunClock:
    """Monotonic seconds since construction, when the measured part starts."""

    def __init__(self) -> None:
        self._zero = time.perf_counter()

    def now_s(self) -> float:
        return time.perf_counter() - self._zero

    def wait_until(self, when_s: float, should_stop: Callable[[], bool]) -> None:
        """Sleep until `when_s` on this clock, so that repeated waits do not drift."""
        while not should_stop():
            left_s = when_s - self.now_s()
            if left_s <= 0:
                return
            time.sleep(min(left_s, WAKE_S))


@dataclass(slots=True, kw_only=True)
class InFlight:
    """An issued pass. `slots` are the physical slots of the requests it prefills, at that time.

    `bucket_tokens` is the size of its CUDA graph, None if it ran eager.
    """

    planned: PlannedPass
    slots: tuple[int, ...]
    start_s: float
    issued_s: float
    tokens: Tensor  # (B,)
    bucket_tokens: int | None = None
    outcome: PassOutcome | None = None
    events: _Events | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Events:
    start: torch.cuda.Event
    end: torch.cuda.Event
    copied: torch.cuda.Event


@dataclass(frozen=True, slots=True, eq=False)
class Landed:
    """A finished pass: its live rows' tokens and its times."""

    flight: InFlight
    token_ids: list[int]
    timing: PassTiming


class Timing(Protocol):
    """Times passes. Call `begin` before issuing kernels and `launched` after; `landed` returns finished passes.

    `runs_ahead`: passes are issued before the tokens of the previous pass are known.
    """

    runs_ahead: bool

    def begin(self) -> None: ...

    def launched(self, flight: InFlight) -> None: ...

    def landed(self, *, wait: bool) -> Iterable[Landed]: ...

    @property
    def in_flight(self) -> Sequence[InFlight]: ...


def make_timing(name: str, device: torch.device, clock: RunClock) -> Timing:
    if device.type != "cuda":
        return CpuTiming(clock)
    return CudaSyncTiming(clock) if name == "sync" else CudaAsyncTiming(clock)


class CpuTiming:
    """A pass is complete when its call returns, with its tokens in host memory."""

    runs_ahead = False

    def __init__(self, clock: RunClock) -> None:
        self.clock = clock
        self._flight: InFlight | None = None

    def begin(self) -> None:
        """Nothing to mark."""

    def launched(self, flight: InFlight) -> None:
        self._flight = flight

    @property
    def in_flight(self) -> Sequence[InFlight]:
        return () if self._flight is None else (self._flight,)

    def landed(self, *, wait: bool) -> list[Landed]:
        flight, self._flight = self._flight, None
        if flight is None:
            return []
        token_ids = _live_tokens(flight, flight.tokens)
        timing = PassTiming(
            start_s=flight.start_s,
            end_s=flight.issued_s,
            issue_s=None,
            device_s=flight.issued_s - flight.start_s,
            produced_s=flight.issued_s,
            delivered_s=self.clock.now_s(),
            bucket_tokens=flight.bucket_tokens,
        )
        return [Landed(flight, token_ids, timing)]


class CudaSyncTiming:
    """Stop after each pass, read the clock, then fetch the tokens."""

    runs_ahead = False

    def __init__(self, clock: RunClock) -> None:
        self.clock = clock
        self._start = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)
        self._flight: InFlight | None = None

    def begin(self) -> None:
        self._start.record()

    def launched(self, flight: InFlight) -> None:
        self._end.record()
        self._flight = flight

    @property
    def in_flight(self) -> Sequence[InFlight]:
        return () if self._flight is None else (self._flight,)

    def landed(self, *, wait: bool) -> list[Landed]:
        flight, self._flight = self._flight, None
        if flight is None:
            return []
        torch.cuda.synchronize()
        produced_s = self.clock.now_s()
        token_ids = _live_tokens(flight, flight.tokens)
        timing = PassTiming(
            start_s=flight.start_s,
            end_s=produced_s,
            issue_s=flight.issued_s - flight.start_s,
            device_s=self._start.elapsed_time(self._end) / 1e3,
            produced_s=produced_s,
            delivered_s=self.clock.now_s(),
            bucket_tokens=flight.bucket_tokens,
        )
        return [Landed(flight, token_ids, timing)]


class CudaAsyncTiming:
    """Issue ahead; events on the device's stream mark a pass's start, end and token copy."""

    runs_ahead = True

    def __init__(self, clock: RunClock) -> None:
        self.clock = clock
        self._origin = torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        self._origin.record()
        torch.cuda.synchronize()
        self._origin_s = clock.now_s()
        self._start: torch.cuda.Event | None = None
        self._queue: deque[InFlight] = deque()

    def begin(self) -> None:
        self._start = torch.cuda.Event(enable_timing=True)
        self._start.record()

    def launched(self, flight: InFlight) -> None:
        assert self._start is not None
        end = torch.cuda.Event(enable_timing=True)
        end.record()
        host = torch.empty(flight.tokens.shape, dtype=flight.tokens.dtype, pin_memory=True)
        host.copy_(flight.tokens, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()
        flight.tokens = host
        flight.events = _Events(self._start, end, copied)
        self._queue.append(flight)

    @property
    def in_flight(self) -> Sequence[InFlight]:
        """Issued passes that have not landed, oldest first."""
        return tuple(self._queue)

    def landed(self, *, wait: bool) -> Iterator[Landed]:
        """Passes whose tokens have reached the host, oldest first; with `wait` all passes, else those that are due.

        Yielded one at a time: an EOS in one pass changes the live rows of the next.
        """
        while self._queue:
            events = self._queue[0].events
            assert events is not None
            if wait or len(self._queue) > MAX_IN_FLIGHT:
                events.copied.synchronize()
            elif not events.copied.query():
                break
            yield self._land(self._queue.popleft(), events)

    def _land(self, flight: InFlight, events: _Events) -> Landed:
        delivered_s = self.clock.now_s()
        start_s = self._origin_s + self._origin.elapsed_time(events.start) / 1e3
        end_s = self._origin_s + self._origin.elapsed_time(events.end) / 1e3
        timing = PassTiming(
            start_s=start_s,
            end_s=end_s,
            issue_s=flight.issued_s - flight.start_s,
            device_s=end_s - start_s,
            produced_s=end_s,
            delivered_s=max(delivered_s, end_s),
            bucket_tokens=flight.bucket_tokens,
        )
        return Landed(flight, _live_tokens(flight, flight.tokens), timing)


def _live_tokens(flight: InFlight, tokens: Tensor) -> list[int]:
    values: list[int] = tokens.tolist()
    live = flight.planned.live
    return values if len(live) == len(values) else [values[i] for i in live]
