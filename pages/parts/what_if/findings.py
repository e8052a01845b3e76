"""Text of a what-if estimate: the table, the headline, and what limits the batch size. Pure."""

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
from pages.parts.what_if.controls import WhatIfSettings

HEADER = (
    "batch",
    "GB per step",
    "ms per step",
    "tokens/s per request",
    "total tokens/s",
    "KV GB",
    "limited by",
    "fits",
)
FIGURES = (0, 1, 2, 3, 4, 5)


def table_rows(rows: Sequence[WhatIfRow], *, knows_memory: bool) -> list[list[str]]:
    """A row per batch size, in the columns of HEADER."""
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
    """The rows that fit in memory; all rows if none fits."""
    return [row for row in rows if row.fits] or list(rows)


def headline(rows: Sequence[WhatIfRow]) -> str:
    """How throughput and each request's rate change from the smallest to the largest batch that fits."""
    kept = fitting(rows)
    first, last = kept[0], kept[-1]
    if len(kept) < 2:
        return f"A batch of one gets {quantity(first.tokens_per_s, 'tokens/s')}."
    more = last.tokens_per_s / first.tokens_per_s
    less = first.tokens_per_s_per_request / last.tokens_per_s_per_request
    limit = "" if last is rows[-1] else " (the largest that fits)"
    limit = limit if last.fits else " (which does not fit in memory)"
    rate = f"drops to 1/{number(less)} of its speed" if number(less) != number(1) else "keeps its full speed"
    return (
        f"From batch {count(first.batch_size)} to {count(last.batch_size)}{limit}, throughput grows {number(more)} "
        f"times and each request {rate}."
    )


def free_text(case: WhatIf) -> str:
    """The batch size up to which one more request is nearly free, and what ends it."""
    size, launches, computing = free_until(case), launch_bound_until(case), compute_bound_from(case)
    text = f"**Free until about {number(size)}:** "
    if size == launches:
        return f"{text}up to there a step only waits for its launches, whatever the batch size."
    text += f"{_weights_text(case, size)}, and "
    if size == computing:
        text += f"from batch {number(size)} on, arithmetic takes longer than reading."
    else:
        text += (
            f"{quantity(case.sequence_bytes / 1e9, 'GB')} of KV per request; at batch {number(size)} both are equal."
        )
    if launches >= 1:
        text += f" Up to batch {number(launches)}, launches limit a step."
    return text


def _weights_text(case: WhatIf, batch_size: float) -> str:
    """The weights that a step reads: all of them, or of a mixture the experts that its rows hit."""
    shape = case.shape
    everything = quantity(shape.weight_bytes / 1e9, "GB")
    if not shape.experts:
        return f"a step reads {everything} of weights for any batch size"
    one, there = (quantity(shape.weight_bytes_read(rows) / 1e9, "GB") for rows in (1, batch_size))
    return (
        f"a step reads {one} of its {everything} of weights at batch 1, and {there} at batch {number(batch_size)}: its "
        f"rows hit {number(shape.experts_hit(batch_size))} of {shape.experts} experts in a layer, if all are equally "
        "likely"
    )


def wall_text(settings: WhatIfSettings) -> str:
    """The largest batch that fits in memory."""
    case = settings.case
    if not settings.knows_memory:
        return "**Memory wall:** the memory of this device is unknown."
    wall, usable = memory_wall(case), case.usable_bytes / 1e9
    if wall == 0:
        need = quantity((case.shape.weight_bytes + case.sequence_bytes) / 1e9, "GB")
        return f"**Memory wall:** not even one request fits; it needs {need} of {quantity(usable, 'GB')}."
    row = what_if_row(case, wall)
    return (
        f"**Memory wall at {plural(wall, 'sequence')}:** {quantity(row.weight_bytes / 1e9, 'GB')} of weights and "
        f"{quantity(row.kv_bytes / 1e9, 'GB')} of KV fill the usable {quantity(usable, 'GB')}."
    )


def reading_text(settings: WhatIfSettings, last: WhatIfRow) -> str:
    """The rate of a request in the largest batch, compared with reading speed."""
    case, rate = settings.case, reading_tokens_per_s(settings.words_per_minute)
    got = last.tokens_per_s_per_request
    until = readable_until(case, rate)
    faster = f"up to batch {count(until)}" if until else "at no batch size"
    return (
        f"**Reading speed:** at batch {count(last.batch_size)} each request gets {quantity(got, 'tokens/s')}, about "
        f"{quantity(words_per_s(got), 'words/s')}, or {number(got / rate)} times a reading speed of "
        f"{count(settings.words_per_minute)} words per minute. Tokens are faster than reading {faster}."
    )


def bits_text(settings: WhatIfSettings) -> str:
    """What changes with the other width of weights."""
    case, other = settings.case, 8 if settings.weight_bits == 16 else 16
    changed = replace(case, shape=case.shape.with_weight_bits(other))
    now, then = step_s(case, 1), step_s(changed, 1)
    wall = f", the memory wall {count(memory_wall(changed))}" if settings.knows_memory else ""
    return (
        f"**{other}-bit weights:** a step of one request takes {duration(then)} instead of {duration(now)} "
        f"({percent(then / now)}), the free-until point is {number(free_until(changed))}{wall}. The gain is large "
        "while bandwidth limits a step."
    )


def figure_caption(rows: Sequence[WhatIfRow]) -> str:
    """The largest and the smallest gain of doubling the batch size."""
    kept = fitting(rows)
    if len(kept) < 2:
        return "Only one batch size. Estimated from bytes and arithmetic, not measured."
    gains = [(b.tokens_per_s / a.tokens_per_s - 1, a, b) for a, b in zip(kept[:-1], kept[1:], strict=True)]
    best, worst = max(gains, key=lambda gain: gain[0]), min(gains, key=lambda gain: gain[0])
    if percent(best[0]) == percent(worst[0]):
        each = "Doubling" if len(gains) == 1 else "Each doubling of"
        sizes = f"from {count(kept[0].batch_size)} to {count(kept[-1].batch_size)}"
        return (
            f"{each} the batch {sizes} adds {percent(best[0])} to throughput. Estimated from bytes and arithmetic, not "
            "measured."
        )
    return (
        f"Doubling the batch from {count(best[1].batch_size)} to {count(best[2].batch_size)} adds {percent(best[0])} "
        f"to throughput; from {count(worst[1].batch_size)} to {count(worst[2].batch_size)} it adds "
        f"{percent(worst[0])}. Estimated from bytes and arithmetic, not measured."
    )
