"""The command that repeats a run gives the same configuration when the command line reads it."""

from __future__ import annotations

import argparse
import shlex

import pytest

from engine.commands import run as run_module
from engine.commands.options import run_config
from engine.core.command_line import run_command
from engine.core.config import RunConfig, SamplingConfig, WorkloadConfig
from engine.core.form_rule import FormRule

CONFIGS = (
    RunConfig(),
    RunConfig(engine="static", slots=8, form=FormRule.parse("timeout:0.25"), returns="whole"),
    RunConfig(
        engine="chunked",
        model="some/model with blanks",
        dtype="bf16",
        block_size=32,
        max_num_batched_tokens=128,
        pool_gib=0.5,
        capacity_gib=3.25,
        gpu_memory_utilization=0.85,
        warmups=0,
        timing="async",
        workload=WorkloadConfig(prompts="p16:3,p4096:1", requests=20, budget="8x8+8x64", arrival="gamma:1.5:3", seed=7),
        sampling=SamplingConfig(temperature=0.7, top_k=40, top_p=0.95),
    ),
)


@pytest.mark.parametrize("config", CONFIGS)
def test_the_command_line_reads_its_own_command(config: RunConfig) -> None:
    parser = argparse.ArgumentParser()
    run_module.add_arguments(parser)
    program, module, name, command, *flags = shlex.split(run_command(config))
    assert (program, module, name, command) == (".venv/bin/python", "-m", "engine", "run")
    assert run_config(parser.parse_args(flags)) == config


def test_settings_at_their_default_are_left_out() -> None:
    assert run_command(RunConfig(slots=2)) == ".venv/bin/python -m engine run --slots 2"


def test_prompts_of_a_file_are_named_as_one() -> None:
    workload = WorkloadConfig(prompts="file", prompt_lines=("one", "two"))
    assert run_command(RunConfig(workload=workload)).endswith("--prompt-file prompts.txt")
