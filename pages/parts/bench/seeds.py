"""How usual the planned ratio of two engines is: the same settings with other seeds, by the real schedulers.

The ratios are computed after the page is drawn, in slices that a slider does not have to wait for, never during a run,
and once for all visitors.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import count, number, percent
from engine.simulator.pass_clock import PassClock
from engine.simulator.simulator import simulate
from engine.workload.workload import build_workload
from pages.parts.bench.plan import ANY_MODEL, Plan, dimensions_of, planning_s
from pages.parts.shared.lab import lab
from pages.parts.shared.workloads import workload_of

SEEDS = 200
LEAST_SEEDS = 20
TOTAL_S = 6.0  # of all seeds, by the planning time's estimate, which is high
SLICE_S = 0.08
TICK_S = 0.3

Pair = tuple[RunConfig, RunConfig]


@dataclass(slots=True, kw_only=True)
class SeedRatios:
    """Passes of the first engine over those of the second, by seed, of `wanted` seeds from 0."""

    wanted: int
    ratios: dict[int, float] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return len(self.ratios) >= self.wanted

    def advance(self, pair: Pair, within_s: float) -> None:
        """Add ratios for about `within_s` of CPU time. A pair that runs out of memory with some seed has no ratios."""
        end_s = time.thread_time() + within_s
        for seed in (seed for seed in range(self.wanted) if seed not in self.ratios):
            found = ratio_of(pair, seed)
            if found is None:
                self.wanted = 0
                self.ratios.clear()
                return
            self.ratios[seed] = found
            if time.thread_time() > end_s:
                return


def ratio_of(pair: Pair, seed: int) -> float | None:
    """Passes of the first engine over those of the second with this seed; None where one runs out of memory."""
    numbers = []
    for config in pair:
        asked = replace(config.workload, seed=seed)
        dimensions = dimensions_of(config)
        bounded = config if dimensions is not None else replace(config, pool_gib=None, capacity_gib=None)
        done = simulate(replace(bounded, workload=asked), build_workload(asked), PassClock(), dimensions or ANY_MODEL)
        if done.shortage is not None or not done.sink.num_passes:
            return None
        numbers.append(done.sink.num_passes)
    return numbers[0] / numbers[1]


@st.cache_resource(max_entries=64, show_spinner=False)
def ratios_of(pair: Pair) -> SeedRatios:
    """The ratios so far. `wanted` is less than SEEDS where all would take too long, 0 where only a few would fit."""
    cost_s = sum(planning_s(config, workload_of(config.workload).requests) for config in pair)
    wanted = min(SEEDS, int(TOTAL_S / cost_s))
    return SeedRatios(wanted=wanted if wanted >= LEAST_SEEDS else 0)


def draw_seeds(known: Sequence[tuple[RunConfig, Plan]]) -> None:
    """A line with the median over seeds, as soon as it is known. Nothing where the schedule depends on time."""
    if len(known) != 2 or any(plan.unit != "pass" or plan.is_sampled for _, plan in known):
        return
    (first, longer), (second, shorter) = sorted(known, key=lambda each: -(each[1].num_passes or 0))
    here = (longer.num_passes or 0) / (shorter.num_passes or 1)
    pair = (_without_seed(first), _without_seed(second))
    run_every = None if ratios_of(pair).is_complete else TICK_S
    st.fragment(_draw, run_every=run_every)(pair, first.workload.seed, here, itertools.count())


def _without_seed(config: RunConfig) -> RunConfig:
    return replace(config, workload=replace(config.workload, seed=0))


def _draw(pair: Pair, seed: int, here: float, turns: Iterator[int]) -> None:
    found = ratios_of(pair)
    is_first = next(turns) == 0  # drawn with the page, which must not wait
    if not is_first and not found.is_complete and all(job.is_done for job in lab().queue.jobs()):
        found.advance(pair, SLICE_S)
    if found.is_complete and (text := seeds_text(seed, here, list(found.ratios.values()))):
        st.caption(text, help="The same settings with other seeds, by the engines' own schedulers.")


def seeds_text(seed: int, here: float, ratios: Sequence[float]) -> str:
    """`Seed 0: 1.18x, more than 67 % of 200 seeds (median 1.10x).` Empty where no seed differs."""
    if len(set(ratios)) < 2:
        return ""
    below = sum(ratio < here for ratio in ratios) / len(ratios)
    median = number(statistics.median(ratios))
    return f"Seed {seed}: {number(here)}x, more than {percent(below)} of {count(len(ratios))} seeds (median {median}x)."
