"""The cases of `engine parity`: workloads and settings that each exercise one way in which tokens can go wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.core.config import WorkloadConfig
from engine.core.presets import ENGINES, PRESETS
from engine.workload.workload import Workload, build_workload

if TYPE_CHECKING:
    from engine.runtime.measuring.parity import ParityCase

PAGED = tuple(name for name, preset in PRESETS.items() if preset.has_blocks)
CHUNKED = tuple(name for name, preset in PRESETS.items() if preset.is_chunked)


def make_cases(seed: int) -> list[ParityCase]:
    """Cases for all engines, for those over paged KV, and for chunked prefill. Prompts and budgets follow `seed`."""
    return [*_for_all(seed), *_for_paged(seed), *_for_chunked(seed)]


def _for_all(seed: int) -> list[ParityCase]:
    """Single, uniform, ragged, the longest prompt ending first, and a queue for 4 slots (closed and Poisson)."""
    ragged = _ragged(seed)
    return [
        _case("single", _workload("chat", 1, "24", seed=seed), slots=1),
        _case("uniform 4", _workload("p64", 4, "24", seed=seed), slots=4),
        _case("ragged", ragged, slots=6),
        _case("ragged, longest prompt ends first", _longest_ends_first(ragged), slots=6),
        _case("8 through 4 slots, closed", _workload("chat", 8, "8-48", seed=seed), slots=4),
        _case("8 through 4 slots, poisson", _workload("chat", 8, "8-48", seed=seed, arrival="poisson:4"), slots=4),
    ]


def _for_paged(seed: int) -> list[ParityCase]:
    """Preemption, another block size, and prompts that end at every offset of a block."""
    every_offset = ",".join(f"p{tokens}" for tokens in range(16, 33))
    return [
        # A request holds 3 blocks at first and 4 at its end: two are admitted into 7 blocks, and one is preempted.
        _case(
            "a pool of 7 blocks, preempted", _workload("p40", 5, "24", seed=seed), slots=4, engines=PAGED, pool_blocks=7
        ),
        _case("blocks of 32", _ragged(seed), slots=6, engines=PAGED, block_size=32),
        _case(
            "prompts at every offset of a block",
            _workload(every_offset, 17, "6", seed=seed),
            slots=6,
            engines=PAGED,
            max_num_batched_tokens=24,
        ),
    ]


def _for_chunked(seed: int) -> list[ParityCase]:
    """Prompts in chunks of up to 1, 7, 64 and 512 tokens, and prompts whose last chunk is one token."""
    ragged = _ragged(seed)
    return [
        _chunks(1, _workload("p5,p18", 2, "6", seed=seed), slots=1),
        _chunks(7, ragged, slots=6),
        _chunks(64, ragged, slots=6),
        _chunks(512, _workload("p600,p1100", 2, "6", seed=seed), slots=2),
        _chunks(64, _workload("p65,p129", 2, "6", seed=seed), slots=1, note=", the last of one token"),
    ]


def _chunks(tokens: int, workload: Workload, slots: int, note: str = "") -> ParityCase:
    return _case(f"chunks of {tokens}{note}", workload, slots, engines=CHUNKED, max_num_batched_tokens=tokens)


def _case(
    name: str,
    workload: Workload,
    slots: int,
    engines: tuple[str, ...] = ENGINES,
    pool_blocks: int | None = None,
    **settings: Any,
) -> ParityCase:
    from engine.runtime.measuring.parity import ParityCase  # loads torch, which --help does not need

    return ParityCase(
        name=name, workload=workload, slots=slots, engines=engines, settings=settings, pool_blocks=pool_blocks
    )


def _ragged(seed: int) -> Workload:
    return _workload("p16,p40,p64,p128", 6, "8-32", seed=seed)


def _workload(prompts: str, requests: int, budget: str, *, seed: int, arrival: str = "closed") -> Workload:
    return build_workload(WorkloadConfig(prompts=prompts, requests=requests, budget=budget, arrival=arrival, seed=seed))


def _longest_ends_first(workload: Workload) -> Workload:
    """The same prompts with budgets that shrink as prompts grow: the widest row ends first."""
    longest = max(_tokens(s.prompt) for s in workload.requests)
    specs = tuple(
        replace(s, budget_tokens=4 + 28 * (longest - _tokens(s.prompt)) // longest) for s in workload.requests
    )
    return replace(workload, requests=specs)


def _tokens(prompt: object) -> int:
    tokens = getattr(prompt, "tokens", None)
    assert isinstance(tokens, int)
    return tokens
