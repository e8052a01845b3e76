"""Eight questions on static batching, as arithmetic: what a reader can work out with a pencil, and the lab with him.

The questions are those that a lesson on static batching ends with; each function answers one of them for any numbers.
They are first-order: bytes and operations counted, nothing measured. What a machine really does, only a run tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.workload.budgets import CountedBudget, parse_budget


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRead:
    """One decode step of B requests: its weights are read once, its arithmetic is done B times."""

    weights_bytes: float
    bytes_per_request: float
    flop: float

    @property
    def intensity(self) -> float:
        """FLOP a byte of weights."""
        return self.flop / self.weights_bytes


def shared_read(parameters: float, value_bytes: float, batch_size: int) -> SharedRead:
    """The step of `batch_size` requests over `parameters` weights of `value_bytes` each; KV is left out."""
    weights_bytes = parameters * value_bytes
    return SharedRead(
        weights_bytes=weights_bytes,
        bytes_per_request=weights_bytes / batch_size,
        flop=2.0 * parameters * batch_size,
    )


def free_until(balance_flop_per_byte: float, value_bytes: float) -> float:
    """The batch size at which a step over weights alone reaches a card's balance point: 2 FLOP a weight and request."""
    return balance_flop_per_byte * value_bytes / 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingShares:
    """How much of each ceiling a step uses. `binds` is the one that the roofline says it would meet first."""

    compute: float
    bandwidth: float

    @property
    def binds(self) -> str:
        return "compute" if self.compute >= self.bandwidth else "bandwidth"


def ceiling_shares(
    intensity_flop_per_byte: float, balance_flop_per_byte: float, compute_fraction: float
) -> CeilingShares:
    """The share of bandwidth that goes with a share of compute: at a given rate of FLOP, bytes follow from intensity.

    Both can lie far below 1 on either side of the balance point: it tells which is nearer, not that one is met.
    """
    return CeilingShares(
        compute=compute_fraction, bandwidth=compute_fraction * balance_flop_per_byte / intensity_flop_per_byte
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokens:
    """Seconds until the first token in a batch whose prompts are read `group` at a time, in order."""

    first_s: float
    mean_s: float
    last_s: float


def first_tokens(batch_size: int, prompt_tokens: int, prefill_tokens_per_s: float, group: int) -> FirstTokens:
    """Prompts read in groups, one group after the other, at one rate. `group` = `batch_size`: all at once.

    ValueError where a group is not between one and the batch.
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
    """Logits of every prompt position, and of each row's last position alone."""

    all_bytes: int
    last_bytes: int


def logits_bytes(batch_size: int, prompt_tokens: int, vocab: int, value_bytes: int) -> LogitsBytes:
    """What a prefill of `batch_size` prompts keeps of logits, `vocab` values a position."""
    last_bytes = batch_size * vocab * value_bytes
    return LogitsBytes(all_bytes=prompt_tokens * last_bytes, last_bytes=last_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBatch:
    """A static batch that runs until its longest member has ended, in slot-steps (a row and a step)."""

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
        """How many times longer the shortest wait for their answers if the batch is returned whole, steps being equal.

        A bound: a batch of the short ones alone would be smaller, and its steps at most as long.
        """
        return self.longest_tokens / self.shortest_tokens


def held_batch(budgets: str) -> HeldBatch:
    """One static batch of requests with budgets such as `30x20+2x1000`, a slot each. ValueError for any other form."""
    budget = parse_budget(budgets)
    if not isinstance(budget, CountedBudget):
        raise ValueError(f"budgets {budgets!r}: use requests x tokens, as in 30x20+2x1000")
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
    """The largest batch within a limit on the time to first token, between measured points by straight lines."""

    batch_size: int
    ttft_s: float
    output_tokens_per_s: float


def largest_batch(
    ttft_s: Mapping[int, float], output_tokens_per_s: Mapping[int, float], limit_s: float | None
) -> LargestBatch | None:
    """Of measured batch sizes: the fastest where there is no limit, else the largest whose TTFT is within it.

    Between two measured sizes both figures are taken to grow in a straight line. None where even the smallest is late.
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
    """How long an overnight job takes with nobody waiting."""
    return documents * tokens_each / output_tokens_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchDelay:
    """What a pass's extra time comes to for each launch, if issuing is what a step waits for."""

    extra_s: float
    extra_launch_s: float
    times: float


def launch_delay(busy_step_s: float, quiet_step_s: float, kernels_per_pass: int) -> LaunchDelay:
    """A step on a busy host against one on a quiet host, spread over the launches of a pass."""
    extra_s = busy_step_s - quiet_step_s
    return LaunchDelay(extra_s=extra_s, extra_launch_s=extra_s / kernels_per_pass, times=busy_step_s / quiet_step_s)
