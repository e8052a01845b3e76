"""What the pages of experiments share: labels, point names, time estimates, and plans from a form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from engine.core.config import RunConfig, WorkloadConfig
from pages.parts.experiments.description import done_text, experiment_label, experiment_name, point_text
from pages.parts.experiments.estimate import OVERHEAD_S, PassTimes, duration_text, fit_times
from pages.parts.experiments.form import named
from pages.parts.sweep.form import FIELDS, machine_text, plan_text, read_sweep
from tests.support.no_break import nb

ROW = {"kind": "sweep", "label": "static, p16", "created_at": "someday", "points": 12, "done": 12, "is_open": False}


def form(**changes: Any) -> dict[str, Any]:
    """The form's default values."""
    return {name: field.default for name, field in FIELDS.items()} | changes


def problems(**changes: Any) -> dict[str, str]:
    settings = read_sweep(form(**changes))
    assert settings.plan is None
    return dict(settings.problems)


def test_the_label_of_an_experiment_has_its_progress() -> None:
    assert experiment_label(ROW) == "someday  static, p16, 12 points"
    assert experiment_label(ROW | {"kind": "repeats", "done": 3}) == "someday  static, p16, 3 of 12 runs, interrupted"
    assert experiment_label(ROW | {"done": 3}) == "someday  static, p16, 3 of 12 points, interrupted"
    assert experiment_label(ROW | {"done": 3, "is_open": True}) == "someday  static, p16, 12 points, running"
    assert experiment_label(ROW | {"done": 3}, is_live=True) == "someday  static, p16, 12 points, running"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "All 12 points done"),
        ({"kind": "repeats"}, "All 12 runs done"),
        ({"done": 9, "oom": 1}, "9 of 12 points done, 1 out of memory"),
        (
            {"done": 9, "oom": 2, "failed": 1, "stopped": 1},
            "9 of 12 points done, 2 out of memory, 1 failed and 1 stopped",
        ),
        ({"points": 1, "done": 1}, "The one point is done"),
        ({"points": float("nan"), "done": None}, "All 0 points done"),
    ],
)
def test_the_progress_of_an_experiment_has_its_failures(changes: dict[str, Any], words: str) -> None:
    assert done_text(ROW | changes) == words


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"engine": "static", "prompts": "p64", "batch_size": 8, "role": "point"}, "static, p64, B = 8"),
        ({"engine": "static", "prompts": "p64", "batch_size": 8, "role": "control"}, "static, p64, B = 8, control"),
        ({"engine": "continuous", "rate_per_s": 2.0, "role": "rate"}, nb("continuous, 2 requests/s")),
        ({"engine": "continuous", "rate_per_s": None, "role": "saturation"}, "continuous, all at once"),
        ({"config": "p256:8", "timing": "async"}, "p256:8, async"),
        ({}, ""),
    ],
)
def test_a_point_by_its_values(values: dict[str, Any], words: str) -> None:
    assert point_text(values).replace("\\", "") == words


def test_the_default_form_is_a_plan() -> None:
    plan = read_sweep(form()).plan
    assert plan is not None
    assert [(p.values["prompts"], p.values["batch_size"]) for p in plan.points] == [
        (prompts, size) for prompts in ("p16", "p64") for size in (1, 2, 4, 8, 16)
    ]
    assert {point.config.engine for point in plan.points} == {"static"}
    assert plan_text(plan) == "10 runs: 2 prompt lengths x 5 batch sizes."
    assert "32 output tokens per request" in machine_text(plan).replace("\\", "")


def test_repeats_a_mix_and_caps_are_in_the_plan_and_its_text() -> None:
    plan = read_sweep(form(prompts="p16", batch_size="1,4", mix="p16,p64", repeats=3, pool_gib=0.5)).plan
    assert plan is not None
    assert len(plan.points) == 3 * (2 + 4)
    assert plan_text(plan) == (
        "18 runs: 1 prompt length x 2 batch sizes and 2 ragged batches with their controls, each 3 times, interleaved."
    )
    assert nb("KV pool capped at 0.5 GiB") in machine_text(plan).replace("\\", "")
    assert {point.config.pool_gib for point in plan.points} == {0.5}
    alone = read_sweep(form(prompts="", batch_size="4", mix="p16,p64")).plan
    assert alone is not None
    assert plan_text(alone) == "2 runs: 1 ragged batch with its control."


def test_each_start_is_a_new_experiment() -> None:
    plan = read_sweep(form()).plan
    assert plan is not None
    one, other = named(plan), named(plan)
    assert one.experiment_id != other.experiment_id
    assert one.created_at
    assert one.points == plan.points


