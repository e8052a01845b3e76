"""Reference outputs from transformers' own attention and caches, which the engines are compared with.

Greedy, in the model's dtype. `generate` runs one request at a time; `generate_batch` is transformers' continuous
batching over its own paged KV. Its API is new: if it cannot run, there is no reference and the reason is reported.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import torch

from engine.runtime.kv.attention import ATTENTION_NAME
from engine.runtime.prepared_run import PreparedRun

REFERENCE_ATTENTION = "sdpa"
PAGE_TOKENS = 16
BATCH_TOKENS = 512


def generate_outputs(prepared: PreparedRun) -> dict[int, list[int]]:
    """Every request's tokens by request id, from transformers' generate, one request at a time."""
    outputs = {}
    eos_ids = list(prepared.loaded.spec.eos_token_ids)
    with own_attention(prepared, REFERENCE_ATTENTION) as model, torch.inference_mode():
        for spec in prepared.workload.requests:
            prompt = torch.tensor([prepared.prompt_ids[spec.request_id]], device=prepared.device)
            generated = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=spec.budget_tokens,
                do_sample=False,
                eos_token_id=None if spec.ignore_eos else eos_ids,
                pad_token_id=0,
                repetition_penalty=1.0,
            )
            outputs[spec.request_id] = generated[0, prompt.shape[1] :].tolist()
    return outputs


def generate_batch_outputs(prepared: PreparedRun) -> dict[int, list[int]]:
    """The same from transformers' generate_batch. RuntimeError with the reason if it cannot run here."""
    specs = prepared.workload.requests
    prompts = [prepared.prompt_ids[spec.request_id] for spec in specs]
    try:
        with own_attention(prepared, REFERENCE_ATTENTION) as model, _quiet("ContinuousBatchingLogger"):
            generated = _batched(model, prompts, max(spec.budget_tokens for spec in specs))
    except Exception as error:
        raise RuntimeError(f"generate_batch cannot run here: {type(error).__name__}: {error}") from error
    outputs = {}
    for spec, tokens in zip(specs, generated, strict=True):
        # All run to the longest budget, past any EOS: greedy tokens do not depend on later ones.
        ids = tokens[: spec.budget_tokens]
        ends = [] if spec.ignore_eos else [i for i, t in enumerate(ids) if t in prepared.loaded.spec.eos_token_ids]
        outputs[spec.request_id] = ids[: ends[0] + 1] if ends else ids
    return outputs


def _batched(model: Any, prompts: list[list[int]], max_new_tokens: int) -> list[list[int]]:
    from transformers import GenerationConfig
    from transformers.generation.configuration_utils import ContinuousBatchingConfig

    # By default it takes most of the machine's memory for its cache, and minutes to clear it.
    pages = sum(-(-(len(prompt) + max_new_tokens) // PAGE_TOKENS) + 1 for prompt in prompts)
    wished = {
        "page_size": PAGE_TOKENS,
        "num_blocks": pages,
        "max_batch_tokens": BATCH_TOKENS,
        "use_cuda_graph": False,
        "use_async_batching": False,
        "auto_switch_to_flash": False,
    }
    known = {f.name for f in fields(ContinuousBatchingConfig)}
    outputs = model.generate_batch(
        prompts,
        generation_config=GenerationConfig(
            max_new_tokens=max_new_tokens, do_sample=False, eos_token_id=None, pad_token_id=0
        ),
        continuous_batching_config=ContinuousBatchingConfig(**{k: v for k, v in wished.items() if k in known}),
    )
    generated = [output.generated_tokens for output in outputs.values()]
    if [len(tokens) for tokens in generated] != [max_new_tokens] * len(prompts):
        raise RuntimeError("it did not complete every request")
    return generated


@contextmanager
def own_attention(prepared: PreparedRun, name: str) -> Iterator[Any]:
    """The model with one of transformers' attentions instead of the lab's, within the `with` block."""
    model = prepared.loaded.model
    model.set_attn_implementation(name)
    try:
        yield model
    finally:
        model.set_attn_implementation(ATTENTION_NAME)


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Log only errors: it warns about settings that are intended."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
