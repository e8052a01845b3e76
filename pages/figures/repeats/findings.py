"""Findings from repeats as sentences: each engine's ratio to the first, the strength of the evidence, and drift.

A sentence never claims more than its repeats support. One repeat shows no spread. Over several, the sentence says how
often chance alone makes as many of them agree (a sign test). Fewer than six repeats never give a verdict, since the
chance is never small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.format import count, percent
from engine.experiments.experiment import Summary
from engine.experiments.repeats import Paired, paired, summary_of, values_of
from pages.figures.repeats.measures import RepeatMeasure, change_text, times_text

Points = Sequence[Mapping[str, Any]]
Names = Mapping[str, str]  # by key, in the order of running
RARE = 1e-6  # smaller chances are all reported as this one
NEAR = 0.03  # the relative error allowed for "1 time in N"


def findings(points: Points, names: Names, measure: RepeatMeasure) -> list[str]:
    """A sentence for each engine against the first; for a single engine, its median and spread."""
    base, *others = names
    if others:
        sentences = [paired_text(paired(points, key, base, measure.name), names, measure) for key in others]
    else:
        sentences = [spread_text(names[base], summary_of(points, base, measure.name), measure)]
    return [sentence[:1].upper() + sentence[1:] for sentence in sentences]


def spread_text(name: str, found: Summary | None, measure: RepeatMeasure) -> str:
    """`static: 312 tokens/s, 305 to 320 tokens/s over 3 repeats, a spread of 4.81 %.`"""
    if found is None:
        return f"{name}: no completed run has this metric."
    if found.n == 1:
        return f"{name}: {measure.text(found.median)} in the only completed run, which shows no spread."
    if found.low == found.high:
        return f"{name}: {measure.text(found.median)} {_in_all(found.n)}."
    ends = f"{measure.text(found.low)} to {measure.text(found.high)}"
    spread = "" if found.spread is None else f", a spread of {percent(found.spread)}"
    return f"{name}: {measure.text(found.median)}, {ends} over {found.n} repeats{spread}."


def paired_text(found: Paired, names: Names, measure: RepeatMeasure) -> str:
    """The finding from the ratios of one engine over another, and the number of repeats without a ratio."""
    text = _ratio_text(found, names, measure)
    if found.n and found.zero_bases:
        have = "1 repeat has" if found.zero_bases == 1 else f"{found.zero_bases:,} repeats have"
        text += f" {have} no ratio: {names[found.base]}'s value is 0."
    return text


def agreement_text(found: Paired) -> str:
    """`higher in 3 of 3`; `lower in 2 of 3, equal in 1`; `higher in 2, lower in 2`: for a table."""
    if not found.n:
        return ""
    return _counts_text(found) + (f"; {found.zero_bases} without a ratio" if found.zero_bases else "")


def drift_text(points: Points, names: Names, measure: RepeatMeasure) -> str:
    """`Output tokens/s, first to last repeat: static -1.20 %, continuous +0.300 %.`; empty without repeats.

    An engine without a value for one of the two is listed separately, with the repeats it has.
    """
    last = max((int(point["repeat"]) for point in points), default=0)
    complete, partial = [], []
    for key, name in names.items():
        values = values_of(points, key, measure.name)
        begins, ends = min(values, default=0), max(values, default=0)
        if begins == ends or not values[begins] or len(set(values.values())) == 1:
            continue
        change = f"{name} {change_text(values[begins], values[ends])}"
        if (begins, ends) == (0, last):
            complete.append(change)
        else:
            partial.append(f"{change} (repeat {begins + 1:,} to {ends + 1:,})")
    sentences = [f"{measure.title}, first to last repeat: {', '.join(complete)}."] if complete else []
    sentences += [f"{measure.title}, first to last completed repeat: {', '.join(partial)}."] if partial else []
    return " ".join(sentences)


def chance_text(chance: float) -> str:
    """`chance alone does this 1 time in 47`, or `34 times in 100` where it is not near 1 in a whole number."""
    if chance >= 1:
        return "no evidence (chance alone always does this)"
    if chance < RARE:
        return f"chance alone does this less than 1 time in {count(1 / RARE)}"
    times = round(1 / chance)
    if abs(times * chance - 1) < NEAR:
        return f"chance alone does this 1 time in {count(times)}"
    return f"chance alone does this {count(100 * chance)} times in 100"


def _ratio_text(found: Paired, names: Names, measure: RepeatMeasure) -> str:
    name, base, noun = names[found.key], names[found.base], measure.noun
    over = found.summary
    match found.finding:
        case "none" if found.zero_bases:
            return f"{name} over {base}: no ratio, because {base}'s {noun} is 0."
        case "none":
            return f"{name} over {base}: no ratio, because no repeat has this metric for both."
        case "equal":
            return f"{base} and {name} had the same {noun} {_in_all(found.n)}."
    assert over is not None
    if over.high == 0:
        return f"{name} had none of {base}'s {noun} {_in_all(found.n)}."
    had = f"{name} had {times_text(over.median)} {base}'s {noun}"
    if found.finding == "one":
        return f"{had} in the only repeat with a ratio, which shows no spread."
    if math.isclose(over.low, over.high):
        return f"{had}, the same {_in_all(found.n)}."
    lead = "no clear difference: " if found.finding == "not apart" or found.chance >= 1 else ""
    span = f"{times_text(over.low)} to {times_text(over.high)}"
    return f"{lead}{had} ({span}){',' if lead else ':'} {_repeats_text(found)}; {chance_text(found.chance)}."


def _in_all(n: int) -> str:
    return {1: "in the only repeat", 2: "in both repeats"}.get(n, f"in all {n:,} repeats")


def _repeats_text(found: Paired) -> str:
    """`higher in all 3 repeats`, or the counts."""
    if found.n in (found.above, found.below):
        return f"{'higher' if found.above else 'lower'} {_in_all(found.n)}"
    above, below, equal, n = found.above, found.below, found.equal, found.n
    if above == below:
        return f"higher in {above:,} and lower in {below:,} of {n:,} repeats"
    side = f"higher in {above:,}" if above > below else f"lower in {below:,}"
    return f"{side} of {n:,} repeats" + (f", equal in {equal:,}" if equal else "")


def _counts_text(found: Paired) -> str:
    """The larger side of all repeats with a ratio; both sides where they are equally large."""
    above, below, equal, n = found.above, found.below, found.equal, found.n
    if not above and not below:
        return f"equal in {equal:,} of {n:,}"
    ties = f", equal in {equal:,}" if equal else ""
    if above == below:
        return f"higher in {above:,}, lower in {below:,}{ties}"
    return f"higher in {above:,} of {n:,}{ties}" if above > below else f"lower in {below:,} of {n:,}{ties}"