@pytest.mark.parametrize(
    ("changes", "field", "line"),
    [
        ({"prompts": "p0"}, "prompts", "p0"),
        ({"prompts": "chat"}, "prompts", "use lengths in tokens as p16,p64"),
        ({"prompts": "p16:3,p64:1"}, "prompts", "weights belong in the mix"),
        ({"prompts": ""}, "prompts", "name prompt lengths"),
        ({"batch_size": "1,x"}, "batch_size", "batch size 'x'"),
        ({"batch_size": "4,4"}, "batch_size", "named twice"),
        ({"budget": "lots"}, "budget", "budget 'lots'"),
        ({"prompts": "foo"}, "prompts", "prompts 'foo': use lengths in tokens as p16,p64"),
        ({"mix": "chat"}, "mix", "mix 'chat': use lengths as p16,p64, or with weights as p16:3,p4096:1"),
        ({"model": " "}, "model", "model: name one, or a folder or hub id"),
        (
            {"engine": "chunked", "batch_size": "1,16", "max_num_batched_tokens": 8},
            "max_num_batched_tokens",
            "raise it",
        ),
    ],
)
def test_a_problem_belongs_to_its_field(changes: dict[str, Any], field: str, line: str) -> None:
    found = problems(**changes)
    assert line in found[field]


def passes(rows: list[tuple[str, int, int, int, float]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["kind", "rows", "computed_positions", "prompt_tokens", "seconds"])


def test_pass_times_are_a_linear_fit_of_measured_passes() -> None:
    """Decode passes of 10 ms, 1 ms a row and 1 µs a position; prefills of 5 ms and 0.1 ms a token."""
    decode = [("decode", n, at, 0, 0.010 + 0.001 * n + 1e-6 * at) for n, at in ((1, 100), (2, 500), (4, 300), (8, 900))]
    prefill = [("prefill", n, t, t, 0.005 + 1e-4 * t) for n, t in ((1, 16), (4, 64), (8, 400))]
    known = fit_times(passes(decode + prefill), runs=2)
    assert known is not None
    found = (known.decode_s, known.row_s, known.position_s, known.prefill_s, known.prompt_token_s)
    assert found == pytest.approx((0.010, 0.001, 1e-6, 0.005, 1e-4))
    assert (known.most_rows, known.runs) == (8, 2)


def test_a_fit_has_no_negative_factor() -> None:
    decode = [("decode", n, 100, 0, 0.020 - 0.001 * n) for n in (1, 2, 4)]
    known = fit_times(passes([*decode, ("prefill", 1, 16, 16, 0.01)]), runs=1)
    assert known is not None
    assert known.row_s == 0
    assert known.decode_s == pytest.approx(0.020 - 0.007 / 3)  # the mean is left
    assert fit_times(passes(decode), runs=1) is None


def test_an_estimate_adds_prefill_decode_and_warm_up() -> None:
    """4 rows of 16 tokens, budget 11: a prefill of 64 tokens, 10 decode passes; warm-up has 3 of them."""
    known = PassTimes(decode_s=0.1, row_s=0.01, position_s=0, prefill_s=0.2, prompt_token_s=0.001, most_rows=4, runs=1)
    config = RunConfig(
        engine="static", slots=4, workload=WorkloadConfig(prompts="p16", requests=4, budget="11"), warmups=0
    )
    prefill_s, decode_s = 0.2 + 0.064, 0.14
    assert known.run_s(config) == pytest.approx(OVERHEAD_S + prefill_s + 10 * decode_s)
    warmed = replace(config, warmups=1)
    assert known.run_s(warmed) == pytest.approx(OVERHEAD_S + 2 * prefill_s + 13 * decode_s)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3, nb("10 s or less")), (44, nb("40 s")), (89, nb("90 s")), (600, nb("10 min")), (9000, nb("2.5 h"))],
)
def test_a_duration_is_no_more_exact_than_an_estimate(seconds: float, words: str) -> None:
    assert duration_text(seconds) == words


@pytest.mark.parametrize(
    ("kind", "label", "name"),
    [
        ("sweep", "static, p16", "sweep: static, p16"),
        ("repeats", "3 repeats", "3 repeats"),
        ("load", "payload of p64", "load: payload of p64"),  # a part of a word says no kind
        ("load", "load of p64", "load of p64"),
        ("pair", " ", "pair"),
        (None, None, ""),
    ],
)
def test_an_experiments_name_says_its_kind_once(kind: object, label: object, name: str) -> None:
    assert experiment_name(kind, label) == name
