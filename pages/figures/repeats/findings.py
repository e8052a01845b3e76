"""What repeats show, in sentences: the engines' ratio repeat by repeat, whether it tells them apart, drift. Pure text.

A sentence never claims more than its repeats do: one repeat says nothing of the spread, and over several it stands how
often chance alone would make as many of them agree. Over fewer than six there is no verdict, since chance is never
small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.format import percent
from engine.experiments.experiment import Summary
from engine.experiments.repeats import Paired, paired, summary_of, values_of
from pages.figures.repeats.measures import RepeatMeasure, change_text, times_text

Points = Sequence[Mapping[str, Any]]
Names = Mapping[str, str]  # of keys, in the order of running
RARE = 1e-6  # chances that are smaller are not told from each other
NEAR = 0.03  # how far off one time in a whole number may be


def findings(points: Points, names: Names, measure: RepeatMeasure) -> list[str]:
    """A sentence for each engine against the first; of one engine alone, its median and spread."""
    base, *others = names
    if others:
        said = [paired_text(paired(points, key, base, measure.name), names, measure) for key in others]
    else:
        said = [alone_text(names[base], summary_of(points, base, measure.name), measure)]
    return [sentence[:1].upper() + sentence[1:] for sentence in said]


def alone_text(name: str, found: Summary | None, measure: RepeatMeasure) -> str:
    """`static: 312 tokens/s, 305 to 320 tokens/s over 3 repeats, a spread of 4.81 %.`"""
    if found is None:
        return f"{name}: no completed run has this figure."
    if found.n == 1:
        return f"{name}: {measure.text(found.median)} in the one run that completed, which says nothing of the spread."
    if found.low == found.high:
        return f"{name}: {measure.text(found.median)} in every one of {found.n} repeats."
    ends = f"{measure.text(found.low)} to {measure.text(found.high)}"
    spread = "" if found.spread is None else f", a spread of {percent(found.spread)}"
    return f"{name}: {measure.text(found.median)}, {ends} over {found.n} repeats{spread}."


def paired_text(found: Paired, names: Names, measure: RepeatMeasure) -> str:
    """What the ratios of one engine over another allow to be said, and how many repeats have none."""
    said = _ratio_text(found, names, measure)
    if found.n and found.zero_bases:
        have = "1 repeat has" if found.zero_bases == 1 else f"{found.zero_bases:,} repeats have"
        said += f" {have} no ratio: {names[found.base]}'s is 0."
    return said


def agreement_text(found: Paired) -> str:
    """`3 of 3 higher`; `2 of 3 lower, 1 equal`; `2 higher, 2 lower`: for a table."""
    if not found.n:
        return ""
    left = f"; {found.zero_bases} without a ratio" if found.zero_bases else ""
    return _counts(found) + left


def drift_text(points: Points, names: Names, measure: RepeatMeasure) -> str:
    """`From the first repeat to the last: static -1.20 %, continuous +0.300 %.`; empty where nothing was repeated.

    An engine that lacks one of the two is said by itself, with the repeats that it has.
    """
    last = max((int(point["repeat"]) for point in points), default=0)
    whole, partly = [], []
    for key, name in names.items():
        values = values_of(points, key, measure.name)
        begins, ends = min(values, default=0), max(values, default=0)
        if begins == ends or not values[begins] or len(set(values.values())) == 1:
            continue
        change = f"{name} {change_text(values[begins], values[ends])}"
        if (begins, ends) == (0, last):
            whole.append(change)
        else:
            partly.append(f"{change} (repeat {begins + 1:,} to {ends + 1:,})")
    said = [f"From the first repeat to the last: {', '.join(whole)}."] if whole else []
    said += [f"From its first completed to its last: {', '.join(partly)}."] if partly else []
    return " ".join(said)


def chance_text(chance: float) -> str:
    """`as by chance one time in 47`; `as by chance 34 times in 100`, where one time in a whole number is not near."""
    if chance >= 1:
        return "as by chance every time"
    if chance < RARE:
        return f"as by chance less than one time in {1 / RARE:,.0f}"
    times = round(1 / chance)
    if abs(times * chance - 1) < NEAR:
        return f"as by chance one time in {times:,}"
    return f"as by chance {100 * chance:.0f} times in 100"


def _ratio_text(found: Paired, names: Names, measure: RepeatMeasure) -> str:
    name, base, noun = names[found.key], names[found.base], measure.noun
    over = found.summary
    match found.finding:
        case "none" if found.zero_bases:
            return f"{name} over {base}: no ratio, since {base}'s {noun} is 0."
        case "none":
            return f"{name} over {base}: no ratio, since there is no repeat in which both completed with this figure."
        case "equal":
            return f"{base} and {name} had the same {noun} {_in_all(found.n)}."
    assert over is not None
    if over.high == 0:
        return f"{name} had none of {base}'s {noun} {_in_all(found.n)}."
    had = f"{name} had {times_text(over.median)} {base}'s {noun}"
    if found.finding == "one":
        return f"{had} in the one repeat that has a ratio, which says nothing of the spread."
    if math.isclose(over.low, over.high):
        return f"{had}, the same {_in_all(found.n)}."
    ends = f"{times_text(over.low)} to {times_text(over.high)} over {found.n:,} repeats"
    if found.finding == "not apart":
        ends += ", which do not tell them apart"
    return f"{had}, {ends}: {_seen(found)}, {chance_text(found.chance)}."


def _in_all(n: int) -> str:
    return {1: "in the one repeat", 2: "in both repeats"}.get(n, f"in all {n:,} repeats")


def _seen(found: Paired) -> str:
    """`higher in all 3`; else the counts."""
    if found.n in (found.above, found.below):
        which = "both" if found.n == 2 else f"all {found.n:,}"
        return f"{'higher' if found.above else 'lower'} in {which}"
    return _counts(found)


def _counts(found: Paired) -> str:
    """The larger side of all that have a ratio; both sides where neither is larger."""
    above, below, equal, n = found.above, found.below, found.equal, found.n
    if not above and not below:
        return f"{equal:,} of {n:,} equal"
    rest = f", {equal:,} equal" if equal else ""
    if above == below:
        return f"{above:,} higher, {below:,} lower{rest}"
    return f"{above:,} of {n:,} higher{rest}" if above > below else f"{below:,} of {n:,} lower{rest}"
