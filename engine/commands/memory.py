"""`engine memory`: estimates weights, KV cache, activations and logits, and the largest batch that fits. Runs nothing.

Arithmetic on a model's shape: no torch, no weights. A run on a CPU uses the same estimate to enforce
`--capacity-gib`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

from engine.commands import options
from engine.core.config import SETTINGS
from engine.core.errors import FieldError
from engine.core.format import exact, number, size
from engine.core.option import options_of
from engine.core.presets import PRESETS
from engine.core.terminal import table_lines
from engine.core.units import GIB, dtype_of
from engine.experiments.sweep_plan import BATCH_SIZES, PROMPT_GRID, parse_batch_sizes, parse_prompt_grid
from engine.hardware.hardware_presets import CARD, HARDWARE
from engine.hardware.machine_memory import MachineMemory, gpu_memory, host_memory, usable_bytes
from engine.hardware.model_presets import model_shape
from engine.hardware.roofline import WEIGHT_WIDTH, ModelShape, require_window
from engine.hardware.tensor_parallel import TensorParallel, require_divisible
from engine.memory.memory_model import TERM_LABELS
from engine.memory.memory_plan import LOGITS, EngineShape, MemoryGrid, MemoryPoint, Wall, memory_points, walls
from engine.workload.budgets import largest_budget, parse_budget

OWN: options.Own = {
    "prompts": {"default": "p16,p64,p256,p1024,p4096"},
    "batch_size": {"default": "1,2,4,8,16,32,64,128,256,512,1024"},
    "budget": {"default": "256", "help": "output tokens; the largest counts"},
    "engine": {"default": "static", "help": "engine whose KV layout and prefill are used"},
    "capacity_gib": {"help": "available memory (default: the GPU's, or this machine's)"},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("grid")
    options.add_options(group, (PROMPT_GRID, BATCH_SIZES, SETTINGS["budget"]), OWN)
    options.add_model_options(parser)
    options.add_options(parser, (WEIGHT_WIDTH, *options_of(TensorParallel).values()))
    group = parser.add_argument_group("engine")
    shape = (SETTINGS["engine"], SETTINGS["block_size"], SETTINGS["max_num_batched_tokens"], LOGITS)
    options.add_options(group, shape, OWN)
    group = parser.add_argument_group("memory")
    sizes = (SETTINGS["capacity_gib"], CARD, SETTINGS["pool_gib"], SETTINGS["gpu_memory_utilization"])
    options.add_options(group, sizes, OWN)
    parser.add_argument("--json", action="store_true", help="one JSON object with one point per configuration")


def run(args: argparse.Namespace) -> int:
    """Always 0, whether or not a batch fits. ValueError for bad options."""
    capacity = _capacity(args)
    dtype = _dtype(args)
    model = model_shape(args.model, dtype=dtype, weight_bits=args.weight_bits)
    require_divisible(model, args.model, args.tensor_parallel_size)
    shard = model.shard(args.tensor_parallel_size)
    grid = MemoryGrid(
        prompt_tokens=parse_prompt_grid(args.prompts),
        batch_sizes=parse_batch_sizes(args.batch_size),
        budget_tokens=largest_budget(parse_budget(args.budget)),
        capacity_bytes=capacity.size_bytes,
        pool_bytes=None if args.pool_gib is None else _bytes("pool_gib", args.pool_gib),
        shape=EngineShape(
            engine=args.engine,
            block_size=args.block_size,
            max_num_batched_tokens=args.max_num_batched_tokens,
            sampled_in_fp32=args.logits != "last",
            logits_of_all=args.logits == "all",
        ),
    )
    require_window(model, max(grid.prompt_tokens) + grid.budget_tokens, "prompts")
    points, ends = memory_points(shard, grid), walls(shard, grid)
    report = _report(model, dtype, grid, capacity) | {"tensor_parallel_size": args.tensor_parallel_size}
    if args.json:
        rows = {"points": [point.to_dict() for point in points], "walls": [wall.to_dict() for wall in ends]}
        print(json.dumps(report | rows))
    else:
        print(
            "\n".join([*_heading(report, capacity), "", *_table(grid, points), "", *(_sentence(wall) for wall in ends)])
        )
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """The available memory: `share` (0 to 1) of `source`, which is an option or a device; None for all of it."""

    size_bytes: int
    source: str
    share: float | None = None

    @property
    def plain(self) -> str:
        """The source in JSON: `90% of NVIDIA A10`."""
        return self.source if self.share is None else f"{exact(100 * self.share)}% of {self.source}"

    @property
    def text(self) -> str:
        """The source on the terminal: `90 % of NVIDIA A10`."""
        return self.source if self.share is None else f"{exact(100 * self.share, '%')} of {self.source}"


def _capacity(args: argparse.Namespace) -> MemoryLimit:
    """The machine's own memory counts only if no option sets a size."""
    share = args.gpu_memory_utilization
    SETTINGS["gpu_memory_utilization"].check(share)
    if args.capacity_gib is not None:
        return MemoryLimit(size_bytes=_bytes("capacity_gib", args.capacity_gib), source="--capacity-gib")
    if args.hardware is not None:
        preset = HARDWARE[args.hardware]
        return MemoryLimit(size_bytes=usable_bytes(preset.memory_bytes, share), source=preset.label, share=share)
    machine = _machine(args.device)
    if machine is None:
        raise FieldError(
            "capacity_gib", "capacity-gib: the memory of this machine is unknown; set it, for example 22.06"
        )
    if machine.kind == "cpu":
        return MemoryLimit(size_bytes=machine.total_bytes, source=f"all of {machine.name}")
    return MemoryLimit(size_bytes=usable_bytes(machine.total_bytes, share), source=machine.name, share=share)


