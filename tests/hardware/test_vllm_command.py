"""Settings as `vllm serve` flags, and what is said of settings without a counterpart."""

from __future__ import annotations

from engine.core.config import RunConfig, SamplingConfig, WorkloadConfig
from engine.hardware.vllm_command import vllm_command


def test_a_chunked_run_has_every_flag() -> None:
    config = RunConfig(
        engine="chunked",
        model="qwen2.5-1.5b",
        dtype="bf16",
        execution="graph",
        timing="async",
        slots=64,
        block_size=32,
        max_num_batched_tokens=1024,
        gpu_memory_utilization=0.8,
        workload=WorkloadConfig(seed=3),
    )
    found = vllm_command(config)
    assert found.command == (
        "vllm serve Qwen/Qwen2.5-1.5B-Instruct --dtype bfloat16 --max-num-seqs 64 --enable-chunked-prefill "
        "--max-num-batched-tokens 1024 --async-scheduling --block-size 32 --gpu-memory-utilization 0.8 "
        "--no-enable-prefix-caching --seed 3"
    )
    assert found.notes == ()


def test_static_batching_has_no_counterpart() -> None:
    found = vllm_command(RunConfig(engine="static"))
    assert found.command == ""
    assert "no static batching" in found.notes[0]


def test_slots_are_paged_by_vllm() -> None:
    found = vllm_command(RunConfig(engine="continuous", dtype="fp32"))
    assert "--no-enable-chunked-prefill --enforce-eager --no-async-scheduling" in found.command
    assert "--dtype float32" in found.command
    assert "--block-size" not in found.command
    assert found.notes == ("Slots of a fixed width have no counterpart: vLLM pages its KV.",)


def test_one_request_at_a_time_is_one_sequence() -> None:
    assert "--max-num-seqs 1 " in vllm_command(RunConfig(engine="serial", slots=8)).command


def test_random_weights_are_dummy_weights_of_the_same_shape() -> None:
    found = vllm_command(RunConfig(engine="paged", model="llama-3.1-8b-random", pool_gib=0.5))
    assert found.command.startswith("vllm serve meta-llama/Llama-3.1-8B-Instruct --dtype bfloat16 --load-format dummy ")
    assert "--kv-cache-memory-bytes 536870912" in found.command


def test_a_model_made_in_code_cannot_be_served() -> None:
    assert vllm_command(RunConfig(model="tiny-random")).command == ""


def test_a_folder_with_blanks_is_quoted() -> None:
    assert "serve '/my models/one' " in vllm_command(RunConfig(model="/my models/one")).command


def test_what_differs_is_named() -> None:
    config = RunConfig(engine="paged", block_size=8, capacity_gib=4, sampling=SamplingConfig(temperature=0.5))
    notes = " ".join(vllm_command(config).notes)
    assert "blocks of 16 tokens" in notes
    assert "limit of all memory" in notes
    assert "per request" in notes
