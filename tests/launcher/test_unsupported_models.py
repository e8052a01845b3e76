"""Models that the lab does not run, through the queue and a real worker, as on Bench: a failed job with one line.

The worker stays, and runs the next model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from engine.core.config import RunConfig, WorkloadConfig
from engine.launcher.job import JobRun
from engine.launcher.run_queue import RunQueue

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_locks")]

PATIENCE_S = 600
TINY: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": 2,
    "pad_token_id": None,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "short_factor": [1.0] * 8,
    "long_factor": [1 + 0.3 * i for i in range(8)],
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
UNSUPPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "mpt": ({"d_model": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 512}, "has its own attention"),
    "jetmoe": (
        {
            "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
            "num_key_value_heads": 2, "kv_channels": 16, "num_local_experts": 4, "num_experts_per_tok": 2,
        },
        "passes 4 KV heads of width 16 to its attention, its configuration says 2",
    ),
    "mistral": ({**TINY, "sliding_window": 100}, "over 100 positions"),
    "phi3": (
        {**TINY, "original_max_position_embeddings": 64, "rope_parameters": LONGROPE},
        "changes its rotary angles beyond 64 positions",
    ),
    "t5": ({"vocab_size": 512, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4}, "of type 't5'"),
    "mamba": ({"vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2}, "mamba"),
}  # fmt: skip


@pytest.fixture(scope="module")
def queue(own_locks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunQueue]:
    queue = RunQueue(tmp_path_factory.mktemp("home"))
    yield queue
    queue.close()


def save(kind: str, folder: Path) -> None:
    config = CONFIG_MAPPING[kind].from_dict({"model_type": kind, **UNSUPPORTED[kind][0]})
    of_class = AutoModelForSeq2SeqLM if kind == "t5" else AutoModelForCausalLM
    of_class.from_config(config, dtype=torch.float32).save_pretrained(folder)


def ended(queue: RunQueue, model: str, prompts: str) -> JobRun:
    """A run of two requests with 8 output tokens each, when it has ended."""
    workload = WorkloadConfig(prompts=prompts, requests=2, budget="8")
    job = queue.submit([RunConfig(model=model, device="cpu", workload=workload)])
    return queue.wait(job.job_id, timeout_s=PATIENCE_S).runs[0]


def test_each_fails_in_one_line_and_the_worker_stays(queue: RunQueue, tmp_path: Path) -> None:
    pids = set()
    for kind, (_, reason) in UNSUPPORTED.items():
        save(kind, tmp_path / kind)
        run = ended(queue, str(tmp_path / kind), "p100")
        assert (run.status, run.has_log) == ("failed", False), kind
        assert run.error is not None
        assert reason in run.error
        assert "\n" not in run.error
        assert len(run.error) < 400
        pids.add(queue.worker_pid)
    assert len(pids) == 1
    # Within the window, and before the angles change, both run.
    assert ended(queue, str(tmp_path / "mistral"), "p92").status == "completed"
    assert ended(queue, str(tmp_path / "phi3"), "p16").status == "completed"


def test_a_chat_template_that_raises_is_one_line(queue: RunQueue, tmp_path: Path) -> None:
    save("mistral", tmp_path)
    words = {f"w{i}": i for i in range(256)} | {"[UNK]": 256}
    tokenizer = Tokenizer(WordLevel(vocab=words, unk_token="[UNK]"))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('System role required') }}")
    run = ended(queue, str(tmp_path), "chat")
    assert run.status == "failed"
    assert run.error is not None
    assert "chat template refuses the prompt: System role required" in run.error
    assert "\n" not in run.error
