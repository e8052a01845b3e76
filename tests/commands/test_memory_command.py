"""`engine memory` on the command line: the grid, the largest batch, one clear line for bad input, and no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.cli import main
from engine.hardware.machine_memory import MachineMemory, host_memory, parse_gpu
from tests.support.app_server import ROOT
from tests.support.no_break import nb

SOURCE = ["--model", "qwen2.5-1.5b", "--dtype", "fp16", "--capacity-gib", "22.06", "--budget", "256"]
POWERS = "1,2,4,8,16,32,64,128,256,512,1024"


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["memory", *arguments, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_the_grid_of_the_card_with_its_five_failures(capsys: pytest.CaptureFixture[str]) -> None:
    lengths = "p16,p64,p256,p1024,p4096"
    answer = report(capsys, *SOURCE, "--prompts", lengths, "--batch-size", POWERS)
    points = answer["points"]
    assert [(p["prompt_tokens"], p["batch_size"]) for p in points[:12]] == [
        *((16, int(size)) for size in POWERS.split(",")),
        (64, 1),
    ]
    assert len(points) == 55
    largest_tried = {16: 1024, 64: 1024, 256: 1024, 1024: 512, 4096: 128}
    tried = [p for p in points if p["batch_size"] <= largest_tried[p["prompt_tokens"]]]
    failed = [(p["prompt_tokens"], p["batch_size"], p["asked_bytes"] / 2**30) for p in tried if not p["fits"]]
    assert failed == [(256, 1024, 4.375), (1024, 256, 4.375), (1024, 512, 8.75), (4096, 64, 4.375), (4096, 128, 8.75)]
    assert {p["failing_term"] for p in tried if not p["fits"]} == {"mlp_activation"}
    assert {w["prompt_tokens"]: w["first_failing_batch_size"] for w in answer["walls"]} == {
        16: None,
        64: None,
        256: 1024,
        1024: 256,
        4096: 64,
    }


def test_a_table_says_where_memory_ends(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--prompts", "p256", "--batch-size", "128,256", "--pool-gib", "2"]
    assert main(["memory", *SOURCE, *arguments]) == 0
    message = capsys.readouterr().out
    assert nb("capacity 22.1 GiB (--capacity-gib), KV pool at most 2.00 GiB") in message
    header, p256 = (line.split() for line in message.splitlines()[4:6])
    assert (header, p256[0]) == (["prompt", "128", "256"], "p256")
    assert [cell.endswith("!") for cell in p256[1:]] == [False, True]
    assert nb("p256: up to 146 rows fit; 256 fail at the KV pool: 3.50 GiB in one piece, 2.00 GiB left") in message


def test_options_of_the_estimate_reach_it(capsys: pytest.CaptureFixture[str]) -> None:
    one = [*SOURCE, "--prompts", "p128", "--batch-size", "128"]
    copied, last, every = (report(capsys, *one, "--logits", how)["points"][0] for how in ("copied", "last", "all"))
    assert copied["logits_fp32_bytes"] == 128 * 151_936 * 4
    assert last["logits_fp32_bytes"] == 0
    assert every["logits_bytes"] == 128 * copied["logits_bytes"]
    narrow = report(capsys, *one, "--weight-bits", "8")
    assert (narrow["weight_bits"], narrow["points"][0]["weights_bytes"]) == (8, 1_543_714_304)
    assert narrow["points"][0]["kv_bytes"] == copied["kv_bytes"]
    chunked = report(capsys, *one, "--engine", "chunked", "--max-num-batched-tokens", "256")["points"][0]
    assert chunked["mlp_activation_bytes"] == 3 * 256 * 8960 * 2
    ranged = report(capsys, *one, "--budget", "8x32+8x512")
    assert ranged["budget_tokens"] == 512


def test_any_models_shape_can_be_read_from_its_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shape = {
        "model_type": "llama",
        "vocab_size": 100,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(shape))
    one = ["--model", str(tmp_path), "--dtype", "fp32", "--capacity-gib", "1", "--prompts", "p10", "--batch-size", "2"]
    point = report(capsys, *one, "--budget", "6")["points"][0]
    assert point["kv_bytes"] == 2 * 16 * 2 * 3 * 2 * 8 * 4
    assert point["mlp_activation_bytes"] == 3 * 20 * 64 * 4


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--model", "no-such-model"], "model no-such-model"),
        (["--prompts", "chat"], "prompts 'chat'"),
        (["--batch-size", "0"], "batch size '0'"),
        (["--budget", "none"], "budget 'none'"),
        (["--capacity-gib", "-1"], "capacity-gib -1.0: use a size in GiB above 0"),
        (["--capacity-gib", "nan"], "capacity-gib nan: use a size in GiB above 0"),
        (["--pool-gib", "0"], "pool-gib 0.0: use a size in GiB above 0"),
        (["--gpu-memory-utilization", "0"], "gpu-memory-utilization 0.0: use a share above 0, up to 1"),
        (["--gpu-memory-utilization", "nan"], "gpu-memory-utilization nan: use a share above 0, up to 1"),
        (["--gpu-memory-utilization", "5", "--device", "cpu"], "gpu-memory-utilization 5.0: use a share"),
        (["--model", "x" * 3000], f"model {'x' * 80}…: use smollm2-135m"),
        (["--model", "~nobody-of-that-name/model"], "model ~nobody-of-that-name/model: use smollm2-135m"),
        (["--engine", "paged", "--block-size", "3"], "block-size 3"),
        (["--engine", "chunked", "--max-num-batched-tokens", "0"], "max-num-batched-tokens 0"),
    ],
)
def test_bad_input_is_one_clear_line(capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str) -> None:
    assert main(["memory", *arguments]) == 2
    message = capsys.readouterr()
    assert message.out == ""
    assert message.err.startswith("python -m engine memory: ")
    assert expected in message.err
    assert message.err.count("\n") == 1


def test_without_a_capacity_the_machines_own_memory_counts(capsys: pytest.CaptureFixture[str]) -> None:
    machine = host_memory()
    assert machine is not None
    answer = report(capsys, "--device", "cpu", "--prompts", "p16", "--batch-size", "1")
    assert (answer["capacity_bytes"], answer["capacity_from"]) == (machine.total_bytes, "all of this machine")
    assert answer["dtype"] == "fp32"


def test_the_share_of_a_gpu_is_written_as_it_was_set(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    card = MachineMemory(name="Some GPU", kind="cuda", total_bytes=16 * 2**30)
    monkeypatch.setattr("engine.commands.memory.gpu_memory", lambda: card)
    few = ["--prompts", "p16", "--batch-size", "1", "--gpu-memory-utilization", "0.925"]
    answer = report(capsys, *few)
    assert (answer["capacity_bytes"], answer["capacity_from"]) == (int(14.8 * 2**30), "92.5% of Some GPU")
    assert main(["memory", *few]) == 0
    assert nb("capacity 14.8 GiB (92.5 % of Some GPU)") in capsys.readouterr().out


def test_a_named_size_needs_no_gpu_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # no driver's tool, so no card
    one = ["--device", "cuda", "--prompts", "p16", "--batch-size", "1"]
    capped = report(capsys, *one, "--capacity-gib", "22.06")
    assert (capped["capacity_from"], capped["dtype"]) == ("--capacity-gib", "bf16")
    assert capped["capacity_bytes"] == int(22.06 * 2**30)
    card = report(capsys, *one, "--hardware", "h100")
    assert (card["capacity_bytes"], card["capacity_from"]) == (72 * 10**9, "90% of NVIDIA H100 SXM, 80 GB")
    assert card["dtype"] == "bf16"
    assert report(capsys, "--hardware", "h100", "--prompts", "p16", "--batch-size", "1")["dtype"] == "bf16"
    assert main(["memory", *one]) == 2
    assert "device cuda: no CUDA GPU found" in capsys.readouterr().err


def test_a_card_is_read_from_the_drivers_table() -> None:
    assert parse_gpu("NVIDIA H200, 143771\nNVIDIA H200, 143771\n") == MachineMemory(
        kind="cuda", name="NVIDIA H200", total_bytes=143_771 * 2**20
    )
    assert parse_gpu("No devices were found\n") is None
    assert parse_gpu("NVIDIA GB10, [N/A]\n") is None


def test_nothing_heavy_is_loaded() -> None:
    code = (
        "import sys; from engine.commands import memory; "
        "print([m for m in ('torch', 'transformers', 'duckdb', 'streamlit', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "[]", done.stderr


def test_memory_and_simulate_give_one_answer_for_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """512 rows of p1024 with 256 output tokens: their cache, 512 x 1,280 x 28 KiB, fails in 90 % of an A10's memory."""
    card = ["--model", "qwen2.5-1.5b", "--dtype", "fp16", "--hardware", "a10", "--engine", "static", "--budget", "256"]
    (point,) = report(capsys, *card, "--prompts", "p1024", "--batch-size", "512", "--logits", "last")["points"]
    assert (
        main(["simulate", *card, "--prompts", "p1024", "--requests", "512", "--slots", "512", "--no-log", "--json"])
        == 0
    )
    simulated = json.loads(capsys.readouterr().out)
    names = ("failing_term", "asked_bytes", "free_bytes")
    assert [point[name] for name in names] == [simulated[name] for name in names]
    assert point["failing_term"] == "kv_cache"
    assert point["asked_bytes"] == 512 * 1280 * 28 * 1024
    assert point["free_bytes"] == int(int(22.06 * 2**30) * 0.9) - 2 * 1_543_714_304


