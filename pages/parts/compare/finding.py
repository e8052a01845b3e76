"""The finding of a comparison in one sentence, computed from the runs' metrics.

`Speed` is the measure that ranks the runs. The reasons in the sentence are measured figures that go with the
difference, not proven causes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.core.format import count, duration, number, percent, plural, quantity
from pages.parts.compare.compared_run import ComparedRun
from pages.parts.compare.differences import is_tie
from pages.parts.compare.settings import Mismatch
from pages.parts.runs.validity import distrust_text
from pages.parts.shared.markdown import listed
from pages.parts.shared.metric_text import headline_metric

SMALL_SHARE = 0.005
NOTABLE = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The measure that ranks all runs of a comparison."""

    measure: Literal["output_tokens_per_s", "e2e_p50_s"]

    @classmethod
    def of(cls, runs: Sequence[ComparedRun]) -> Speed:
        """End-to-end latency where requests of any run arrive over time; else throughput."""
        over_time = any(run.arrival != "closed" for run in runs) and all(run.metric("e2e_p50_s") for run in runs)
        return cls(measure="e2e_p50_s" if over_time else "output_tokens_per_s")

    def value(self, run: ComparedRun) -> float:
        """Larger is faster. Every ranked run has a value above 0."""
        value = float(run.metric(self.measure) or 0.0)
        assert value > 0
        return value if self.measure == "output_tokens_per_s" else 1.0 / value

    def ranked(self, runs: Sequence[ComparedRun]) -> list[ComparedRun]:
        """The fastest first."""
        return sorted(runs, key=self.value, reverse=True)

    def is_close(self, a: ComparedRun, b: ComparedRun) -> bool:
        """Whether the two were equally fast within the accuracy of one measurement."""
        return is_tie(self.value(a), self.value(b))

    def times(self, fast: ComparedRun, slow: ComparedRun) -> str:
        """`1.50 times`."""
        return f"{number(self.value(fast) / self.value(slow))} times"

    def figure(self, run: ComparedRun) -> str:
        """`60.0 tokens/s`."""
        if self.measure == "e2e_p50_s":
            return f"half of the answers complete within {duration(run.metric('e2e_p50_s'))}"
        return quantity(run.metric("output_tokens_per_s"), "tokens/s")

    def figures(self, a: ComparedRun, b: ComparedRun) -> str:
        """`60.0 against 40.0 tokens/s`, with both token counts where they differ."""
        if self.measure == "e2e_p50_s":
            waits = f"{duration(a.metric('e2e_p50_s'))} against {duration(b.metric('e2e_p50_s'))}"
            return f"half of the answers were complete within {waits}"
        mine, its = (run.metric("output_tokens_per_s") for run in (a, b))
        rates = f"{number(mine)} against {quantity(its, 'tokens/s')}"
        if a.metric("output_tokens") == b.metric("output_tokens"):
            return rates
        return f"{rates} (over {count(a.metric('output_tokens'))} and {count(b.metric('output_tokens'))} tokens)"


def finding(runs: Sequence[ComparedRun], differing: Sequence[Mismatch] = (), distrust: str = "") -> str:
    """One sentence on two or more runs. It begins with `differing`, what makes the comparison unfair.

    With `distrust`, why the times cannot be trusted, it gives what was counted instead, and says so.
    """
    going = [run.name for run in runs if run.status == "running"]
    if going:
        verb = "is" if len(going) == 1 else "are"
        return f"{listed(going)} {verb} still running; the finding follows when every run has ended."
    complete = [run for run in runs if run.is_complete and run.metric("output_tokens_per_s")]
    if len(complete) < 2:
        return _nothing_to_compare(runs, complete)
    if distrust and all(run.metric("passes") and run.metric("slot_steps") for run in complete):
        counts = f"{_caveat(differing)}{_counts(complete, differing)}{_left_out(runs)}"
        return f"{_with_capital(counts)}. {distrust_text([run.arrival for run in complete], distrust)}"
    sentence = _two(complete, differing) if len(complete) == 2 else _ranking(complete, differing)
    simulated = "in simulation, " if all(run.is_simulated for run in complete) else ""
    return _with_capital(f"{_caveat(differing)}{simulated}{sentence}{_left_out(runs)}.")


def _counts(runs: Sequence[ComparedRun], differing: Sequence[Mismatch]) -> str:
    """`continuous needed 74 forward passes and 212 slot-steps on the same 8 requests, static 87 and 348`."""
    first, *others = sorted(runs, key=lambda run: float(run.metric("passes") or 0))
    passes = plural(int(first.metric("passes") or 0), "forward pass", "forward passes")
    rest = [f"{run.name} {count(run.metric('passes'))} and {count(run.metric('slot_steps'))}" for run in others]
    return (
        f"{first.name} needed {passes} and {plural(int(first.metric('slot_steps') or 0), 'slot-step')}"
        f"{_where(runs, differing)}, {listed(rest)}"
    )


def _nothing_to_compare(runs: Sequence[ComparedRun], complete: Sequence[ComparedRun]) -> str:
    failed = [f"{run.name} {run.ending}" for run in runs if not run.is_complete]
    if not failed:
        return "No speed to compare: " + listed([f"{r.name} produced {_tokens(r)}" for r in runs]) + "."
    if complete:
        figure = Speed.of(complete).figure(complete[0])
        return _with_capital(
            f"only {complete[0].name} completed ({figure}): {listed(failed)}, so there is no speed to compare it with."
        )
    return f"No run completed: {listed(failed)}."


