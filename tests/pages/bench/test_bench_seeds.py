"""The planned ratio among seeds: hand-counted passes, slices, and the sentence."""

from __future__ import annotations

from engine.core.config import RunConfig, WorkloadConfig
from pages.parts.bench.seeds import SEEDS, SeedRatios, ratio_of, ratios_of, seeds_text
from tests.support.no_break import nb


def pair(workload: WorkloadConfig, slots: int = 2) -> tuple[RunConfig, RunConfig]:
    return tuple(RunConfig(engine=name, slots=slots, workload=workload) for name in ("static", "continuous"))  # type: ignore[return-value]


def test_the_order_of_the_requests_decides_the_ratio() -> None:
    """One request of 1 token and two of 9, in two slots, in an order drawn from the seed.

    The short one first or second: static runs batches of 9 and 9 passes, continuous a prefill and a decode, then a
    prefill of the third and 8 decodes. Last: static runs 9 and 1, continuous 9 and then a prefill.
    """
    engines = pair(WorkloadConfig(prompts="p8", requests=3, budget="1x1+2x9"))
    found = {ratio_of(engines, seed) for seed in range(20)}
    assert found == {18 / 11, 10 / 10}


def test_ratios_come_in_slices_and_stop() -> None:
    engines = pair(WorkloadConfig(prompts="p8", requests=3, budget="1x1+2x9"))
    ratios = SeedRatios(wanted=5)
    ratios.advance(engines, 0.0)  # one, however little time there is
    assert (list(ratios.ratios), ratios.is_complete) == ([0], False)
    while not ratios.is_complete:
        ratios.advance(engines, 0.0)
    assert list(ratios.ratios) == [0, 1, 2, 3, 4]


def test_a_pair_that_runs_out_of_memory_has_none() -> None:
    small = RunConfig(engine="paged", model="tiny-random", device="cpu", pool_gib=1e-6, workload=WorkloadConfig())
    ratios = SeedRatios(wanted=5)
    ratios.advance((small, small), 1.0)
    assert (ratios.ratios, ratios.is_complete) == ({}, True)


def test_large_workloads_have_fewer_seeds_or_none() -> None:
    assert ratios_of(pair(WorkloadConfig())).wanted == SEEDS
    large = pair(WorkloadConfig(prompts="p16", requests=64, budget="256"), slots=8)
    assert 20 <= ratios_of(large).wanted < SEEDS
    assert ratios_of(pair(WorkloadConfig(prompts="p16", requests=20_000, budget="64"))).wanted == 0


def test_the_sentence_names_the_seed_and_the_median() -> None:
    ratios = [1.8, 1.0, 1.8, 1.0, 1.0]
    assert seeds_text(0, 1.8, ratios) == nb("Seed 0: 1.80x, more than 60.0 % of 5 seeds (median 1.00x).")
    assert seeds_text(3, 1.0, ratios) == nb("Seed 3: 1.00x, more than 0 % of 5 seeds (median 1.00x).")
    assert seeds_text(0, 1.0, [1.0, 1.0]) == ""
