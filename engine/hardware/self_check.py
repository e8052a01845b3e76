"""Eight exercises on static batching as arithmetic: each function answers one of them for any numbers.

The answers are first-order estimates from counted bytes and FLOP; nothing is measured. Only a run shows what a machine
really does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.workload.budgets import CountedBudget, parse_budget


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRead:
    """One decode step of B requests: weights are read once, FLOP are spent B times."""

    weights_bytes: float
    bytes_per_request: float
    flop: float

    @property
    def intensity(self) -> float:
        """FLOP per byte of weights."""
        return self.flop / self.weights_bytes


def shared_read(parameters: float, value_bytes: float, batch_size: int) -> SharedRead:
    """A step of `batch_size` requests over `parameters` weights of `value_bytes` each, without KV."""
    weights_bytes = parameters * value_bytes
    return SharedRead(
        weights_bytes=weights_bytes,
        bytes_per_request=weights_bytes / batch_size,
        flop=2.0 * parameters * batch_size,
    )


def free_until(balance_flop_per_byte: float, value_bytes: float) -> float:
    """The batch size at which a step reaches the GPU's balance point, without KV: 2 FLOP per weight and request."""
    return balance_flop_per_byte * value_bytes / 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingShares:
    """The share of each ceiling that a step uses. `binds` is the ceiling it would reach first."""

    compute: float
    bandwidth: float

    @property
    def binds(self) -> str:
        return "compute" if self.compute >= self.bandwidth else "bandwidth"


def ceiling_shares(
    intensity_flop_per_byte: float, balance_flop_per_byte: float, compute_fraction: float
) -> CeilingShares:
    """The share of bandwidth that follows from a share of compute and the intensity.

    Both can be far below 1: the balance point tells which ceiling is nearer, not that one is reached.
    """
    return CeilingShares(
        compute=compute_fraction, bandwidth=compute_fraction * balance_flop_per_byte / intensity_flop_per_byte
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokens:
    """Seconds until the first token in a batch whose prompts are prefilled `group` at a time, in order."""

    first_s: float
    mean_s: float
    last_s: float


def first_tokens(batch_size: int, prompt_tokens: int, prefill_tokens_per_s: float, group: int) -> FirstTokens:
    """Prefill in groups, one after the other, at one rate. With `group` = `batch_size` all run at once.

    ValueError unless `group` is from 1 to the batch size.
    """
    if not 1 <= group <= batch_size:
        raise ValueError(f"group {group}: use a number from 1 to the batch size, {batch_size}")
    sizes = [min(group, batch_size - start) for start in range(0, batch_size, group)]
    ends_s = [0.0]
    for size in sizes:
        ends_s.append(ends_s[-1] + size * prompt_tokens / prefill_tokens_per_s)
    waits_s = sum(size * end_s for size, end_s in zip(sizes, ends_s[1:], strict=True))
    return FirstTokens(first_s=ends_s[1], mean_s=waits_s / batch_size, last_s=ends_s[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitsBytes:
    """Bytes of the logits of all prompt positions, and of only the last position per row."""

    all_bytes: int
    last_bytes: int


def logits_bytes(batch_size: int, prompt_tokens: int, vocab: int, value_bytes: int) -> LogitsBytes:
    """Logits of a prefill of `batch_size` prompts, with `vocab` values per position."""
    last_bytes = batch_size * vocab * value_bytes
    return LogitsBytes(all_bytes=prompt_tokens * last_bytes, last_bytes=last_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBatch:
    """A static batch that runs until its longest request ends, in slot-steps (one row in one step)."""

    requests: int
    useful_slot_steps: int
    slot_steps: int
    shortest_tokens: int
    longest_tokens: int

    @property
    def wasted_fraction(self) -> float:
        return 1.0 - self.useful_slot_steps / self.slot_steps

    @property
    def at_most_slower(self) -> float:
        """How much longer the shortest requests wait in full response mode, at equal step times.

        An upper bound: a batch of only short requests would be smaller and its steps not longer.
        """
        return self.longest_tokens / self.shortest_tokens


def held_batch(budgets: str) -> HeldBatch:
    """A static batch with output tokens such as `30x20+2x1000`, one slot per request. ValueError for other forms."""
    budget = parse_budget(budgets)
    if not isinstance(budget, CountedBudget):
        raise ValueError(f"budgets {budgets!r}: use requests x tokens, for example 30x20+2x1000")
    tokens = [each for _, each in budget.groups]
    requests = sum(count for count, _ in budget.groups)
    return HeldBatch(
        requests=requests,
        useful_slot_steps=sum(count * each for count, each in budget.groups),
        slot_steps=requests * max(tokens),
        shortest_tokens=min(tokens),
        longest_tokens=max(tokens),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatch:
    """The largest batch within a TTFT limit, interpolated linearly between measured sizes."""

    batch_size: int
    ttft_s: float
    output_tokens_per_s: float


def largest_batch(
    ttft_s: Mapping[int, float], output_tokens_per_s: Mapping[int, float], limit_s: float | None
) -> LargestBatch | None:
    """The fastest measured batch without a limit, else the largest batch whose TTFT is within it.

    TTFT and throughput are interpolated linearly between measured sizes. None if even the smallest exceeds the limit.
    """
    sizes = sorted(ttft_s)
    if limit_s is None:
        best = max(sizes, key=lambda size: output_tokens_per_s[size])
        return LargestBatch(batch_size=best, ttft_s=ttft_s[best], output_tokens_per_s=output_tokens_per_s[best])
    for low, high in zip(reversed(sizes[:-1]), reversed(sizes[1:]), strict=True):
        for size in range(high, low, -1):
            share = (size - low) / (high - low)
            wait_s = ttft_s[low] + share * (ttft_s[high] - ttft_s[low])
            if wait_s <= limit_s:
                rate = output_tokens_per_s[low] + share * (output_tokens_per_s[high] - output_tokens_per_s[low])
                return LargestBatch(batch_size=size, ttft_s=wait_s, output_tokens_per_s=rate)
    least = sizes[0]
    if ttft_s[least] > limit_s:
        return None
    return LargestBatch(batch_size=least, ttft_s=ttft_s[least], output_tokens_per_s=output_tokens_per_s[least])


def job_s(documents: int, tokens_each: int, output_tokens_per_s: float) -> float:
    """Duration of an offline job, without latency limits."""
    return documents * tokens_each / output_tokens_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchDelay:
    """The extra time per launch, if launches limit the step."""

    extra_s: float
    extra_launch_s: float
    times: float


def launch_delay(busy_step_s: float, quiet_step_s: float, kernels_per_pass: int) -> LaunchDelay:
    """The difference between a step on a busy and on an idle host, spread over the launches of a pass."""
    extra_s = busy_step_s - quiet_step_s
    return LaunchDelay(extra_s=extra_s, extra_launch_s=extra_s / kernels_per_pass, times=busy_step_s / quiet_step_s)
