"""Workloads: the same seed gives the same requests, each thing is drawn by itself, and the digest tells them apart."""

from dataclasses import replace

import pytest

from engine.core.config import WorkloadConfig
from engine.core.request import ExactPrompt
from engine.workload.workload import Workload, build_workload

MIXED = WorkloadConfig(prompts="p16,p64", requests=16, budget="8x32+8x256", arrival="poisson:2")


def build(**changes: object) -> Workload:
    return build_workload(replace(MIXED, **changes))  # type: ignore[arg-type]


def prompts(workload: Workload) -> list[object]:
    return [r.prompt for r in workload.requests]


def budgets(workload: Workload) -> list[int]:
    return [r.budget_tokens for r in workload.requests]


def arrivals_s(workload: Workload) -> list[float]:
    return [r.arrival_s for r in workload.requests]


def seeds(workload: Workload) -> list[int]:
    return [r.sampling_seed for r in workload.requests]


def test_the_same_configuration_gives_the_same_requests() -> None:
    assert build() == build()
    assert build().digest == build().digest


def test_another_seed_gives_other_requests_in_everything_that_is_drawn() -> None:
    one, other = build(), build(seed=1)
    for part in (prompts, budgets, arrivals_s, seeds):
        assert part(one) != part(other), part.__name__


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"budget": "64"}, budgets),
        ({"prompts": "p16:3,p64:1"}, prompts),
        ({"arrival": "gamma:2:3"}, arrivals_s),
    ],
)
def test_a_change_of_one_thing_leaves_the_others_as_they_were(change: dict[str, object], changed: object) -> None:
    one, other = build(), build(**change)
    for part in (prompts, budgets, arrivals_s, seeds):
        assert (part(one) != part(other)) is (part is changed), part.__name__


def test_long_budgets_are_not_tied_to_long_prompts() -> None:
    # Sixteen requests, half of each kind: if both had one order, all or none of the p64 would have 256.
    requests = build().requests
    both = sum(r.budget_tokens == 256 and r.prompt.label == "p64" for r in requests)
    assert 0 < both < 8


def test_requests_are_numbered_in_order_of_arrival() -> None:
    requests = build().requests
    assert [r.request_id for r in requests] == list(range(16))
    times = [r.arrival_s for r in requests]
    assert times == sorted(times)


def test_requests_are_plain_values() -> None:
    request = build().requests[0]
    assert type(request.budget_tokens) is int
    assert type(request.arrival_s) is float
    assert type(request.sampling_seed) is int


def test_each_request_has_a_sampling_seed_of_its_own() -> None:
    assert len(set(seeds(build_workload(WorkloadConfig(requests=1000))))) == 1000


def test_a_shorter_workload_is_not_a_prefix_by_accident_but_its_draws_are() -> None:
    # Arrivals and sampling seeds come one by one from their generators, so that more requests only add to them.
    few, many = (
        build_workload(WorkloadConfig(requests=4, arrival="poisson:1")),
        build_workload(WorkloadConfig(requests=8, arrival="poisson:1")),
    )
    assert arrivals_s(many)[:4] == arrivals_s(few)
    assert seeds(many)[:4] == seeds(few)


def test_a_workload_may_be_empty() -> None:
    empty = build(requests=0, budget="64")
    assert empty.requests == ()
    assert len(empty.digest) == 16


def test_a_digest_is_sixteen_hexadecimal_characters() -> None:
    assert len(build().digest) == 16
    assert int(build().digest, 16) >= 0


def test_two_ways_to_say_the_same_have_one_digest() -> None:
    assert build(budget=" 8x32 + 8x256").digest == build().digest
    assert build(prompts="p16:1,p64:1.0").digest == build().digest


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": ExactPrompt(tokens=17, passage=0)},
        {"prompt": ExactPrompt(tokens=16, passage=1)},
        {"budget_tokens": 33},
        {"ignore_eos": False},
        {"arrival_s": 1e-9},
        {"sampling_seed": 1},
        {"request_id": 99},
    ],
    ids=str,
)
def test_any_change_of_any_request_changes_the_digest(change: dict[str, object]) -> None:
    first = replace(
        build().requests[0],
        prompt=ExactPrompt(tokens=16, passage=0),
        budget_tokens=32,
        ignore_eos=True,
        arrival_s=0.0,
        sampling_seed=0,
    )
    workload = replace(build(), requests=(first,))
    changed = replace(workload, requests=(replace(first, **change),))  # type: ignore[arg-type]
    assert changed.digest != workload.digest


def test_order_changes_the_digest() -> None:
    workload = build()
    assert replace(workload, requests=workload.requests[::-1]).digest != workload.digest


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"prompts": "p0"}, "prompts 'p0': use lengths"),
        ({"budget": "9x32"}, "budget '9x32' counts 9 requests, the workload has 16"),
        ({"budget": "none"}, "budget 'none': use 64"),
        ({"arrival": "soon"}, "arrival 'soon': use closed"),
    ],
)
def test_what_cannot_be_built_is_refused_in_one_clear_line(change: dict[str, object], line: str) -> None:
    with pytest.raises(ValueError, match=line) as refused:
        build(**change)
    assert "\n" not in str(refused.value)


def test_rescaled_arrivals_change_the_times_alone() -> None:
    """Seed 3 draws 14 arrivals of poisson:2 at 3.49 requests/s; 13 gaps at 2 requests/s take 6.5 s."""
    drawn = build_workload(WorkloadConfig(requests=14, arrival="poisson:2", seed=3)).requests
    exact = build_workload(WorkloadConfig(requests=14, arrival="poisson:2", seed=3, rescale_arrivals=True)).requests
    assert 13 / (drawn[-1].arrival_s - drawn[0].arrival_s) == pytest.approx(3.49, abs=0.005)
    assert exact[-1].arrival_s - exact[0].arrival_s == pytest.approx(6.5)
    ratios = [new.arrival_s / old.arrival_s for old, new in zip(drawn, exact, strict=True)]
    assert ratios == pytest.approx([ratios[0]] * 14)
    assert [replace(spec, arrival_s=0.0) for spec in exact] == [replace(spec, arrival_s=0.0) for spec in drawn]
