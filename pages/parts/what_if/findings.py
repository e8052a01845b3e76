"""The What-if page in words: the table, and what it comes to. Pure text; every number is reckoned from the sliders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.core.format import count, duration, number, percent, plural, quantity
from engine.hardware.what_if import (
    WhatIf,
    WhatIfRow,
    compute_bound_from,
    free_until,
    launch_bound_until,
    memory_wall,
    readable_until,
    reading_tokens_per_s,
    step_s,
    what_if_row,
    words_per_s,
)
from pages.parts.what_if.controls import Asked

HEADER = ("batch", "GB a step", "ms a step", "tokens/s a request", "tokens/s in all", "KV GB", "waits for", "fits")
FIGURES = (0, 1, 2, 3, 4, 5)


def table_rows(rows: Sequence[WhatIfRow], *, knows_memory: bool) -> list[list[str]]:
    """The table of claims as text, a line a batch size, in HEADER's columns."""
    fits = {True: "yes", False: "no"} if knows_memory else {True: "?", False: "?"}
    return [
        [
            count(row.batch_size),
            number(row.step_bytes / 1e9),
            number(row.step_s * 1e3),
            number(row.tokens_per_s_per_request),
            number(row.tokens_per_s),
            number(row.kv_bytes / 1e9),
            row.bound,
            fits[row.fits],
        ]
        for row in rows
    ]


def fitting(rows: Sequence[WhatIfRow]) -> list[WhatIfRow]:
    """The rows that memory holds; all of them where it holds none, or where nobody knows."""
    return [row for row in rows if row.fits] or list(rows)


def headline(rows: Sequence[WhatIfRow]) -> str:
    """The trade in one sentence, as far as memory goes."""
    kept = fitting(rows)
    first, last = kept[0], kept[-1]
    if len(kept) < 2:
        return f"One request alone gets {quantity(first.tokens_per_s, 'tokens/s')}."
    more = last.tokens_per_s / first.tokens_per_s
    less = first.tokens_per_s_per_request / last.tokens_per_s_per_request
    limit = "" if last is rows[-1] else ", the largest here that fits,"
    limit = limit if last.fits else ", were there memory for it,"
    return (
        f"From batch {count(first.batch_size)} to {count(last.batch_size)}{limit} the tokens a second in all grow "
        f"{number(more)} times, and each request's rate falls to 1/{number(less)}."
    )


def free_text(case: WhatIf) -> str:
    """Until when one more request is nearly free, and why it ends."""
    size, launches, computing = free_until(case), launch_bound_until(case), compute_bound_from(case)
    weights = quantity(case.shape.weight_bytes / 1e9, "GB")
    words = (
        f"**Free until about {number(size)}:** a step reads {weights} of weights however many share it, and "
        f"{quantity(case.sequence_bytes / 1e9, 'GB')} of keys and values for each request; at batch {number(size)} "
        f"both weigh the same."
    )
    if computing is not None and computing < size:
        words += f" Arithmetic comes first here: from batch {number(computing)} on, a step computes for longer."
    if launches >= 1:
        words += f" Up to batch {number(launches)} a step only waits for its launches."
    return words


def wall_text(asked: Asked) -> str:
    """Where memory ends."""
    case = asked.case
    if not asked.knows_memory:
        return "**Memory's wall:** nobody has told the lab how much memory this device has."
    wall, usable = memory_wall(case), case.memory_bytes * case.utilization / 1e9
    if wall == 0:
        need = quantity((case.shape.weight_bytes + case.sequence_bytes) / 1e9, "GB")
        return f"**Memory's wall:** not one such request fits: it needs {need} of {number(usable)}."
    row = what_if_row(case, wall)
    return (
        f"**Memory's wall at {plural(wall, 'sequence')}:** {quantity(row.weight_bytes / 1e9, 'GB')} of weights and "
        f"{quantity(row.kv_bytes / 1e9, 'GB')} of keys and values fill the {quantity(usable, 'GB')} that may be used."
    )


def reading_text(asked: Asked, last: WhatIfRow) -> str:
    """How the slowest row of the table compares with a reader."""
    case, rate = asked.case, reading_tokens_per_s(asked.words_per_minute)
    got = last.tokens_per_s_per_request
    times = number(got / rate)
    comparison = f"{times} times as fast as" if got >= rate else f"only {times} times as fast as"
    until = readable_until(case, rate)
    ends = f"up to batch {count(until)}" if until else "at no batch size"
    return (
        f"**Reading:** at batch {count(last.batch_size)} each reader gets {quantity(got, 'tokens/s')}, about "
        f"{quantity(words_per_s(got), 'words/s')}: {comparison} somebody who reads {count(asked.words_per_minute)} "
        f"words a minute. Tokens outrun that reader {ends}."
    )


def bits_text(asked: Asked) -> str:
    """What the other width of weights would change."""
    case, other = asked.case, 8 if asked.weight_bits == 16 else 16
    changed = replace(case, shape=case.shape.with_weight_bits(other))
    now, then = step_s(case, 1), step_s(changed, 1)
    wall = f", and memory's wall {count(memory_wall(changed))}" if asked.knows_memory else ""
    return (
        f"**With {other}-bit weights** a step of one request would take {duration(then)} instead of {duration(now)} "
        f"({percent(then / now)}), the free-until point would be {number(free_until(changed))}{wall}: the gain is "
        f"large where bytes are what a step waits for."
    )


def figure_caption(rows: Sequence[WhatIfRow]) -> str:
    """Where the flattening shows: the best and the worst doubling of the table."""
    kept = fitting(rows)
    if len(kept) < 2:
        return "One batch size: nothing to compare it with. Reckoned from bytes and arithmetic, not measured."
    gains = [(b.tokens_per_s / a.tokens_per_s - 1, a, b) for a, b in zip(kept[:-1], kept[1:], strict=True)]
    best, worst = max(gains, key=lambda gain: gain[0]), min(gains, key=lambda gain: gain[0])
    return (
        f"Doubling the batch from {count(best[1].batch_size)} to {count(best[2].batch_size)} adds {percent(best[0])} "
        f"to the tokens a second in all; from {count(worst[1].batch_size)} to {count(worst[2].batch_size)} it adds "
        f"{percent(worst[0])}. Reckoned from bytes and arithmetic, not measured."
    )