def _two(runs: Sequence[ComparedRun], differing: Sequence[Mismatch]) -> str:
    speed = Speed.of(runs)
    best, other = speed.ranked(runs)
    where = _where(runs, differing)
    if speed.is_close(best, other):
        first, second = runs
        return (
            f"{first.name} and {second.name} were equally fast{where}, within 2\u00a0%: {speed.figures(first, second)}"
            f"{_dead_text(first, second)}"
        )
    faster = speed.times(best, other)
    headline = f"{best.name} was {faster} as fast as {other.name}{where}: {speed.figures(best, other)}"
    return f"{headline}{_reason(best, other)}"


def _ranking(runs: Sequence[ComparedRun], differing: Sequence[Mismatch]) -> str:
    speed = Speed.of(runs)
    best, *others = speed.ranked(runs)
    fastest = [best, *(run for run in others if speed.is_close(best, run))]
    slower = [run for run in others if run not in fastest]
    first = f"{listed([run.name for run in fastest])} {'was' if len(fastest) == 1 else 'were'} fastest"
    text = f"of {len(runs)} runs{_where(runs, differing)} {first} ({speed.figure(best)})"
    if len(fastest) > 1:
        text += ", within 2\u00a0% of each other"
    if slower:
        text += ", " + listed(
            [f"{speed.times(best, run)} as fast as {run.name} ({speed.figure(run)})" for run in slower]
        )
    return text


def _where(runs: Sequence[ComparedRun], differing: Sequence[Mismatch]) -> str:
    if any(mismatch.what == "workload" for mismatch in differing):
        return ""
    return f" on the same {plural(runs[0].requests, 'request')}" if runs[0].requests != 1 else " on the same request"


def _reason(best: ComparedRun, other: ComparedRun) -> str:
    """The first figure that goes with the difference, and dead slot-steps where the faster run had more of them."""
    a, b = _dead(best), _dead(other)
    despite = ""
    if b - a >= SMALL_SHARE:
        return f"; {other.name} computed {percent(b)} of its slot-steps for ended requests, {best.name} {_or_none(a)}"
    if a - b >= SMALL_SHARE:
        despite = f" although it computed {percent(a)} of its slot-steps for ended requests, {other.name} {_or_none(b)}"
    for name, reason in _REASONS:
        fast, slow = best.metric(name), other.metric(name)
        if fast and slow and not is_tie(fast, slow) and slow > fast:
            return f"{despite}; {reason(best, other)}"
    return despite


def _passes(best: ComparedRun, other: ComparedRun) -> str:
    return f"it needed {count(best.metric('passes'))} passes, {other.name} {count(other.metric('passes'))}"


def _decode_pass(best: ComparedRun, other: ComparedRun) -> str:
    fast, slow = best.metric("decode_pass_p50_s"), other.metric("decode_pass_p50_s")
    return f"its median decode pass took {duration(fast)}, {other.name}'s {duration(slow)}"


def _prefill(best: ComparedRun, other: ComparedRun) -> str:
    fast, slow = best.metric("prefill_s"), other.metric("prefill_s")
    return f"it spent {duration(fast)} in prefill, {other.name} {duration(slow)}"


def _between(best: ComparedRun, other: ComparedRun) -> str:
    fast, slow = best.metric("between_passes_s"), other.metric("between_passes_s")
    return f"no pass ran for {duration(fast)} of its time, for {duration(slow)} of {other.name}'s"


_REASONS: tuple[tuple[str, Callable[[ComparedRun, ComparedRun], str]], ...] = (
    ("passes", _passes),
    ("decode_pass_p50_s", _decode_pass),
    ("prefill_s", _prefill),
    ("between_passes_s", _between),
)


def drawback(runs: Sequence[ComparedRun]) -> str:
    """A latency in which the faster of two runs was notably worse, as a sentence; empty if there is none."""
    complete = [run for run in runs if run.is_complete and run.metric("output_tokens_per_s")]
    if len(runs) != 2 or len(complete) != 2:
        return ""
    speed = Speed.of(complete)
    best, other = speed.ranked(complete)
    if speed.is_close(best, other):
        return ""
    ttft = headline_metric("ttft_p95_s", best.metrics, other.metrics)
    which = "the p95 time" if ttft == "ttft_p95_s" else "the longest time"
    for name, label in ((ttft, f"{which} to first token"), ("itl_max_s", "the longest gap between two tokens")):
        mine, its = best.metric(name), other.metric(name)
        if mine and its and mine > NOTABLE * its:
            return f"Drawback of {best.name}: {label} was {duration(mine)} against {duration(its)}."
    return ""


def _dead_text(first: ComparedRun, second: ComparedRun) -> str:
    a, b = _dead(first), _dead(second)
    if a < SMALL_SHARE and b < SMALL_SHARE:
        return "; neither computed slot-steps for ended requests"
    shares = f"{first.name} {_or_none(a)}, {second.name} {_or_none(b)}"
    return f"; slot-steps computed for ended requests: {shares}"


def _dead(run: ComparedRun) -> float:
    return float(run.metric("dead_fraction") or 0.0)


def _or_none(part: float) -> str:
    return percent(part) if part else "none"


def _tokens(run: ComparedRun) -> str:
    tokens = int(run.metric("output_tokens") or 0)
    return plural(tokens, "token") if tokens else "no token"


def _caveat(differing: Sequence[Mismatch]) -> str:
    if not differing:
        return ""
    verb = "differs" if len(differing) == 1 else "differ"
    return f"not a comparison of engines only, because their {listed([m.what for m in differing])} {verb}: "


def _left_out(runs: Sequence[ComparedRun]) -> str:
    out = [f"{run.name} {run.ending}" for run in runs if not run.is_complete]
    return f" (left out: {listed(out)})" if out else ""


def _with_capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
