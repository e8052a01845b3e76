"""What repeats show, in sentences: the engines' ratio repeat by repeat, whether it tells them apart, drift. Pure text.

A sentence never claims more than its repeats do: one repeat says nothing of the spread, and a ratio that lies on both
sides of 1 says that the repeats differ by more than the engines do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.experiment import Summary
from engine.core.repeats_table import Paired, by_chance, paired, summary_of, values_of
from pages.figures.repeat_measures import RepeatMeasure, change_text, times_text

Points = Sequence[Mapping[str, Any]]
Names = Mapping[str, str]  # of keys, in the order of running


def findings(points: Points, names: Names, measure: RepeatMeasure) -> list[str]:
    """A sentence for each engine against the first; of one engine alone, its median and spread."""
    base, *others = names
    if others:
        said = [paired_words(paired(points, key, base, measure.name), names, measure) for key in others]
    else:
        said = [alone_words(names[base], summary_of(points, base, measure.name), measure)]
    return [sentence[:1].upper() + sentence[1:] for sentence in said]


def alone_words(name: str, found: Summary | None, measure: RepeatMeasure) -> str:
    """`static: 312 tokens/s, 305 to 320 tokens/s over 3 repeats, a spread of 4.81 %.`"""
    if found is None:
        return f"{name}: no completed run has this figure."
    if found.n == 1:
        return f"{name}: {measure.text(found.median)} in the one run that completed, which says nothing of the spread."
    if found.low == found.high:
        return f"{name}: {measure.text(found.median)} in every one of {found.n} repeats."
    ends = f"{measure.text(found.low)} to {measure.text(found.high)}"
    spread = "" if found.spread is None else f", a spread of {100 * found.spread:#.3g}".rstrip(".") + " %"
    return f"{name}: {measure.text(found.median)}, {ends} over {found.n} repeats{spread}."


def paired_words(found: Paired, names: Names, measure: RepeatMeasure) -> str:
    """What the ratios of one engine over another allow to be said."""
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
        return f"{had} in the one repeat that both completed, which says nothing of the spread."
    if times_text(over.low) == times_text(over.high):
        return f"{had}, the same {_in_all(found.n)}."
    ends = f"{times_text(over.low)} to {times_text(over.high)}"
    if found.finding == "apart":
        return f"{had}, {ends} over {found.n} repeats: {_agreement(found)}."
    return (
        f"The repeats differ by more than the engines do: {name} had {ends} {base}'s {noun}, and {found.n} repeats do "
        f"not tell them apart ({_counts(found)})."
    )


def agreement_words(found: Paired) -> str:
    """`3 of 3 higher`; `2 of 3 lower`: for a table."""
    if not found.n:
        return ""
    if found.above == found.agreeing and found.above:
        return f"{found.above} of {found.n} higher"
    if found.below == found.agreeing and found.below:
        return f"{found.below} of {found.n} lower"
    return f"{found.agreeing} of {found.n} equal"


def drift_words(points: Points, names: Names, measure: RepeatMeasure) -> str:
    """`From the first repeat to the last: static -1.2 %, continuous +0.3 %.`; empty where nothing was repeated."""
    said = []
    for key, name in names.items():
        values = list(values_of(points, key, measure.name).values())
        if len(values) > 1 and values[0] and len(set(values)) > 1:
            said.append(f"{name} {change_text(values[0], values[-1])}")
    return f"From the first repeat to the last: {', '.join(said)}." if said else ""


def _in_all(n: int) -> str:
    return {1: "in the one repeat", 2: "in both repeats"}.get(n, f"in all {n} repeats")


def _agreement(found: Paired) -> str:
    both = "both agree" if found.n == 2 else f"all {found.n} agree"
    return f"{both} that it is {'higher' if found.above else 'lower'}, as by chance they would {_odds(found.n)}"


def _odds(n: int) -> str:
    return f"one time in {by_chance(n):,}" if n <= 20 else "hardly ever"


def _counts(found: Paired) -> str:
    return f"higher in {found.above}, lower in {found.below}" + (
        f", equal in {found.n - found.above - found.below}" if found.n > found.above + found.below else ""
    )