def _machine(device: str) -> MachineMemory | None:
    card = None if device == "cpu" else gpu_memory()
    if device == "cuda" and card is None:
        raise FieldError("device", "device cuda: no CUDA GPU found; use cpu, or set its memory with --capacity-gib")
    return card or host_memory()


def _dtype(args: argparse.Namespace) -> str:
    """`auto` resolves as in a run on that kind of device. A named GPU counts as a GPU on any machine."""
    kind = args.device if args.hardware is None else "cuda"
    if kind == "auto" and args.dtype == "auto":
        kind = "cpu" if gpu_memory() is None else "cuda"
    return dtype_of(args.dtype, kind)


def _bytes(name: str, gib: float) -> int:
    SETTINGS[name].check(gib)
    return int(gib * GIB)


def _report(model: ModelShape, dtype: str, grid: MemoryGrid, capacity: MemoryLimit) -> dict[str, Any]:
    return {
        "model": model.name,
        "dtype": dtype,
        "weight_bits": model.weight_bits,
        "parameters": model.parameters,
        "experts": model.experts,
        "experts_per_token": model.experts_per_token,
        "kv_position_bytes": model.kv_position_bytes,
        "engine": grid.shape.engine,
        "kv_layout": PRESETS[grid.shape.engine].kv_layout,
        "budget_tokens": grid.budget_tokens,
        "capacity_bytes": grid.capacity_bytes,
        "capacity_from": capacity.plain,
        "pool_bytes": grid.pool_bytes,
    }


def _heading(report: dict[str, Any], capacity: MemoryLimit) -> list[str]:
    pool = "" if report["pool_bytes"] is None else f", KV pool at most {size(report['pool_bytes'])}"
    at_once = " (those requests wait or are preempted)" if PRESETS[report["engine"]].has_blocks else ""
    gpus = report["tensor_parallel_size"]
    of_each = "" if gpus == 1 else f" for each of {gpus} GPUs"
    experts = f"{report['experts']} experts in a layer, {report['experts_per_token']} per token: all weights are held"
    return [
        f"{report['model']} in {report['dtype']} ({report['weight_bits']}-bit weights), engine {report['engine']}, "
        f"{report['budget_tokens']:,} output tokens",
        *([experts] if report["experts"] else []),
        f"capacity {size(report['capacity_bytes'])} ({capacity.text}){pool}",
        f"GiB by prompt length and batch size{of_each}; ! marks what does not fit{at_once}",
    ]


def _table(grid: MemoryGrid, points: list[MemoryPoint]) -> list[str]:
    by_place = {(point.prompt_tokens, point.batch_size): point for point in points}
    header = ["prompt", *(f"{size:,} " for size in grid.batch_sizes)]
    rows = [
        [f"p{tokens}", *(_cell(by_place[tokens, size]) for size in grid.batch_sizes)] for tokens in grid.prompt_tokens
    ]
    return table_lines(rows, "l" + "r" * len(grid.batch_sizes), header)


def _cell(point: MemoryPoint) -> str:
    return number(point.need.total_bytes / GIB) + (" " if point.fits else "!")


def _sentence(wall: Wall) -> str:
    if wall.largest is None:
        return f"p{wall.prompt_tokens}: every batch size fits"
    fits = "no row fits" if wall.largest == 0 else f"up to {wall.largest:,} rows fit"
    failing = wall.first_failing
    if failing is None or failing.shortage is None:
        return f"p{wall.prompt_tokens}: {fits}"
    ended = failing.shortage
    return (
        f"p{wall.prompt_tokens}: {fits}; {failing.batch_size:,} fail at the {TERM_LABELS[ended.term]}: "
        f"{size(ended.asked_bytes)} in one piece, {size(ended.free_bytes)} left"
    )
