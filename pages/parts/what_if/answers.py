"""The answers to the eight questions in words. Pure text over engine.hardware.self_check; ValueError says what to mend."""

from __future__ import annotations

from engine.core.format import count, duration, number, percent, quantity, size
from engine.core.units import GIB
from engine.hardware.self_check import (
    ceiling_shares,
    first_tokens,
    free_until,
    held_batch,
    job_s,
    largest_batch,
    launch_delay,
    logits_bytes,
    shared_read,
)

VALUE_BYTES = 2  # of a weight and of a logit in 16 bits

# A published sweep: prompts of 128 tokens, 128 new tokens, one consumer card.
LESSON_TTFT_S = {1: 0.044, 2: 0.040, 4: 0.071, 8: 0.133, 16: 0.285, 32: 0.511, 64: 1.007, 128: 2.010}
LESSON_RATES = {1: 48.6, 2: 110.3, 4: 216.1, 8: 442.8, 16: 830.0, 32: 1536.1, 64: 2832.9, 128: 3872.3}
LESSON_GROWTH_BYTES = 1.43 * GIB  # of its peak memory, batch 1 to 128


def shared_weights(parameters_in_billions: float, batch_size: int) -> str:
    step = shared_read(parameters_in_billions * 1e9, VALUE_BYTES, batch_size)
    return (
        f"No. The weights are {quantity(step.weights_bytes / 1e9, 'GB')} in 16 bits and are read **once a step**, "
        f"by all {count(batch_size)} together: {quantity(step.bytes_per_request / 1e9, 'GB')} for each. The arithmetic "
        f"grows instead, to {quantity(step.flop / 1e9, 'GFLOP')}: {number(step.intensity)} FLOP a byte. Only keys and "
        f"values are each request's own."
    )


def two_cards(balance_a: float, balance_b: float) -> str:
    a, b = (free_until(balance, VALUE_BYTES) for balance in (balance_a, balance_b))
    if a == b:
        return f"On neither: both leave the flat part near batch **{number(a)}**."
    longer, name = max((a, "A"), (b, "B"))
    return (
        f"On **{name}**, {number(longer / min(a, b))} times as long: A leaves the flat part near batch "
        f"**{number(a)}**, B near **{number(b)}**. A higher balance point means more arithmetic to spare for each byte "
        f"that has to be read anyway."
    )


def two_ceilings(intensity: float, balance: float, compute_percent: float) -> str:
    shares = ceiling_shares(intensity, balance, compute_percent / 100)
    side = "past" if intensity >= balance else "short of"
    is_possible = max(shares.compute, shares.bandwidth) <= 1
    possible = "" if is_possible else " Over 100\u00a0%: these three numbers cannot all be."
    return (
        f"A step {side} the balance point that reaches {percent(shares.compute)} of compute reads at "
        f"**{percent(shares.bandwidth)}** of bandwidth. The balance point says which ceiling is the nearer one "
        f"({shares.binds} here), not that either is met: launches, attention and waiting take their part.{possible}"
    )


def first_sentence(batch_size: int, prompt_tokens: int, rate: float, group: int) -> str:
    together = first_tokens(batch_size, prompt_tokens, rate, batch_size)
    apart = first_tokens(batch_size, prompt_tokens, rate, min(group, batch_size))
    return (
        f"All {count(batch_size * prompt_tokens)} prompt tokens are read before anyone gets a word: "
        f"**{duration(together.first_s)}** for everybody, twice that for twice the batch. Read {count(group)} prompts "
        f"at a time and hand over what is there: the first reader waits **{duration(apart.first_s)}**, the mean "
        f"{duration(apart.mean_s)}, the last still {duration(apart.last_s)}. A short last group counts as it is."
    )


def all_logits(batch_size: int, prompt_tokens: int, vocab: int) -> str:
    kept = logits_bytes(batch_size, prompt_tokens, vocab, VALUE_BYTES)
    return (
        f"**{size(kept.all_bytes)}** in 16 bits, against {size(kept.last_bytes)} for each row's last position, which "
        f"is all that the next token needs. The lesson's whole growth from batch 1 to 128 was "
        f"{size(LESSON_GROWTH_BYTES)}: all positions come to {number(kept.all_bytes / LESSON_GROWTH_BYTES)} times that."
    )


def long_and_short(budgets: str) -> str:
    batch = held_batch(budgets)
    if batch.wasted_fraction == 0:
        return f"None: all {count(batch.requests)} requests end together, after {count(batch.longest_tokens)} steps."
    return (
        f"{count(batch.useful_slot_steps)} of {count(batch.slot_steps)} slot-steps yield a token that somebody wants: "
        f"**{percent(batch.wasted_fraction)} wasted**. Handed over only when the whole batch is done, the shortest "
        f"wait up to **{number(batch.at_most_slower)} times** as long as they would by themselves "
        f"({count(batch.longest_tokens)} steps instead of {count(batch.shortest_tokens)})."
    )


def reader_or_night(limit_s: float, documents: int, tokens_each: int) -> str:
    night = largest_batch(LESSON_TTFT_S, LESSON_RATES, None)
    reader = largest_batch(LESSON_TTFT_S, LESSON_RATES, limit_s)
    assert night is not None
    hours = job_s(documents, tokens_each, night.output_tokens_per_s) / 3600
    work = (
        f"For a night's work the fastest batch, **{count(night.batch_size)}**: "
        f"{quantity(night.output_tokens_per_s, 'tokens/s')}, {number(hours)} hours for {count(documents)} documents; "
        f"nobody minds that a first token takes {duration(night.ttft_s)}."
    )
    if reader is None:
        return f"No batch of the lesson's sweep answers within {duration(limit_s)}. {work}"
    longer = job_s(documents, tokens_each, reader.output_tokens_per_s) / 3600
    return (
        f"For a reader who gives it {duration(limit_s)}, the largest batch within that: about "
        f"**{count(reader.batch_size)}**, {quantity(reader.output_tokens_per_s, 'tokens/s')} (between measured sizes "
        f"by straight lines). {work} At the reader's batch it would be {number(longer)} hours."
    )


def slow_alone(busy_ms: float, quiet_ms: float, kernels: int) -> str:
    delay = launch_delay(busy_ms / 1e3, quiet_ms / 1e3, kernels)
    if delay.extra_s <= 0:
        return "It was not slower: there is nothing to explain."
    return (
        f"{duration(delay.extra_s)} more a step is {duration(delay.extra_launch_s)} more for each of {count(kernels)} "
        f"launches, {percent(delay.times - 1)} in all: what a busy host would add. Two requests read the same weights "
        f"and a little more, so the card cannot be why. To verify: measure again on a quiet host, and look at issue "
        f"and device time of a pass apart (Roofline does); if issuing takes as long as the device, the host was slow."
    )
