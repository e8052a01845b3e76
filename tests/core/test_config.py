"""Configurations: exact in JSON, and one clear line for every invalid value."""

import json
from typing import Any

import pytest

from engine.core.config import RunConfig, SamplingConfig, WorkloadConfig
from engine.core.form_rule import FormRule

EVERYTHING = RunConfig(
    engine="static",
    model="tiny-random",
    device="cuda",
    dtype="bf16",
    timing="async",
    slots=32,
    form=FormRule(rule="timeout", timeout_s=1.23456789),
    returns="whole",
    workload=WorkloadConfig(
        prompts="file",
        prompt_lines=("one", "zwei", "été"),
        requests=64,
        budget="8x32+8x256",
        arrival="gamma:2:3",
        seed=7,
    ),
    sampling=SamplingConfig(temperature=0.7, top_k=40, top_p=0.9),
    warmups=2,
    pool_gib=2.0,
    capacity_gib=22.06,
    gpu_memory_utilization=0.8,
)


@pytest.mark.parametrize("config", [RunConfig(), EVERYTHING], ids=["defaults", "everything set"])
def test_a_configuration_survives_json(config: RunConfig) -> None:
    assert RunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_part_of_a_configuration_leaves_the_rest_at_its_default() -> None:
    config = RunConfig.from_dict({"engine": "serial", "workload": {"requests": 3}, "sampling": {"top_k": 5}})
    assert config == RunConfig(engine="serial", workload=WorkloadConfig(requests=3), sampling=SamplingConfig(top_k=5))


def test_the_default_is_eight_chat_questions_through_four_slots() -> None:
    config = RunConfig()
    assert (config.workload.requests, config.workload.prompts, config.workload.budget) == (8, "chat", "8-48")
    assert (config.slots, config.workload.arrival, config.sampling.is_greedy) == (4, "closed", True)


def test_serial_always_has_one_slot() -> None:
    assert RunConfig(engine="serial", slots=32).num_slots == 1
    assert RunConfig(engine="static", slots=32).num_slots == 32


@pytest.mark.parametrize(
    ("text", "rule", "timeout_s"),
    [("arrived", "arrived", None), ("full", "full", None), ("timeout:0.5", "timeout", 0.5)],
)
def test_a_form_reads_as_it_is_written(text: str, rule: str, timeout_s: float | None) -> None:
    form = FormRule.parse(text)
    assert (form.rule, form.timeout_s, str(form)) == (rule, timeout_s, text)


def test_a_whole_timeout_is_written_without_decimals() -> None:
    assert str(FormRule.parse("timeout:2.0")) == "timeout:2"


@pytest.mark.parametrize(
    "text", ["", "later", "timeout", "timeout:", "timeout:x", "timeout:0", "timeout:-1", "timeout:inf"]
)
def test_a_bad_form_says_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match="use arrived, full or timeout:S"):
        FormRule.parse(text)


NAN = float("nan")
BAD: list[tuple[dict[str, Any], str]] = [
    ({"engine": "magic"}, r"engine 'magic': use one of serial, static, continuous"),
    ({"model": " "}, r"model: name one"),
    ({"device": "tpu"}, r"device 'tpu': use one of auto, cpu, cuda"),
    ({"dtype": "int8"}, r"dtype 'int8': use one of auto, fp32"),
    ({"execution": "magic"}, r"execution 'magic': use one of eager"),
    ({"timing": "never"}, r"timing 'never': use one of sync, async"),
    ({"slots": 0}, r"slots 0: use 1 to 4,096"),
    ({"slots": 4097}, r"slots 4097: use 1 to 4,096"),
    ({"engine": "static", "returns": "later"}, r"return 'later': use one of stream, whole"),
    ({"returns": "whole"}, r"return whole: only the static engine"),
    ({"form": "full"}, r"form full: only the static engine"),
    ({"engine": "static", "form": "soon"}, r"form 'soon': use arrived"),
    ({"warmups": -1}, r"warmups -1: use 0 to 100"),
    ({"pool_gib": 0}, r"pool-gib 0: use a size in GiB above 0"),
    ({"pool_gib": 1e300}, r"pool-gib 1e\+300: use a size in GiB above 0, up to 1,000,000"),
    ({"pool_gib": NAN}, r"pool-gib nan: use a size"),
    ({"capacity_gib": -1}, r"capacity-gib -1: use a size"),
    ({"gpu_memory_utilization": 1.1}, r"gpu-memory-utilization 1\.1: use a share above 0, up to 1"),
    ({"gpu_memory_utilization": 0}, r"gpu-memory-utilization 0: use a share"),
    ({"workload": {"requests": -1}}, r"requests -1: use 0 to 100,000"),
    ({"workload": {"requests": 100_001}}, r"requests 100001: use 0 to 100,000"),
    ({"workload": {"seed": -1}}, r"seed -1: use a whole number from 0"),
    ({"workload": {"seed": 2**32}}, r"seed 4294967296: use a whole number"),
    ({"workload": {"prompts": "file"}}, r"prompt file: it holds no prompts"),
    ({"sampling": {"temperature": -0.1}}, r"temperature -0\.1: use 0 \(greedy\), or 0.01 to 10"),
    ({"sampling": {"temperature": NAN}}, r"temperature nan: use 0"),
    ({"sampling": {"top_k": -1}}, r"top-k -1: use 0 \(off\)"),
    ({"sampling": {"top_p": 0}}, r"top-p 0: use a share above 0"),
    ({"sampling": {"top_p": 1.5}}, r"top-p 1\.5: use a share"),
    ({"slot": 4}, r"unknown setting slot"),
    ({"workload": {"request": 4}}, r"unknown setting workload\.request"),
    ({"sampling": {"heat": 1}}, r"unknown setting sampling\.heat"),
    ({"slots": "4"}, r"slots '4': use a whole number"),
    ({"slots": True}, r"slots True: use a whole number"),
    ({"slots": 4.5}, r"slots 4\.5: use a whole number"),
    ({"engine": None}, r"engine None: use text"),
    ({"form": 3}, r"form 3: use text"),
    ({"pool_gib": "2"}, r"pool_gib '2': use a number or null"),
    ({"workload": []}, r"workload \[\]: use an object"),
    ({"workload": {"prompt_lines": "one"}}, r"workload\.prompt_lines 'one': use a list of texts"),
    ({"workload": {"prompt_lines": ["one", 2]}}, r"workload\.prompt_lines: use a list of texts"),
    ({"sampling": {"top_p": None}}, r"sampling\.top_p None: use a number"),
]


@pytest.mark.parametrize(("data", "line"), BAD, ids=[line for _, line in BAD])
def test_a_bad_value_is_refused_in_one_clear_line(data: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=f"^{line}") as refused:
        RunConfig.from_dict(data)
    assert "\n" not in str(refused.value)
