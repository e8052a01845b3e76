"""Bench before a run: plans of hand-counted schedules, links, settings, texts, prompt files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from engine.core.config import RunConfig, SamplingConfig, WorkloadConfig
from engine.core.form_rule import FormRule
from engine.core.presets import ENGINES
from pages.parts.bench.instrument import mix_of
from pages.parts.bench.memory import known_position_bytes
from pages.parts.bench.plan import make_plan, num_plannable, plan_of
from pages.parts.bench.planned import plan_caption, plan_notes, plan_table
from pages.parts.bench.settings import NO_FILE, read_settings
from pages.parts.bench.workload_text import (
    arrival_text,
    form_text,
    mix_text,
    workload_sentence,
)
from pages.parts.shared.fields import FIELDS, complaints, query_of
from pages.parts.shared.workloads import budget_text, workload_of
from tests.support.no_break import nb
from tests.support.page_app import open_page, words

ARRIVALS = "closed, poisson:R, constant:R or gamma:R:CV, as poisson:2.5"
LONG_AND_SHORT = WorkloadConfig(prompts="p16", requests=16, budget="8x32+8x256")


def values(**changed: Any) -> dict[str, Any]:
    return {name: field.default for name, field in FIELDS.items()} | changed


def run(engine: str, workload: WorkloadConfig, slots: int = 4) -> RunConfig:
    return RunConfig(engine=engine, slots=slots, workload=workload)


def test_a_static_batch_runs_to_its_longest_member() -> None:
    """16 rows for 256 steps: 4,096 slot-steps, of which 8 x 32 + 8 x 256 = 2,304 give a token someone waits for."""
    plan = plan_of(run("static", LONG_AND_SHORT, slots=16))
    assert (plan.basis, plan.requests, plan.output_tokens, plan.prompt_tokens) == ("exact", 16, 2304, 256)
    assert (plan.num_steps, plan.kind("prefill"), plan.kind("decode")) == (256 - 1, 1, 255)
    assert (plan.slot_steps, plan.dead_slot_steps) == (4096, 1792)


def test_continuous_computes_nothing_for_finished_requests() -> None:
    plan = plan_of(run("continuous", LONG_AND_SHORT, slots=16))
    assert (plan.slot_steps, plan.dead_slot_steps, plan.num_passes) == (2304, 0, 256)


def test_two_batches_of_equal_requests() -> None:
    """3 requests of 4 tokens in 2 slots. Batches of 2 and 1: a prefill and 3 decodes each, two in one step."""
    plan = plan_of(run("static", WorkloadConfig(prompts="p8", requests=3, budget="4"), slots=2))
    assert (plan.kind("prefill"), plan.kind("decode"), plan.num_steps, plan.slot_steps) == (2, 6, 6, 12)


def test_serial_takes_one_at_a_time() -> None:
    plan = plan_of(run("serial", WorkloadConfig(prompts="p8", requests=3, budget="2"), slots=8))
    assert (plan.kind("prefill"), plan.kind("decode"), plan.num_steps, plan.slot_steps) == (3, 3, 3, 6)


def test_a_plan_says_what_it_cannot_know() -> None:
    arriving = plan_of(run("static", WorkloadConfig(arrival="poisson:2")))
    assert (arriving.basis, arriving.num_passes, arriving.slot_steps) == ("unknown", None, None)
    until_eos = plan_of(run("static", WorkloadConfig(prompts="p8", requests=2, budget="eos:5")))
    assert (until_eos.basis, until_eos.output_tokens, until_eos.num_passes) == ("at most", 10, 5)
    chat = plan_of(run("static", WorkloadConfig()))
    assert chat.prompt_tokens is None


def test_texts_of_the_plan() -> None:
    configs = [run(engine, LONG_AND_SHORT, 16) for engine in ("static", "continuous")]
    rows = [(config, plan_of(config)) for config in configs]
    table = plan_table(rows)
    assert nb("| static | 256 = 1 prefill + 255 decode | 1,792 (43.8 %) | none |") in table
    assert "| continuous | 256 = 1 prefill + 255 decode | none | none |" in table
    assert "256 forward passes" in plan_caption(rows)
    assert plan_notes(rows, "").startswith("Passes and slot-steps are exact: the engines' own schedulers")
    assert workload_sentence(rows[0][0], workload_of(LONG_AND_SHORT)) == (
        "16 requests with a prompt of exactly 16 tokens, 32 to 256 new tokens each, 2,304 in total. "
        "All requests arrive at once."
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (budget_text("64"), "Every request gets exactly 64 new tokens; an end of sequence is ignored."),
        (budget_text("8-48"), "8 to 48 new tokens per request, drawn evenly; an end of sequence is ignored."),
        (budget_text("1x1+2x256"), "1 request of 1 token, 2 requests of 256 tokens, in random order (by the seed)."),
        (budget_text("eos:200"), "Until the model ends its answer, at most 200 tokens."),
        (arrival_text("constant:4"), nb("One request every 250 ms.")),
        (arrival_text("gamma:2:4"), "2.00 per second on average, in bursts (coefficient of variation 4.00)."),
        (mix_text("p16:3,p4096:1"), nb("Real text cut to exactly: 16 tokens 75.0 %, 4,096 tokens 25.0 %.")),
        (
            form_text("full", "closed"),
            "All requests arrive at once: every batch is full, except perhaps the last.",
        ),
        (
            form_text("arrived", "poisson:1"),
            "When the engine is free, the waiting requests form a batch, up to all slots.",
        ),
    ],
)
def test_texts_of_fields(words: str, expected: str) -> None:
    assert words == expected


def test_the_defaults_are_the_configs_own() -> None:
    settings = read_settings(values(), ())
    assert settings.problems == {}
    assert settings.config == RunConfig()
    assert settings.pair == (RunConfig(engine="static"), RunConfig(engine="continuous"))


def test_the_pair_keeps_what_only_static_can_use() -> None:
    settings = read_settings(values(form="timeout", timeout=2.5, **{"return": "whole"}), ())
    assert settings.config == RunConfig()
    assert settings.pair is not None
    static, continuous = settings.pair
    assert (static.form, static.returns) == (FormRule(rule="timeout", timeout_s=2.5), "whole")
    assert (continuous.form, continuous.returns) == (FormRule(), "stream")


@pytest.mark.parametrize(
    ("changed", "field", "message"),
    [
        ({"budget": "zz"}, "budget", "budget 'zz': use 64, 64-256, 8x32+8x256, eos or eos:200"),
        ({"budget": ""}, "budget", "budget '': use 64, 64-256, 8x32+8x256, eos or eos:200"),
        ({"budget": "48-8"}, "budget", "budget '48-8': the range runs backward; use 8-48"),
        ({"budget": "3x8"}, "budget", "budget '3x8' counts 3 requests, the workload has 8: make them equal"),
        ({"arrival": "often"}, "arrival", "arrival 'often': use " + ARRIVALS),
        ({"prompts": "lengths", "mix": "p0"}, "mix", "prompts 'p0': use lengths of 1 to 131,072 tokens, as p64"),
        ({"prompts": "file"}, "file", NO_FILE),
        ({"model": "  "}, "model", "model: name one, or a folder or hub id; `models` lists the names"),
        ({"model": None}, "model", "model: name one, or a folder or hub id; `models` lists the names"),
    ],
)
def test_a_problem_is_one_line_at_its_field(changed: dict[str, Any], field: str, message: str) -> None:
    settings = read_settings(values(**changed), ())
    assert (settings.config, settings.pair) == (None, None)
    assert settings.problems == {field: message}


def test_every_text_problem_is_shown_at_once() -> None:
    settings = read_settings(values(budget="x", arrival="y", prompts="lengths", mix="z"), ())
    assert sorted(settings.problems) == ["arrival", "budget", "mix"]


def test_a_link_with_good_values_has_no_complaint() -> None:
    assert complaints({"engine": "static", "slots": "32", "top_p": "0.9", "budget": "64", "job": "x"}) == []


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (
            "engine",
            "dance",
            f"engine 'dance': use one of {', '.join(ENGINES)}; continuous is used instead",
        ),
        ("slots", "0", "slots '0': use a whole number from 1 to 4,096; 4 is used instead"),
        ("slots", "4.5", "slots '4.5': use a whole number from 1 to 4,096; 4 is used instead"),
        ("requests", "many", "requests 'many': use a whole number from 1 to 100,000; 8 is used instead"),
        ("seed", "-1", "seed '-1': use a whole number from 0 to 4,294,967,295; 0 is used instead"),
        ("temperature", "nan", "temperature 'nan': use a number from 0 to 10; 0.0 is used instead"),
        ("top_p", "0", "top_p '0': use a number above 0, up to 1; 1.0 is used instead"),
        ("pool_gib", "-2", "pool_gib '-2': use a number above 0, up to 1,000,000; none is used instead"),
        ("return", "later", "return 'later': use one of stream, whole; stream is used instead"),
        ("form", "never", "form 'never': use one of arrived, full, timeout; arrived is used instead"),
        ("dtype", "int8", "dtype 'int8': use one of auto, fp32, bf16, fp16; auto is used instead"),
        ("prompts", "p16", "prompts 'p16': use one of chat, lengths, file; chat is used instead"),
    ],
)
def test_a_link_with_a_bad_value_gets_one_line(name: str, text: str, line: str) -> None:
    assert complaints({name: text}) == [line]


def test_a_run_and_its_link_are_the_same_settings() -> None:
    config = RunConfig(
        engine="static",
        model="tiny-random",
        slots=16,
        form=FormRule(rule="timeout", timeout_s=2.0),
        returns="whole",
        workload=WorkloadConfig(prompts="p16:3,p64:1", requests=12, budget="64", arrival="poisson:2", seed=7),
        sampling=SamplingConfig(temperature=0.7, top_k=40, top_p=0.9),
        warmups=2,
        pool_gib=1.5,
    )
    link = query_of(config)
    assert link["prompts"] == "lengths"
    assert complaints(link) == []
    read_back = values(**{name: _typed(name, text) for name, text in link.items()})
    assert read_settings(read_back, ()).config == config
    assert query_of(RunConfig()) == {}


def _typed(name: str, text: str) -> object:
    default = FIELDS[name].default
    if name in ("pool_gib", "capacity_gib") or isinstance(default, float):
        return float(text)
    return int(text) if isinstance(default, int) else text


def test_paged_takes_the_passes_of_continuous_batching() -> None:
    """A pool that is large enough changes nothing about who runs when."""
    slots, paged = (plan_of(run(engine, LONG_AND_SHORT, slots=3)) for engine in ("continuous", "paged"))
    assert (paged.num_passes, paged.slot_steps, paged.dead_slot_steps) == (slots.num_passes, slots.slot_steps, 0)


def test_a_chunked_plan_counts_chunks_and_mixed_passes() -> None:
    """Prompts of 10 and a step of 8: 8; then 2 + 6; then request 0 decodes beside the last 4; then one decode pass."""
    workload = WorkloadConfig(prompts="p10", requests=2, budget="2")
    config = RunConfig(engine="chunked", slots=2, max_num_batched_tokens=8, workload=workload)
    plan = plan_of(config)
    assert [plan.kind(kind) for kind in ("prefill", "mixed", "decode")] == [2, 1, 1]
    assert plan.slot_steps == 4
    assert "| chunked | 4 = 2 prefill + 1 decode + 1 mixed | none |" in plan_table([(config, plan)])


def test_chunks_of_text_prompts_are_estimated() -> None:
    rows = [(c, plan_of(c)) for c in (RunConfig(engine="chunked"), RunConfig(engine="static"))]
    assert [plan.basis for _, plan in rows] == ["estimated", "exact"]
    assert "prompts count one token per four characters" in plan_notes(rows, "")


def test_the_plans_timeline_counts_passes() -> None:
    """Two requests of 2 and 3 tokens in one batch: a prefill, then two decode passes; the short one is dead in one."""
    plan = plan_of(run("static", WorkloadConfig(prompts="p8", requests=2, budget="1x2+1x3"), slots=2))
    assert (plan.unit, plan.num_passes) == ("pass", 3)
    spans = plan.spans.sort_values(["lane", "start_step"])
    drawn = list(zip(spans["phase"], spans["start_step"], spans["end_step"], strict=True))
    assert sorted(drawn) == sorted(
        [("prefill", 0, 1), ("decode", 1, 3), ("prefill", 0, 1), ("decode", 1, 2), ("dead", 2, 3)]
    )
    assert plan.queue["step"].tolist() == [0, 1, 2, 3]


def test_a_small_pool_preempts_in_the_plan() -> None:
    """28 blocks for two requests of 16 blocks each: the younger one loses its blocks once."""
    workload = WorkloadConfig(prompts="p64", requests=2, budget="192")
    config = RunConfig(engine="paged", model="tiny-random", device="cpu", slots=2, workload=workload)
    whole = plan_of(config)
    assert whole.peak_kv_bytes is not None
    assert len(whole.preemptions) == 0
    small = plan_of(replace(config, pool_gib=0.85 * whole.peak_kv_bytes / 2**30))
    assert len(small.preemptions) >= 1
    assert (small.preemptions["step"] == small.preemptions["pass_index"]).all()


def test_of_many_requests_the_first_are_planned() -> None:
    config = run("continuous", WorkloadConfig(prompts="p16", requests=20_000, budget="64"), slots=64)
    workload = workload_of(config.workload)
    assert 1 < num_plannable(config, workload) < 1000
    plan = make_plan(config, workload)
    assert (plan.requests, plan.of_requests) == (num_plannable(config, workload), 20_000)
    assert plan.is_sampled
    assert plan_caption([(config, plan)]).startswith(f"The first {plan.requests} of 20,000 requests: Continuous needs")


def test_engines_are_planned_over_the_same_requests(home: Path) -> None:
    """Serial takes the simulator much longer than continuous, so alone it would plan fewer requests."""
    workload = WorkloadConfig(prompts="p16", requests=256, budget="200")
    alone = {name: num_plannable(run(name, workload, 64), workload_of(workload)) for name in ("serial", "continuous")}
    assert alone["serial"] < alone["continuous"]
    link = {"prompts": "lengths", "mix": "p16", "requests": "256", "budget": "200", "slots": "64"}
    text = words(open_page("bench", first="serial", **link))
    passes = alone["serial"] * 200  # a prefill and 199 decode passes each
    assert f"The first {alone['serial']} of 256 requests: Serial needs {passes:,} forward passes" in text


def test_a_mix_from_the_table_keeps_its_weights() -> None:
    rows = pd.DataFrame({"prompt tokens": [16, 1024, None], "weight": [0.5, 2.0, 1.0]})
    assert mix_of(rows) == "p16:0.5,p1024:2"
    assert mix_of(rows.assign(weight=3.0)) == "p16,p1024"
    assert mix_of(rows.head(0)) == ""


def test_one_run_a_layout_with_what_each_reads() -> None:
    settings = read_settings(values(form="full", block_size="32", max_num_batched_tokens=64, pool_gib=0.5), ())
    assert settings.layouts is not None
    assert [config.engine for config in settings.layouts] == ["static", "continuous", "paged", "chunked"]
    assert [config.form.rule for config in settings.layouts] == ["full", "arrived", "arrived", "arrived"]
    assert {(c.block_size, c.max_num_batched_tokens, c.pool_gib) for c in settings.layouts} == {(32, 64, 0.5)}
    assert settings.unavailable == {}


def test_any_two_engines_side_by_side() -> None:
    settings = read_settings(values(engine="serial", first="chunked", second="static", **{"return": "whole"}), ())
    assert settings.pair is not None
    assert [(config.engine, config.returns) for config in settings.pair] == [("chunked", "stream"), ("static", "whole")]
    twice = read_settings(values(first="paged", second="paged"), ())
    assert (twice.pair, list(twice.unavailable)) == (None, ["pair"])
    assert twice.config is not None
    narrow = read_settings(values(slots=600), ())
    assert (narrow.layouts, list(narrow.unavailable)) == (None, ["layouts"])
    assert narrow.pair is not None


def test_a_problem_of_chunked_is_shown_at_its_field() -> None:
    settings = read_settings(values(engine="chunked", slots=600), ())
    assert list(settings.problems) == ["max_num_batched_tokens"]


def test_a_paged_runs_settings_travel_in_a_link() -> None:
    config = RunConfig(
        engine="chunked", block_size=32, max_num_batched_tokens=64, execution="graph", timing="async", pool_gib=0.01
    )
    assert query_of(config) == {
        "engine": "chunked",
        "max_num_batched_tokens": "64",
        "block_size": "32",
        "execution": "graph",
        "timing": "async",
        "pool_gib": "0.01",
    }
    assert complaints(query_of(config)) == []
    assert complaints({"block_size": "12"})[0].startswith("block_size '12': use one of 1, 2, 4, 8, 16, 32, 64, 128,")


def test_the_size_of_a_position_follows_from_the_models_configuration(home: Path) -> None:
    # Keys and values of 3 KV heads, 64 wide, in 30 layers.
    assert known_position_bytes("smollm2-135m", "fp32", "cpu") == 2 * 3 * 64 * 30 * 4
    assert known_position_bytes("smollm2-135m", "bf16", "cpu") == 2 * 3 * 64 * 30 * 2
    assert known_position_bytes("someone/some-model", "fp32", "cpu") is None
