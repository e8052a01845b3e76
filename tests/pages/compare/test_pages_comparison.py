"""Comparisons by hand-computed values: names, mismatches, the difference table, equal answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb
import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.form_rule import FormRule
from pages.parts.compare.answers import agreement_text
from pages.parts.compare.compared_run import ComparedRun
from pages.parts.compare.differences import differences, verdict
from pages.parts.compare.settings import Setting, mismatches, setting_of, workload_text
from pages.parts.runs.run_text import run_names
from pages.parts.shared.metric_text import METRIC_BY_NAME, metric_text
from store.queries.agreement import Agreement
from store.queries.agreement import agreement as compare_tokens
from tests.support.no_break import nb

SETTING = Setting(digest="aa", workload="8 requests", model="m", dtype="float32", device="cpu", simulated=False)


def compared(name: str, status: str = "completed", **metrics: float | int | None) -> ComparedRun:
    return ComparedRun(name=name, status=status, arrival="closed", requests=8, metrics=metrics)


Tokens = list[tuple[int, int, int]]


def tokens(*answers: tuple[int, list[int]]) -> Tokens:
    return [(request, index, token) for request, ids in answers for index, token in enumerate(ids)]


def agreement(first: Tokens, second: Tokens, *, as_far_as_both: bool = False) -> Agreement:
    """The store's own comparison, over a table that holds the tokens of two runs and of a third."""
    with duckdb.connect() as database:
        database.execute(
            "CREATE TABLE tokens (run_id VARCHAR, request_id INTEGER, token_index INTEGER, token_id INTEGER)"
        )
        rows = [("a", *row) for row in first] + [("b", *row) for row in second] + [("c", 0, 0, 99), ("c", 77, 0, 1)]
        database.executemany("INSERT INTO tokens VALUES (?, ?, ?, ?)", rows)
        return compare_tokens(database, "a", "b", as_far_as_both=as_far_as_both)


def test_a_pair_is_named_by_its_engines() -> None:
    assert run_names([RunConfig(engine="static"), RunConfig(engine="continuous")]) == ("static", "continuous")


def test_runs_of_one_engine_are_named_by_what_differs() -> None:
    configs = [RunConfig(engine="static", slots=4), RunConfig(engine="static", slots=8), RunConfig()]
    assert run_names(configs) == ("static, 4 slots", "static, 8 slots", "continuous")
    full = FormRule(rule="full")
    assert run_names([RunConfig(engine="static"), RunConfig(engine="static", form=full)]) == (
        "static, form arrived",
        "static, form full",
    )


def test_repeats_get_numbers() -> None:
    assert run_names([RunConfig(), RunConfig(), RunConfig(slots=1)]) == (
        "continuous, 4 slots, run 1",
        "continuous, 4 slots, run 2",
        "continuous, 1 slot",
    )


def test_runs_are_named_by_their_workload() -> None:
    two = [RunConfig(workload=WorkloadConfig(seed=seed)) for seed in (0, 7)]
    assert run_names(two) == ("continuous, seed 0", "continuous, seed 7")


def test_equal_settings_may_be_compared() -> None:
    assert mismatches([SETTING, SETTING, SETTING]) == ()


@pytest.mark.parametrize(
    ("field", "value", "what", "values"),
    [
        ("digest", "bb", "workload", ("8 requests", "8 requests")),
        ("model", "big", "model", ("m", "big")),
        ("dtype", "bfloat16", "dtype", ("float32", "bfloat16")),
        ("device", "NVIDIA H200", "device", ("cpu", "NVIDIA H200")),
        ("simulated", True, "kind of run", ("measured", "simulated")),
    ],
)
def test_each_bar(field: str, value: object, what: str, values: tuple[str, str]) -> None:
    (mismatch,) = mismatches([SETTING, replace(SETTING, **{field: value})])
    assert (mismatch.what, mismatch.values) == (what, values)