def test_a_window_limits_the_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 100}
    (tmp_path / "config.json").write_text(json.dumps(config))
    few = ["--model", str(tmp_path), "--dtype", "bf16", "--capacity-gib", "8", "--batch-size", "1", "--budget", "20"]
    report(capsys, *few, "--prompts", "p80")
    assert main(["memory", *few, "--prompts", "p16,p81"]) == 2
    assert "attends over a window of 100 positions, and a sequence has 101" in capsys.readouterr().err


def test_a_mixture_of_experts_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ernie-4.5-21B-A3B: 43.7 GB of weights in bf16 do not fit a GPU of 22 GiB."""
    config = {"model_type": "ernie4_5_moe", "moe_num_experts": 64, "tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    options = ["--model", str(tmp_path), "--dtype", "bf16", "--prompts", "p1024", "--batch-size", "1,32"]
    assert main(["memory", *options, "--hardware", "a10"]) == 0
    text = capsys.readouterr().out
    assert "64 experts in a layer, 6 per token: all weights are held" in text
    assert "p1024: no row fits; 1 fail at the weights" in text


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "t5"}, "transformers has no causal language model of type 't5'"),
        ({"model_type": "deepseek_v3"}, "uses latent attention (MLA)"),
        ({"model_type": "mamba"}, "uses layers of type"),
        ({"model_type": "nosuch"}, "does not know models of type 'nosuch'"),
    ],
)
def test_models_that_cannot_be_estimated_are_refused_once(
    config: dict[str, Any],
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second refusal comes from the cache: no process is started."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "config.json").write_text(json.dumps(config))
    for _ in range(2):
        assert main(["memory", "--model", str(tmp_path), "--capacity-gib", "8"]) == 2
        line = capsys.readouterr().err
        assert line.count("\n") == 1
        assert reason in line
        assert len(line) < 400
        monkeypatch.setattr("engine.hardware.counted_models.COUNTING_COMMAND", ("false",))
