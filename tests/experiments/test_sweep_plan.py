"""The plan of a sweep: grid, order, and the uniform control of a ragged batch."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.errors import FieldError
from engine.core.request import ExactPrompt
from engine.experiments.experiment import Plan
from engine.experiments.sweep_plan import parse_batch_sizes, parse_prompt_grid, plan_sweep
from engine.workload.workload import build_workload

FIVE = "p16,p64,p256,p1024,p4096"


def plan(budget: str = "256", *, base: RunConfig | None = None, **asked: Any) -> Plan:
    base = base or RunConfig(engine="static", slots=1, workload=WorkloadConfig(budget=budget, seed=0))
    return plan_sweep(base, experiment_id="e", created_at="now", **{"prompts": None, "batch_sizes": "1,2"} | asked)


def test_a_point_is_one_closed_uniform_batch() -> None:
    """In the given order: all batch sizes of the first prompt length, then of the next."""
    made = plan(prompts="p64,p16", batch_sizes="4,1")
    assert [point.key for point in made.points] == ["static/p64/b4", "static/p64/b1", "static/p16/b4", "static/p16/b1"]
    first = made.points[0]
    assert first.values == {
        "engine": "static", "prompts": "p64", "prompt_tokens": 64, "batch_size": 4, "role": "point",
    }  # fmt: skip
    workload = first.config.workload
    assert (first.config.slots, workload.requests, workload.arrival, workload.prompts) == (4, 4, "closed", "p64")
    assert {(r.budget_tokens, r.arrival_s) for r in build_workload(workload).requests} == {(256, 0.0)}


def test_repeats_are_interleaved_over_the_whole_grid() -> None:
    made = plan(prompts="p16", repeats=2)
    assert [(p.values["batch_size"], p.repeat) for p in made.points] == [(1, 0), (2, 0), (1, 1), (2, 1)]


def test_a_uniform_batch_has_one_output_length() -> None:
    """The largest of the workload, so that all rows end at the same step."""
    budgets = {spec: plan(spec, prompts="p16").points[0].config.workload.budget for spec in ("64-256", "7", "eos:9")}
    assert budgets == {"64-256": "256", "7": "7", "eos:9": "eos:9"}
    assert plan("8x32+8x200", prompts="p16", batch_sizes="3").points[0].config.workload.budget == "200"


def test_a_ragged_batch_has_a_uniform_control_of_its_width() -> None:
    """32 rows over five lengths: in the control all have the longest prompt, 4,096, and the largest budget."""
    made = plan("64-256", mix=FIVE, batch_sizes="8,32")
    assert [(p.values["role"], p.values["batch_size"]) for p in made.points] == [
        ("ragged", 8), ("control", 8), ("ragged", 32), ("control", 32),
    ]  # fmt: skip
    ragged, control = (build_workload(point.config.workload).requests for point in made.points[2:])
    lengths = [r.prompt.tokens for r in ragged if isinstance(r.prompt, ExactPrompt)]
    assert len(lengths) == len(control) == 32
    assert set(lengths) == {16, 64, 256, 1024, 4096}
    assert all(64 <= r.budget_tokens <= 256 for r in ragged)
    assert {(r.prompt.tokens, r.budget_tokens) for r in control if isinstance(r.prompt, ExactPrompt)} == {(4096, 256)}
    assert [p.values["prompt_tokens"] for p in made.points] == [4096] * 4


def test_the_control_is_as_wide_as_the_longest_drawn_prompt() -> None:
    """One row of a mix of mostly p16 draws p16, so the control has p16 too."""
    ragged, control = plan(mix="p16:3,p64:1", batch_sizes="1").points
    assert ragged.values["prompt_tokens"] == 16
    assert control.config.workload.prompts == "p16"


def test_a_grid_and_a_mix_go_together() -> None:
    made = plan("64-256", prompts="p4096", mix=FIVE, batch_sizes="8")
    grid, _, control = made.points
    assert grid.config == control.config
    assert grid.key != control.key
    assert made.settings == {"prompts": "p4096", "mix": FIVE, "batch_sizes": [8], "repeats": 1}


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"prompts": None}, "name prompt lengths"),
        ({"prompts": "chat"}, "use lengths in tokens as p16,p64"),
        ({"prompts": "p16:3,p64:1"}, "use lengths in tokens as p16,p64"),
        ({"prompts": "p16,p16"}, "16 is named twice"),
        ({"prompts": "p16", "batch_sizes": "1,two"}, "batch size 'two'"),
        ({"prompts": "p16", "batch_sizes": "0"}, "batch size '0'"),
        ({"prompts": "p16", "batch_sizes": "9999"}, "from 1 to 4,096"),
        ({"prompts": "p16", "batch_sizes": "2,2"}, "2 is named twice"),
        ({"prompts": "p16", "repeats": 0}, "repeats 0"),
        ({"prompts": "p16", "repeats": 1000, "batch_sizes": "1,2,3"}, "3,000 points"),
        ({"mix": "chat"}, "mix 'chat'"),
    ],
)
def test_invalid_sweeps_get_one_line(asked: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refused:
        plan(**asked)
    assert "\n" not in str(refused.value)


def test_too_many_points_are_an_error_about_a_field_of_the_form() -> None:
    with pytest.raises(FieldError) as refused:
        plan(prompts="p16", repeats=1000, batch_sizes="1,2,3")
    assert refused.value.field == "batch_size"


def test_a_budget_that_does_not_fit_the_rows_is_refused_before_any_run() -> None:
    with pytest.raises(ValueError, match="counts 16 requests, the workload has 8"):
        plan("8x32+8x256", mix="p16,p64", batch_sizes="8")
    with pytest.raises(ValueError, match="max-num-batched-tokens 4"):
        plan(prompts="p16", batch_sizes="8", base=RunConfig(engine="chunked", slots=1, max_num_batched_tokens=4))


def test_lists_keep_their_order() -> None:
    assert parse_batch_sizes(" 8, 1,4 ") == (8, 1, 4)
    assert parse_prompt_grid("p64, p16") == (64, 16)
