"""The chooser: how long may a reader wait, and how large a batch does that leave? With what the best rate would cost.

Limits are on the measured medians of a point. The largest batch within both is taken, whatever smaller ones do.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.core.format import duration, number, percent, quantity, ratio
from engine.core.sweep_table import BatchChoice, SweepRow, choose_batch
from pages.parts.bench_fields import Field, Number
from pages.parts.bench_widgets import number as number_field
from pages.parts.markdown import plain
from pages.parts.sweep.measured import MeasuredSweep

LIMITS: dict[str, Field] = {
    "ttft_limit_s": Number(low=0, high=3600, default=0.5, whole=False, above=True),
    "tpot_limit_ms": Number(low=0, high=600_000, default=100.0, whole=False, above=True),
}
CLOSE = 0.25  # a larger batch that misses a limit by no more than this share of it is named


def draw_chooser(data: MeasuredSweep) -> None:
    """Two limits, and a line a prompt length."""
    st.subheader("Which batch size?", anchor=False)
    left, right = st.columns(2, gap="medium")
    with left:
        ttft_s = number_field("First token within, seconds", "ttft_limit_s", step=0.1, fields=LIMITS)
    with right:
        tpot_ms = number_field("Each next token within, milliseconds", "tpot_limit_ms", step=10.0, fields=LIMITS)
    tpot_s = None if tpot_ms is None else tpot_ms / 1e3
    lines = [f"**{plain(name)}**: {choice_words(rows, ttft_s, tpot_s)}" for name, rows in by_series(data).items()]
    st.markdown("\n".join(f"- {line}" for line in lines))
    st.caption(
        "By measured medians, for B requests that all arrive at once; what waits in a queue before that comes on top. "
        "Rates are decoded tokens a second, B / TPOT."
    )


def by_series(data: MeasuredSweep) -> dict[str, list[SweepRow]]:
    """The grid's rows by the name that their line has in the figures."""
    found: dict[str, list[SweepRow]] = {}
    for name, row in zip(data.table["series"], data.rows, strict=True):
        if row.role == "point":
            found.setdefault(str(name), []).append(row)
    return found


def choice_words(rows: Sequence[SweepRow], ttft_limit_s: float | None, tpot_limit_s: float | None) -> str:
    """The answer for one prompt length in words; None for a limit that is not set."""
    choice = choose_batch(rows, ttft_limit_s, tpot_limit_s)
    if choice.fastest is None:
        return "no batch size has been measured."
    if choice.chosen is None:
        least = min((r for r in rows if r.ttft_s is not None), key=lambda r: r.batch_size)
        return (
            f"no measured batch is within these limits. Even B = {least.batch_size:,} takes {duration(least.ttft_s)} "
            f"to the first token and {duration(least.tpot_s)} for each next one."
        )
    chosen = choice.chosen
    said = (
        f"**B = {chosen.batch_size:,}**, {quantity(chosen.decode_tokens_per_s, 'tokens/s')} in all and "
        f"{number(chosen.tokens_per_s_per_request)} for each request; first token after {duration(chosen.ttft_s)}, "
        f"then one every {duration(chosen.tpot_s)}."
    )
    return " ".join(filter(None, [said, _next_words(choice), _fastest_words(choice)]))


def _next_words(choice: BatchChoice) -> str:
    """The next larger batch, where it misses a limit by little."""
    missed = [
        f"{what} by {percent(over)}"
        for what, over in (("the first token's limit", choice.over_ttft), ("the next tokens' limit", choice.over_tpot))
        if over is not None
    ]
    overs = [over for over in (choice.over_ttft, choice.over_tpot) if over is not None]
    if choice.next_up is None or not overs or max(overs) > CLOSE:
        return ""
    return f"B = {choice.next_up.batch_size:,} misses {' and '.join(missed)}."


def _fastest_words(choice: BatchChoice) -> str:
    """What the best rate of all would cost a reader."""
    fastest, chosen = choice.fastest, choice.chosen
    assert fastest is not None
    assert chosen is not None
    if fastest.batch_size == chosen.batch_size:
        return "No measured batch decodes more."
    if fastest.batch_size < chosen.batch_size:
        return (
            f"A smaller one has more, {quantity(fastest.decode_tokens_per_s, 'tokens/s')} at "
            f"B = {fastest.batch_size:,}: {duration(fastest.ttft_s)} to the first token and "
            f"{duration(fastest.tpot_s)} for each next one."
        )
    return (
        f"The most, {quantity(fastest.decode_tokens_per_s, 'tokens/s')} ({ratio(choice.throughput_gain)}), is at "
        f"B = {fastest.batch_size:,}: it would cost the reader {duration(fastest.ttft_s)} to the first token "
        f"({ratio(choice.ttft_cost)}) and {duration(fastest.tpot_s)} for each next one ({ratio(choice.tpot_cost)})."
    )
