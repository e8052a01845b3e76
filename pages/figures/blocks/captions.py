"""The sentences under the figures of KV memory, their numbers computed from the same data as the figures."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from engine.core.format import duration, number, percent, plural
from pages.figures.blocks.blocks import NO_BLOCKS
from pages.figures.waste.kv_layouts import NOTHING, kv_shares
from pages.figures.waste.measures import COMPUTED, GOOD, HELD


def blocks(
    by_column: pd.DataFrame,
    preemptions: pd.DataFrame,
    *,
    pool_blocks: int,
    block_size: int,
    unfilled_share: float | None,
    recomputed_tokens: int | None,
) -> str:
    """For blocks.block_map: how full the pool became, what share of it was unfilled, and what preemption cost.

    `unfilled_share` is of the KV memory held over time; it and `recomputed_tokens` are left out where not known.
    """
    if by_column.empty or not by_column["reserved_max_positions"].max() > 0:
        return NO_BLOCKS
    most = float(by_column["reserved_max_positions"].max()) / block_size
    pool = f"{plural(pool_blocks, 'block')} of {plural(block_size, 'position')}"
    said = [f"At most {most:,.0f} of {pool} were held at once ({percent(most / pool_blocks)})"]
    if unfilled_share is not None:
        said.append(f"over time {percent(unfilled_share)} of what was held was not filled")
    return f"{'; '.join(said)}. {_preempted(preemptions, recomputed_tokens)}"


def _preempted(preemptions: pd.DataFrame, recomputed_tokens: int | None) -> str:
    if preemptions.empty:
        return "No request was preempted."
    again = "" if recomputed_tokens is None else f", and {plural(recomputed_tokens, 'token')} were computed again"
    times = plural(len(preemptions), "preemption")
    who = plural(preemptions["request_id"].nunique(), "request")
    return f"{times} of {who} gave back {plural(float(preemptions['blocks'].sum()), 'block')}{again}."


def pool(held: pd.DataFrame, *, pool_blocks: int, block_size: int, pass_index: int, step: float, time_s: float) -> str:
    """For pool.pool_at: how many blocks are held by how many requests, and how many of their positions are empty."""
    when = f"During pass {pass_index:,} (step {int(step):,}, from {duration(time_s)} on)"
    if held.empty:
        return f"{when} all {plural(pool_blocks, 'block')} are free."
    said = (
        f"{when} {plural(len(held), 'block')} of {pool_blocks:,} are held by "
        f"{plural(held['request_id'].nunique(), 'request')}"
    )
    if held["positions"].isna().any():
        return f"{said}."
    empty, whole = len(held) * block_size - float(held["positions"].sum()), len(held) * block_size
    return f"{said}; {plural(empty, 'position')} of {whole:,} in them not filled ({percent(empty / whole)})."


def kv_layouts(ledger: pd.DataFrame) -> str:
    """For kv_layouts.kv_layouts: what share real tokens had, the most first, and how much more the most held."""
    parts = kv_shares(ledger)
    if parts.empty:
        return NOTHING
    said = []
    for heading, intro, verb in (
        (HELD.heading, "Of the KV memory held over time, real tokens filled", "held"),
        (COMPUTED.heading, "Of the positions computed, real ones were", "computed"),
    ):
        good = parts[(parts["heading"] == heading) & parts["part"].isin(GOOD)]
        if good.empty:
            continue
        shares = dict(zip(good["series"], good["share"], strict=True))
        wholes = dict(zip(good["series"], good["whole"], strict=True))
        said.append(f"{intro} {_ranked(shares)}{_most(wholes, verb)}.")
    return " ".join(said)


def _ranked(shares: Mapping[str, float]) -> str:
    """`91 % (paged), 31 % (static)`; of a run without a name the share alone."""
    names = sorted(shares, key=lambda name: -shares[name])
    return ", ".join(f"{percent(shares[name])} ({name})".removesuffix(" ()") for name in names)


def _most(wholes: Mapping[str, float], verb: str) -> str:
    """How many times the least the most is, where there are several and they differ."""
    least, most = min(wholes, key=lambda name: wholes[name]), max(wholes, key=lambda name: wholes[name])
    if len(wholes) < 2 or wholes[most] <= wholes[least] * 1.005:
        return ""
    return f"; {most} {verb} {number(wholes[most] / wholes[least])} times what {least} did"