def test_the_setting_is_read_from_run_json() -> None:
    info = {
        "workload": {"digest": "0123456789abcdef", "requests": 8, "prompts": "chat", "budget": "8-48", "seed": 3},
        "model": {"name": "smollm2-135m", "dtype": "float32"},
        "device": {"kind": "cpu", "name": "A CPU"},
        "simulated": False,
    }
    setting = setting_of(info)
    assert (setting.digest, setting.model, setting.dtype) == ("0123456789abcdef", "smollm2-135m", "fp32")
    assert setting.device == "A CPU"
    assert setting.workload == "8 requests, prompts chat, budget 8-48, seed 3 (digest 012345)"
    assert setting_of({}).digest == "unknown"
    assert workload_text({"requests": 1}) == "1 request"


@pytest.mark.parametrize(
    ("info", "block_size"),
    [
        ({"engine": "paged", "block_size": 32, "config": {"block_size": 16}}, 32),
        ({"engine": "paged", "config": {"block_size": 16}}, 16),
        ({"engine": "static", "kv_layout": "padded", "block_size": None, "config": {"block_size": 16}}, None),
        ({"engine": "jet", "kv_layout": "pages", "block_size": 8}, 8),
        ({"engine": "jet", "config": {"block_size": 16}}, None),
    ],
)
def test_the_block_size_of_a_run(info: dict[str, Any], block_size: int | None) -> None:
    assert setting_of(info).block_size == block_size


def test_a_ratio_is_the_other_over_the_first() -> None:
    first, second = compared("static", output_tokens_per_s=40.0), compared("continuous", output_tokens_per_s=60.0)
    (row,) = differences([first, second], ["output_tokens_per_s"])
    assert (row.first_text, row.others[0].text) == (nb("40.0 tokens/s"), nb("60.0 tokens/s"))
    assert row.others[0].ratio == pytest.approx(1.5)
    assert (row.others[0].ratio_text, row.others[0].verdict) == ("1.50x", "better")


def test_lower_is_better_where_the_metric_says_so() -> None:
    first, second = compared("static", ttft_p50_s=0.5), compared("continuous", ttft_p50_s=1.0)
    (row,) = differences([first, second], ["ttft_p50_s"])
    assert (row.others[0].ratio, row.others[0].verdict) == (2.0, "worse")


def test_zero_dead_slots_are_better_and_a_ratio_to_zero_is_none() -> None:
    some, none = compared("static", dead_fraction=0.4375), compared("continuous", dead_fraction=0.0)
    assert differences([some, none], ["dead_fraction"])[0].others[0].ratio_text == "none"
    assert differences([some, none], ["dead_fraction"])[0].others[0].verdict == "better"
    (row,) = differences([none, some], ["dead_fraction"])
    assert (row.others[0].ratio, row.others[0].ratio_text, row.others[0].verdict) == (None, "–", "worse")


def test_a_tiny_ratio_is_not_written_out() -> None:
    long, short = compared("static", queue_wait_p50_s=20.0), compared("continuous", queue_wait_p50_s=0.00005)
    assert differences([long, short], ["queue_wait_p50_s"])[0].others[0].ratio_text == "under 0.001x"


def test_missing_values_are_dashes_and_rows_without_any_value_are_left_out() -> None:
    whole, streamed = compared("static", itl_p50_s=None, duration_s=2.0), compared("continuous", itl_p50_s=0.05)
    rows = differences([whole, streamed], ["itl_p50_s", "duration_s", "tpot_p50_s"])
    assert [row.metric.name for row in rows] == ["itl_p50_s", "duration_s"]
    assert (rows[0].first_text, rows[0].others[0].ratio_text, rows[0].others[0].verdict) == ("–", "–", "")
    assert (rows[1].others[0].text, rows[1].others[0].ratio) == ("–", None)


def test_nan_is_missing_too() -> None:
    (row,) = differences([compared("a", ttft_p50_s=1.0), compared("b", ttft_p50_s=float("nan"))], ["ttft_p50_s"])
    assert (row.others[0].text, row.others[0].ratio, row.others[0].verdict) == ("–", None, "")


@pytest.mark.parametrize(
    ("name", "base", "value", "text"),
    [
        ("output_tokens_per_s", 100.0, 101.9, "about equal"),
        ("output_tokens_per_s", 100.0, 103.0, "better"),
        ("output_tokens_per_s", 100.0, 97.0, "worse"),
        ("passes", 1000, 1001, "worse"),
        ("passes", 1000, 999, "better"),
        ("passes", 1000, 1000, "equal"),
        ("prefill_share", 0.2, 0.4, ""),
        ("ttft_p50_s", 0.0, 0.0, "equal"),
    ],
)
def test_verdicts(name: str, base: float, value: float, text: str) -> None:
    assert verdict(METRIC_BY_NAME[name], base, value) == text


