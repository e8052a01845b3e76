"""The options that runs share, and how they become a RunConfig."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.core.config import (
    DEVICES,
    DTYPES,
    ENGINES,
    EXECUTIONS,
    RETURNS,
    TIMINGS,
    FormRule,
    RunConfig,
    SamplingConfig,
    WorkloadConfig,
)
from engine.core.format import exact

EXECUTION_HELP = "how a pass is issued: kernel by kernel, or as a CUDA graph (a GPU alone; default eager)"
COMMANDS = {"sweep": "sweep", "load": "arrivals", "overhead": "overhead", "repeats": "run"}  # by an experiment's kind
MAX_PROMPT_FILE_BYTES = 32 * 2**20


def add_model_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument("--model", default="smollm2-135m", help="a name, a folder or a hub id (default smollm2-135m)")
    group.add_argument("--device", default="auto", choices=DEVICES, help="default auto: CUDA where there is one")
    group.add_argument("--dtype", default="auto", choices=DTYPES, help="default auto: fp32 on CPU, bf16 on CUDA")


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("engine")
    group.add_argument("--engine", default="continuous", choices=ENGINES, help="default continuous")
    group.add_argument("--timing", default="sync", choices=TIMINGS, help="sync stops after each pass; async does not")
    group.add_argument("--slots", "--max-num-seqs", type=int, default=4, metavar="B", help="rows at once (default 4)")
    add_pass_options(group)


def add_pass_options(group: argparse._ArgumentGroup) -> None:
    """What an engine can be told beside which it is, how many rows it has, and how its passes are timed."""
    group.add_argument("--execution", default="eager", choices=EXECUTIONS, help=EXECUTION_HELP)
    group.add_argument(
        "--block-size", type=int, default=16, metavar="N", help="paged, chunked: token positions a block (default 16)"
    )
    group.add_argument(
        "--max-num-batched-tokens", type=int, default=512, metavar="N", help="chunked: tokens a step (default 512)"
    )
    group.add_argument("--form", default="arrived", help="static: arrived, full or timeout:S (default arrived)")
    group.add_argument(
        "--return", dest="returns", default="stream", choices=RETURNS, help="static: when results are handed over"
    )
    group.add_argument("--pool-gib", type=float, metavar="GIB", help="cap of the KV pool")
    group.add_argument("--capacity-gib", type=float, metavar="GIB", help="cap of everything")
    group.add_argument(
        "--gpu-memory-utilization", type=float, default=0.9, metavar="SHARE", help="share of the card (default 0.9)"
    )


def add_prompt_options(group: argparse._ArgumentGroup) -> None:
    """Where a workload's prompts come from: one of three."""
    source = group.add_mutually_exclusive_group()
    source.add_argument("--prompts", metavar="P16,P64", help="exact lengths in equal shares (default: chat questions)")
    source.add_argument("--mix", metavar="P16:3,P4096:1", help="exact lengths with weights")
    source.add_argument("--prompt-file", metavar="FILE", help="a text file, one prompt a line")


def add_workload_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("workload")
    add_prompt_options(group)
    group.add_argument("--requests", type=int, default=8, metavar="N", help="default 8")
    group.add_argument(
        "--budget", default="8-48", help="new tokens: 64, 64-256, 8x32+8x256, eos, eos:200 (default 8-48)"
    )
    group.add_argument("--arrival", default="closed", help="closed, poisson:R, constant:R, gamma:R:CV (default closed)")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sampling")
    group.add_argument("--temperature", type=float, default=0.0, help="default 0: greedy")
    group.add_argument("--top-k", type=int, default=0, metavar="K", help="default 0: off")
    group.add_argument("--top-p", type=float, default=1.0, metavar="P", help="default 1: off")


def run_config(args: argparse.Namespace) -> RunConfig:
    """The configuration that the options name. ValueError with one clear line."""
    prompts, lines = _prompts(args)
    return RunConfig(
        engine=args.engine,
        model=args.model,
        device=args.device,
        dtype=args.dtype,
        execution=args.execution,
        timing=args.timing,
        slots=args.slots,
        block_size=args.block_size,
        max_num_batched_tokens=args.max_num_batched_tokens,
        form=FormRule.parse(args.form),
        returns=args.returns,
        workload=WorkloadConfig(
            prompts=prompts,
            prompt_lines=lines,
            requests=args.requests,
            budget=args.budget,
            arrival=args.arrival,
            seed=args.seed,
        ),
        sampling=SamplingConfig(temperature=args.temperature, top_k=args.top_k, top_p=args.top_p),
        warmups=args.warmups,
        pool_gib=args.pool_gib,
        capacity_gib=args.capacity_gib,
        gpu_memory_utilization=args.gpu_memory_utilization,
    )


def _prompts(args: argparse.Namespace) -> tuple[str, tuple[str, ...]]:
    if args.prompt_file is not None:
        return "file", read_prompt_file(Path(args.prompt_file))
    given = [text for text in (args.prompts, args.mix) if text is not None]
    return given[0] if given else "chat", ()


def read_prompt_file(path: Path) -> tuple[str, ...]:
    """One prompt a line; blank lines are passed over. ValueError says why a file is not usable."""
    try:
        if path.stat().st_size > MAX_PROMPT_FILE_BYTES:
            most = exact(MAX_PROMPT_FILE_BYTES >> 20, "MiB")
            raise ValueError(f"prompt file {path}: larger than {most}; use a smaller one")
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"prompt file {path}: not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise ValueError(f"prompt file {path}: {error.strerror or error}; name a readable text file") from None
    lines = tuple(line.strip() for line in text.split("\n") if line.strip())
    if not lines:
        raise ValueError(f"prompt file {path}: it holds no prompts; write one prompt a line")
    return lines
