"""Paged KV on a CPU vs transformers' continuous batching (generate_batch) and its padded generate, interleaved.

    python -m benchmarks.cpu_paged [--repeats 3] [--requests 32] [--json]

32 requests at once, prompts of 16, 64 and 256 tokens in equal shares, 32 output tokens each; all sides get the same ids
and generate the same number of tokens. Medians over interleaved repeats (ABC ABC …).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import torch

from benchmarks.cpu_engines import Bench, Outcome, in_turns, paired_ratio, rate
from engine.core.config import WorkloadConfig
from engine.core.home import device_lock
from engine.runlog.locks import hold
from engine.runtime.environment import use_available_threads
from engine.runtime.measuring.oracles import REFERENCE_ATTENTION, generate_batch_outputs, own_attention
from engine.runtime.prepared_run import PreparedRun

BUDGET = 32


def padded_generate(prepared: PreparedRun) -> int:
    """transformers' generate over all rows at once, left-padded to the longest. Returns the number of tokens."""
    ids = [prepared.prompt_ids[s.request_id] for s in prepared.workload.requests]
    width = max(map(len, ids))
    prompts = torch.tensor([[0] * (width - len(row)) + row for row in ids])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids])
    with own_attention(prepared, REFERENCE_ATTENTION) as model, torch.inference_mode():
        output = model.generate(
            prompts, attention_mask=mask, max_new_tokens=BUDGET, do_sample=False, eos_token_id=None, pad_token_id=0
        )
    return int(output[:, width:].numel())


def generate_batch(prepared: PreparedRun) -> int:
    return sum(len(ids) for ids in generate_batch_outputs(prepared).values())


def timed(side: Callable[[PreparedRun], int], prepared: PreparedRun) -> Outcome:
    started = time.perf_counter()
    tokens = side(prepared)
    return Outcome(tokens=tokens, passes=0, seconds=time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    use_available_threads()
    bench = Bench(args.model)
    work = WorkloadConfig(prompts="p16,p64,p256", requests=args.requests, budget=str(BUDGET))
    with hold(device_lock("cpu"), purpose="benchmark cpu_paged"):
        prepared = bench.prepare("paged", work, slots=args.requests)
        paged, batch, padded = in_turns(
            args.repeats,
            lambda: bench.run(prepared, recorded=True),
            lambda: timed(generate_batch, prepared),
            lambda: timed(padded_generate, prepared),
        )
    assert {o.tokens for o in (*paged, *batch, *padded)} == {args.requests * BUDGET}
    report = {
        "paged_tokens_per_s": rate(paged),
        "generate_batch_tokens_per_s": rate(batch),
        "padded_generate_tokens_per_s": rate(padded),
        "paged_over_generate_batch": paired_ratio(paged, batch),
        "paged_over_padded_generate": paired_ratio(paged, padded),
    }
    if args.json:
        print(json.dumps(report))
        return
    for name, value in report.items():
        print(f"{name:<30} {value:.4g}")


if __name__ == "__main__":
    main()