def test_a_run_that_did_not_complete_is_neither_better_nor_worse() -> None:
    done, stopped = compared("static", passes=60), compared("continuous", "stopped", passes=12)
    (row,) = differences([done, stopped], ["passes"])
    assert (row.others[0].text, row.others[0].ratio, row.others[0].verdict) == ("12", None, "")


def test_several_runs_are_compared_with_the_first() -> None:
    runs = [compared(name, duration_s=value) for name, value in (("serial", 8.0), ("static", 4.0), ("continuous", 2.0))]
    (row,) = differences(runs, ["duration_s"])
    assert [other.ratio for other in row.others] == [0.5, 0.25]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("ttft_p50_s", 0.05213, nb("52.1 ms")),
        ("dead_fraction", 0.4375, nb("43.8 %")),
        ("peak_memory_bytes", 3 * 2**30, nb("3.00 GiB")),
        ("slot_steps", 4096, "4,096"),
        ("output_tokens_per_s", 312.4, nb("312 tokens/s")),
        ("kv_reserved_position_s", 1234.5, "1,230\u00a0position-seconds"),
        ("ttft_p50_s", None, "–"),
    ],
)
def test_values_are_written_by_their_unit(name: str, value: float | None, text: str) -> None:
    assert metric_text(METRIC_BY_NAME[name], value) == text


def test_equal_tokens() -> None:
    found = agreement(tokens((0, [5, 6, 7]), (1, [8])), tokens((1, [8]), (0, [5, 6, 7])))
    assert (found.requests, found.equal, found.tokens, found.is_full) == (2, 2, 4, True)
    assert agreement_text("static", "continuous", found) == (
        "static and continuous gave the same answers: all 4 tokens of 2 requests are equal."
    )


def test_the_first_differing_token_is_found() -> None:
    found = agreement(tokens((0, [5, 6, 7, 9]), (1, [8, 8])), tokens((0, [5, 6, 1, 9]), (1, [8, 8])))
    assert (found.equal, found.first_apart, found.is_full) == (1, {0: 2}, False)
    assert agreement_text("a", "b", found) == (
        "1 of 2 answers of a and b are equal token for token; request 0 first differs at token 3."
    )


def test_an_answer_that_ends_earlier_differs_unless_its_run_was_cut_off() -> None:
    full, cut = tokens((0, [5, 6, 7]), (1, [4])), tokens((0, [5, 6]))
    strict = agreement(full, cut)
    assert (strict.first_apart, strict.only_in_one, strict.is_full) == ({0: 2}, 1, False)
    lenient = agreement(full, cut, as_far_as_both=True)
    assert (lenient.first_apart, lenient.only_in_one, lenient.tokens) == ({}, 0, 2)
    assert "as far as both got: all 2 tokens of 1 request" in agreement_text("a", "b", lenient, as_far_as_both=True)


def test_runs_without_tokens_have_no_answer_in_common() -> None:
    found = agreement(tokens(), tokens((0, [1])))
    assert (found.requests, found.is_full) == (0, False)
    assert "answered no request in common" in agreement_text("a", "b", found)


def test_an_infinite_value_has_no_ratio_and_no_tie() -> None:
    (row,) = differences([compared("a", e2e_p50_s=2.0), compared("b", e2e_p50_s=float("inf"))], ["e2e_p50_s"])
    assert (row.others[0].text, row.others[0].ratio, row.others[0].verdict) == ("∞", None, "worse")
    (row,) = differences([compared("a", e2e_p50_s=float("inf")), compared("b", e2e_p50_s=2.0)], ["e2e_p50_s"])
    assert (row.first_text, row.others[0].ratio, row.others[0].verdict) == ("∞", None, "better")
    both = [compared(name, e2e_p50_s=float("inf")) for name in "ab"]
    assert differences(both, ["e2e_p50_s"])[0].others[0].verdict == "equal"
