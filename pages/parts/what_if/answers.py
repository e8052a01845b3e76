"""The answers to the eight questions, from engine.hardware.self_check. Pure; ValueError for an invalid input."""

from __future__ import annotations

from engine.core.format import count, duration, number, percent, quantity, size
from engine.core.units import GIB
from engine.hardware import self_check
from engine.hardware.self_check import (
    ceiling_shares,
    free_until,
    held_batch,
    job_s,
    largest_batch,
    launch_delay,
    logits_bytes,
    shared_read,
)

VALUE_BYTES = 2  # a weight or a logit in 16 bits

# A published sweep: prompts of 128 tokens, 128 output tokens, one consumer GPU.
LESSON_TTFT_S = {1: 0.044, 2: 0.040, 4: 0.071, 8: 0.133, 16: 0.285, 32: 0.511, 64: 1.007, 128: 2.010}
LESSON_RATES = {1: 48.6, 2: 110.3, 4: 216.1, 8: 442.8, 16: 830.0, 32: 1536.1, 64: 2832.9, 128: 3872.3}
LESSON_GROWTH_BYTES = 1.43 * GIB  # of peak memory, batch 1 to 128


def shared_weights(parameters_in_billions: float, batch_size: int) -> str:
    step = shared_read(parameters_in_billions * 1e9, VALUE_BYTES, batch_size)
    return (
        f"No. The weights are {quantity(step.weights_bytes / 1e9, 'GB')} in 16 bits and are read **once per step** for "
        f"all {count(batch_size)} requests, {quantity(step.bytes_per_request / 1e9, 'GB')} each. The arithmetic grows, "
        f"to {quantity(step.flop / 1e9, 'GFLOP')} or {quantity(step.intensity, 'FLOP/byte')}. Only KV is read per "
        "request."
    )


def two_gpus(balance_a: float, balance_b: float) -> str:
    a, b = (free_until(balance, VALUE_BYTES) for balance in (balance_a, balance_b))
    if a == b:
        return f"On neither: both are free until about batch **{number(a)}**."
    longer, name = max((a, "A"), (b, "B"))
    return (
        f"On **{name}**, {number(longer / min(a, b))} times as long: A is free until about batch **{number(a)}**, B "
        f"until about **{number(b)}**. A higher balance point means more arithmetic per byte that is read anyway."
    )


def two_ceilings(intensity: float, balance: float, compute_percent: float) -> str:
    shares = ceiling_shares(intensity, balance, compute_percent / 100)
    side = "past" if intensity >= balance else "short of"
    is_possible = max(shares.compute, shares.bandwidth) <= 1
    possible = "" if is_possible else " Over 100\u00a0%: these three numbers contradict each other."
    return (
        f"A step {side} the balance point that reaches {percent(shares.compute)} of compute uses "
        f"**{percent(shares.bandwidth)}** of bandwidth. The balance point says which ceiling is nearer "
        f"({shares.binds}), not that a step reaches it: launches, attention and waiting take time too.{possible}"
    )


def first_tokens(batch_size: int, prompt_tokens: int, rate: float, group: int) -> str:
    together = self_check.first_tokens(batch_size, prompt_tokens, rate, batch_size)
    apart = self_check.first_tokens(batch_size, prompt_tokens, rate, min(group, batch_size))
    return (
        f"A static batch prefills all {count(batch_size * prompt_tokens)} prompt tokens before the first token of any "
        f"request: TTFT is **{duration(together.first_s)}** for all, and twice that for twice the batch. With "
        f"{count(group)} prompts per prefill and streamed tokens, the first request waits "
        f"**{duration(apart.first_s)}**, the mean is {duration(apart.mean_s)}, and the last waits "
        f"{duration(apart.last_s)}."
    )


def all_logits(batch_size: int, prompt_tokens: int, vocab: int) -> str:
    kept = logits_bytes(batch_size, prompt_tokens, vocab, VALUE_BYTES)
    return (
        f"**{size(kept.all_bytes)}** in 16 bits. The last position of each row, which is all that the next token "
        f"needs, takes {size(kept.last_bytes)}. In the lesson, memory grew by {size(LESSON_GROWTH_BYTES)} from batch 1 "
        f"to 128; all positions take {number(kept.all_bytes / LESSON_GROWTH_BYTES)} times that."
    )


def long_and_short(budgets: str) -> str:
    batch = held_batch(budgets)
    if batch.wasted_fraction == 0:
        return f"None: all {count(batch.requests)} requests end together, after {count(batch.longest_tokens)} steps."
    return (
        f"{count(batch.useful_slot_steps)} of {count(batch.slot_steps)} slot-steps yield a useful token: "
        f"**{percent(batch.wasted_fraction)} wasted**. If answers return when the batch ends, the shortest wait up to "
        f"**{number(batch.at_most_slower)} times** as long as necessary ({count(batch.longest_tokens)} steps instead "
        f"of {count(batch.shortest_tokens)})."
    )


def interactive_or_overnight(limit_s: float, documents: int, tokens_each: int) -> str:
    overnight = largest_batch(LESSON_TTFT_S, LESSON_RATES, None)
    interactive = largest_batch(LESSON_TTFT_S, LESSON_RATES, limit_s)
    assert overnight is not None
    hours = job_s(documents, tokens_each, overnight.output_tokens_per_s) / 3600
    job = (
        f"Overnight, use the fastest batch, **{count(overnight.batch_size)}**: "
        f"{quantity(overnight.output_tokens_per_s, 'tokens/s')}, {number(hours)} hours for {count(documents)} "
        f"documents; a TTFT of {duration(overnight.ttft_s)} does not matter."
    )
    if interactive is None:
        return f"No batch of the lesson's sweep has a TTFT within {duration(limit_s)}. {job}"
    longer = job_s(documents, tokens_each, interactive.output_tokens_per_s) / 3600
    return (
        f"For a TTFT within {duration(limit_s)}, the largest batch is about **{count(interactive.batch_size)}**, with "
        f"{quantity(interactive.output_tokens_per_s, 'tokens/s')} (interpolated between measured sizes). {job} With "
        f"the interactive batch it takes {number(longer)} hours."
    )


def slow_single_request(busy_ms: float, quiet_ms: float, kernels: int) -> str:
    delay = launch_delay(busy_ms / 1e3, quiet_ms / 1e3, kernels)
    if delay.extra_s <= 0:
        return "It was not slower: there is nothing to explain."
    return (
        f"{duration(delay.extra_s)} more a step is {duration(delay.extra_launch_s)} more for each of {count(kernels)} "
        f"launches, {percent(delay.times - 1)} of the step, as on a busy host. Two requests read the same weights and "
        f"more KV, so the GPU is not the cause. To verify, measure again on a quiet host and compare issue time and "
        f"device time of a pass on Roofline; if issuing takes as long as the device, the host was slow."
    )
